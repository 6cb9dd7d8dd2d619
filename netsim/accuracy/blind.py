"""Predictions: written down before the truth is looked at, then held against it.

`netsim validate --blind FILE` simulates the cases of a TOML file that have no truth yet and writes
the predictions beside it, with a hash over all of them. `--reveal FILE` holds them against the
truth that was added since. Format: docs/accuracy.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from netsim.accuracy.cases import Case, Row, Tolerance, find
from netsim.documents import COUNT, NUMBER, Each, Rule, read_object, require
from netsim.errors import InputError, did_you_mean
from netsim.experiment import Experiment, locate
from netsim.experiment.document import apply_overrides
from netsim.inputs import read_bytes, read_toml, user_path
from netsim.results.columns import specs
from netsim.results.provenance import fingerprint_of
from netsim.results.run_result import Table
from netsim.running.point import simulate
from netsim.writing import write_new

VALUE = (str, bool, NUMBER, list)
QUANTITY = {"of": str, "tolerance": Rule(float, "a number, 0 or more", 0), "because": str}
CASE = {
    "about": str,
    "set?": Each(VALUE),
    "files?": Each(str),
    "truth?": Each(NUMBER),
    "source?": str,
    "why?": Each(str),
}
FILE = {"experiment": (str, dict), "quantities": Each(QUANTITY), "cases": Each(CASE)}
LATER = ("truth", "source", "why")
"""Keys of a case that may be added after the prediction."""

VALUES = {"unit": str, "mean": NUMBER, "least": NUMBER, "most": NUMBER, "runs": COUNT}
PREDICTIONS = {
    "version": str,
    "date": str,
    "commit": (str, None),
    "changed_since_commit": (bool, None),
    "cases": str,
    "files": Each(str),
    "predictions": Each(Each(VALUES)),
    "sha256": str,
}
FORMAT = "docs/accuracy.md describes the file"
STATISTICS: dict[str, Callable[..., Any]] = {
    "min": np.min,
    "mean": np.mean,
    "p50": np.median,
    "p99": partial(np.quantile, q=0.99),
    "max": np.max,
    "sum": np.sum,
}


FORMER = {"routing": "load_balancing"}
"""Keys of [fabric] that were renamed since predictions were written, with the names they had."""


@dataclass(frozen=True)
class Blind:
    """A file of cases, its content checked."""

    path: Path
    content: Mapping[str, Any]

    @property
    def predictions(self) -> Path:
        """The file of the predictions, beside that of the cases."""
        return self.path.with_name(f"{self.path.stem}.predictions.json")

    @property
    def cases(self) -> Mapping[str, Mapping[str, Any]]:
        found: Mapping[str, Mapping[str, Any]] = self.content["cases"]
        return found

    def experiment_file(self) -> Path | None:
        """Return the file of the experiment; none if it is a table."""
        name = self.content["experiment"]
        if isinstance(name, dict):
            return None
        path = user_path(name, self.path.parent)
        return path if path.is_file() else locate(name)

    def digest(self, *, former: bool = False) -> str:
        """Return a hash of the cases, with their experiment, without what may be added later; with
        the `former` names of keys that were renamed."""
        cases = {
            name: {key: value for key, value in case.items() if key not in LATER}
            for name, case in self.cases.items()
        }
        file = self.experiment_file()
        text = hashlib.sha256(read_bytes(file)).hexdigest() if file else ""
        content = {**self.content, "cases": cases, "experiment_file": text}
        if former and not file:
            fabric = dict(content["experiment"].get("fabric", {}))
            fabric |= {was: fabric.pop(now) for now, was in FORMER.items() if now in fabric}
            content["experiment"] = {**content["experiment"], "fabric": fabric}
        return fingerprint_of(content)


def load(path: Path) -> Blind:
    """Read a file of cases. Raises InputError with the wrong key."""
    content = read_toml(path)
    require(content, FILE, file=str(path), hint=FORMAT)
    blind = Blind(path, content)
    for at, known in ((content, FILE), *((case, CASE) for case in blind.cases.values())):
        names = {name.rstrip("?") for name in known}
        for name in at.keys() - names:
            raise InputError(
                "unknown key", file=str(path), key=name, hint=did_you_mean(name, names)
            )
    for name, one in content["quantities"].items():
        try:
            _parts(one["of"])
        except InputError as error:
            raise error.at(file=str(path), key=f"quantities.{name}.of") from None
    for case, values in blind.cases.items():
        for key in ("truth", "why"):
            if unknown := values.get(key, {}).keys() - content["quantities"].keys():
                at_key = f"cases.{case}.{key}.{min(unknown)}"
                raise InputError("is none of [quantities]", file=str(path), key=at_key)
    return blind


def _parts(text: str) -> tuple[str, str, str]:
    """Return table, column and statistic of a quantity. Raises InputError."""
    table, column, statistic = (*text.split("."), "", "")[:3]
    tables = {name: one for name, one in specs().items() if one.of_run}
    columns = {one.name for one in tables[table].columns} if table in tables else set()
    for what, name, known in (
        ("table", table, tables),
        ("column", column, columns),
        ("statistic", statistic, STATISTICS),
    ):
        if name not in known or text.count(".") != 2:
            hint = "TABLE.COLUMN.STATISTIC, as flows.fct_ps.max; " + did_you_mean(name, known)
            raise InputError(f'no {what} "{name}"', hint=hint, code="unknown_value")
    return table, column, statistic


def _value(text: str, tables: Mapping[str, Table]) -> tuple[float, str]:
    """Return a quantity of a result, and its unit; times are in us."""
    table, name, statistic = _parts(text)
    (column,) = (one for one in specs()[table].columns if one.name == name)
    values = tables.get(table, {}).get(name)
    if values is None or not len(values) or values.dtype.kind not in "iuf":
        raise InputError(f"{text}: the result has no such numbers")
    if column.null_below_zero and values.min() < 0:
        raise InputError(f"{text}: flows are unfinished", hint="a longer stop.max_time")
    found = float(STATISTICS[statistic](values))
    return (found / 1e6, "us") if column.unit == "ps" else (found, column.unit)


def predict(
    blind: Blind, data: Path | None, stamp: Mapping[str, Any], report: Callable[[str], None]
) -> str:
    """Simulate all cases and write their predictions; return their hash.

    `stamp` says when, and with which code; `report` gets the name of each case that is done.
    Raises InputError if there are predictions, if a case has its truth, or if a file is missing.
    """
    if blind.predictions.exists():
        hint = "predictions are made once; remove the file to forget them"
        raise InputError("there are predictions", file=str(blind.predictions), hint=hint)
    for name, case in blind.cases.items():
        if "truth" in case:
            what = "has its truth, so nothing is left to predict"
            raise InputError(what, file=str(blind.path), key=f"cases.{name}.truth")
    points = {name: experiment_of(blind, name, data) for name in blind.cases}
    quantities = blind.content["quantities"]
    found: dict[str, dict[str, Any]] = {}
    for name, experiment in points.items():
        runs = [simulate(point).tables for point in experiment.points()]
        found[name] = {}
        for which, one in quantities.items():
            values = [_value(one["of"], tables) for tables in runs]
            numbers = [value for value, _ in values]
            ends = {"least": min(numbers), "most": max(numbers), "runs": len(numbers)}
            found[name][which] = {"unit": values[0][1], "mean": float(np.mean(numbers)), **ends}
        report(name)
    named = {one for case in blind.cases.values() for one in case.get("files", {}).values()}
    hashes = {
        name: hashlib.sha256(read_bytes(_file(blind, name, data))).hexdigest() for name in named
    }
    content = {**stamp, "cases": blind.digest(), "files": hashes, "predictions": found}
    digest = fingerprint_of(content)
    write_new(blind.predictions, json.dumps({**content, "sha256": digest}, indent=1) + "\n")
    return digest


def _file(blind: Blind, name: str, data: Path | None) -> Path:
    beside = user_path(name, blind.path.parent)
    path = beside if beside.is_file() else find(data, Path(name).name)
    if path is None:
        hint = "neither beside the cases nor in the folder of --data"
        raise InputError(f"needs {name}", file=str(blind.path), hint=hint, code="unreadable")
    return path


def experiment_of(blind: Blind, name: str, data: Path | None) -> Experiment:
    """Return the experiment of a case."""
    case, file = blind.cases[name], blind.experiment_file()
    tree = read_toml(file) if file else deepcopy(blind.content["experiment"])
    files = {key: str(_file(blind, one, data)) for key, one in case.get("files", {}).items()}
    texts = [f"{key}={json.dumps(one)}" for key, one in {**case.get("set", {}), **files}.items()]
    overridden = apply_overrides(tree, texts)
    place = file or blind.path
    try:
        return Experiment.from_tree(tree, str(place), place.resolve().parent, overridden)
    except InputError as error:
        raise error.at(key=f"cases.{name}") from None


def reveal(blind: Blind) -> Iterator[Row]:
    """Hold the predictions of a file against its truth.

    Raises InputError if the predictions are not as they were written, or if the cases are not those
    that were predicted.
    """
    path = blind.predictions
    content = read_object(path, PREDICTIONS)
    digest = content.pop("sha256")
    if fingerprint_of(content) != digest:
        raise InputError("the predictions were changed: their hash does not fit", file=str(path))
    if content["cases"] not in (blind.digest(), blind.digest(former=True)):
        hint = f"only {', '.join(LATER)} may be added"
        what = "the cases are not those that were predicted"
        raise InputError(what, file=str(blind.path), hint=hint)
    predictions = content["predictions"]
    require(
        predictions,
        {name: dict.fromkeys(blind.content["quantities"], dict) for name in blind.cases},
        file=str(path),
        hint=FORMAT,
    )
    for name, case in blind.cases.items():
        for which, one in blind.content["quantities"].items():
            theirs = case.get("truth", {}).get(which)
            predicted = predictions[name][which]
            yield Row(
                f"{case['about']}: {which.replace('_', ' ')}",
                predicted["mean"],
                theirs,
                predicted["unit"] if predicted["unit"] != "1" else "",
                Tolerance(one["tolerance"], one["because"]),
                f"{case.get('source', '')}; predicted {content['date']}".lstrip("; "),
                case.get("why", {}).get(which, ""),
            )


def revealed(path: Path) -> Iterator[Row]:
    yield from reveal(load(path))


def cases() -> Iterator[Case]:
    """Yield our own predictions, a case a file."""
    for predictions in sorted(Path(__file__).with_name("predictions").glob("*.json")):
        name = predictions.name.removesuffix(".predictions.json")
        path = predictions.with_name(f"{name}.toml")
        measure = partial(revealed, path)
        yield Case(name, measure, 0.1, reads=(path, predictions))
