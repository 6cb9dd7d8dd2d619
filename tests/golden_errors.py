"""Bad inputs and the errors that they raise: reading the golden file, and writing it again.

`tests/golden/errors.json` lists cases by what reads them. A case is a change of the base of its
kind (a null removes a key), or a whole text, with the files next to it and the values of `--set`. A
file is text, or a table: of bytes in hex, of a text and how often it is repeated, of a Chakra
trace's nodes, or of another file in gzip. Its errors are "file: key: code: message (hint)". After
changing a message:

    PYTHONPATH=tests python tests/golden_errors.py

and review the difference: file, key, wrong value and right value must stay.
"""

import gzip
import json
import re
import tempfile
from collections.abc import Callable, Mapping
from contextlib import chdir
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
from cli_fixtures import EXPERIMENT
from click.testing import CliRunner
from foreign_chakra import Node, trace
from lint_sources import SOURCES
from small_job import small_job
from topology_of import topology_of
from traffic_cases import made

from netsim import units
from netsim.cli import app
from netsim.engine.compiling import lint
from netsim.errors import InputError
from netsim.experiment import Experiment
from netsim.experiment.document import apply_overrides
from netsim.experiment.scenario import prepare
from netsim.model.inventory import read_prices
from netsim.params import Param, resolve_params
from netsim.plugins import registry
from netsim.validation.htsim import PEERS, peer_input
from netsim.workloads.collectives import schedule
from netsim.workloads.collectives.steps import CollectiveOptions
from netsim.workloads.cost.costs import cost_tables_from, load_cost_tables
from netsim.workloads.inference.deployment import load_deployment
from netsim.workloads.job.load import load_job
from netsim.workloads.job.machine import read_curves
from netsim.workloads.job.messages import Ranks, place
from netsim.workloads.job.paper import make_plan
from netsim.workloads.job.schedules import make_schedule
from netsim.workloads.serving.request_trace import read_request_trace
from netsim.workloads.training.sample import sample_job

GOLDEN = Path(__file__).parent / "golden" / "errors.json"

Case = dict[str, Any]


def _experiment(tree: Any, directory: Path, overrides: list[str]) -> None:
    if isinstance(tree, Path):
        Experiment.load(tree, overrides)
    else:
        Experiment.from_tree(tree, "e.toml", directory, apply_overrides(tree, overrides))


def _cost(tree: Any, directory: Path, _: Any) -> None:
    if isinstance(tree, Path):
        load_cost_tables(str(tree), directory)
    else:
        cost_tables_from(tree, "mine", directory)


def _traffic(tree: Any, directory: Path, _: Any) -> None:
    made(directory=directory, **tree)


def _prepared(tree: Any, directory: Path, overrides: list[str]) -> None:
    apply_overrides(tree, overrides)
    for point in Experiment.from_tree(tree, "e.toml", directory).points():
        prepare(point)


def _value(tree: Any, *_: Any) -> None:
    value = tree.pop("value", None)
    listed = {name: tuple(tree[name]) for name in ("each", "choices") if type(tree[name]) is list}
    Param(**{**tree, **listed}).convert(value)


def _sends(tree: Any, directory: Path, _: Any) -> None:
    if "file" in tree:
        tree["algorithm"] = str(directory / tree.pop("file"))
    what, n, size_bytes = (tree.pop(name) for name in ("what", "n", "size_bytes"))
    schedule(what, n, size_bytes, CollectiveOptions(**tree))


def _linted(tree: Any, directory: Path, _: Any) -> None:
    source = SOURCES[tree["kind"]]
    for before, after in tree["edits"]:
        assert source.count(before) >= 1, before
        source = source.replace(before, after, 1)
    (directory / "mine.py").write_text(f"{source}\n\n{tree['added']}\n")
    plugin = registry.find(tree["kind"], str(directory / "mine.py"))
    params = resolve_params(plugin.params, plugin.presets, {}, None, file=None, key="")
    lint.check(plugin, params)


def _command(tree: Any, directory: Path, _: Any) -> list[str]:
    """Return a command's output about an error, run next to small.toml and sweep.toml."""
    for name, extra in (("small", ""), ("sweep", "seed = [1, 2]")):
        content = EXPERIMENT.format(extra=extra, size='"1MB"')
        (directory / f"{name}.toml").write_text(content)
    with chdir(directory):
        outcome = CliRunner().invoke(app, tree["words"])
    assert (outcome.exit_code, "Traceback" in outcome.output) == (2, False), outcome.output
    errors = [line for line in outcome.stderr.splitlines() if line.lower().startswith("error: ")]
    return [re.sub(r"^error: /\S+/", "error: ", line) for line in errors]


def _placed(tree: Any, *_: Any) -> None:
    place(tree["name"], Ranks(**tree["ranks"]), 8, 16, np.random.default_rng(1))


def _peer(tree: Any, directory: Path, overrides: list[str]) -> None:
    peer = PEERS[tree.pop("program")]
    apply_overrides(tree, overrides)
    (point,) = Experiment.from_tree(tree, "e.toml", directory).points()
    peer_input(peer, point)


def _plugin_reader(kind: str) -> Callable[[Any, Path, list[str]], Any]:
    return lambda file, directory, _: registry.find(kind, file.name, relative_to=directory)


READERS: dict[str, Callable[[Any, Path, list[str]], Any]] = {
    "command": _command,
    "lint": _linted,
    "experiment": _experiment,
    "job": lambda tree, directory, _: load_job(tree, directory),
    "plan": lambda tree, directory, _: make_plan(tree, "mine", directory),
    "deployment": lambda tree, directory, _: load_deployment(tree, directory),
    "cost": _cost,
    "prices": lambda file, *_: read_prices(file),
    "prepared": _prepared,
    "network": lambda tree, directory, _: topology_of(tree, directory),
    "flows": _traffic,
    "serving": _traffic,
    "inference": _traffic,
    "value": _value,
    "quantity": lambda tree, *_: getattr(units, tree["parse"])(tree.get("value"), *tree["more"]),
    "collective": _sends,
    "curves": lambda tree, *_: read_curves(tree),
    "schedule": lambda tree, *_: make_schedule(*tree),
    "placement": _placed,
    "sample": lambda tree, *_: sample_job(small_job(tree["layout"]), tree["size"]),
    "peer": _peer,
    "requests": lambda tree, directory, _: read_request_trace(directory / tree["file"]),
    **{kind: _plugin_reader(kind) for kind in registry.KINDS},
}
"""Kind of input -> reader of its tree, or of its file, which raises the errors or returns them."""


def changed(base: Any, change: Any) -> Any:
    """Return a tree with changes; null removes a key."""
    if not isinstance(base, Mapping) or not isinstance(change, Mapping):
        return change
    kept = {key: value for key, value in base.items() if change.get(key, value) is not None}
    return kept | {
        key: changed(kept.get(key), value) for key, value in change.items() if value is not None
    }


def _content(given: Any) -> bytes:
    """Return the content of a case's file."""
    if isinstance(given, str):
        return given.encode()
    if "gzip" in given:
        return gzip.compress(_content(given["gzip"]), mtime=0)[: given.get("end")]
    if "nodes" in given:
        return trace([Node(**node) for node in given["nodes"]], given.get("version", "1.0.0"))
    if "repeated" in given:
        return _content(given["repeated"]) * int(given["times"])
    return bytes.fromhex(given["hex"])


def errors_of(kind: str, base: Any, case: Case, directory: Path) -> list[str]:
    """Return the errors of a case, sorted, without the names of temporary directories."""
    for name, content in case.get("files", {}).items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(_content(content))
    given: Any = deepcopy(changed(base, case.get("change", {})))
    if "text" in case:
        given = directory / ("e.py" if kind in registry.KINDS else "e.toml")
        given.write_text(case["text"])
    try:
        errors = READERS[kind](given, directory, case.get("set", [])) or []
    except InputError as error:
        errors = map(_shown, error.errors)
    return sorted(one.replace(f"{directory}/", "") for one in errors)


def _shown(error: InputError) -> str:
    assert len(str(error)) < 1000
    assert str(error).isprintable()  # any terminal can show it
    place = "".join(f"{part}: " for part in (error.file, error.key) if part)
    if error.message.startswith("invalid TOML"):  # Python's own words follow
        return f"{place}{error.code}: invalid TOML"
    message = re.sub(r"only \S+ are available", "only SOME are available", error.message)
    return f"{place}{error.code}: {message}" + (f" ({error.hint})" if error.hint else "")


def read_golden() -> dict[str, Any]:
    golden: dict[str, Any] = json.loads(GOLDEN.read_text("utf-8"))
    return golden


def golden_text(golden: Mapping[str, Any]) -> str:
    """Return the golden file: one line for a case's input, and one for each error."""
    kinds = []
    for kind, group in golden.items():
        cases = []
        for case in group["cases"]:
            given = json.dumps({name: value for name, value in case.items() if name != "errors"})
            errors = ",\n   ".join(json.dumps(one) for one in case["errors"])
            cases.append(f'{given[:-1]},\n  "errors": [\n   {errors}]}}')
        text = ",\n ".join(cases)
        kinds.append(f'"{kind}": {{"base": {json.dumps(group["base"])},\n "cases": [\n {text}]}}')
    return "{" + ",\n".join(kinds) + "}\n"


if __name__ == "__main__":
    golden = read_golden()
    for kind, group in golden.items():
        for case in group["cases"]:
            with tempfile.TemporaryDirectory() as directory:
                case["errors"] = errors_of(kind, group["base"], case, Path(directory).resolve())
    GOLDEN.write_text(golden_text(golden), "utf-8")
