"""netsim handles mutated experiments, files and results: it computes or explains, and ends.

The cases are always the same ones. `FUZZ=10000 pytest tests/test_fuzz.py -k experiments` tries that
many other cases of a kind.
"""

import json
import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fuzz import experiments, files, values
from fuzz.judge import SECONDS, OverTimeError, assert_names, assert_sound, run
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import netsim
from netsim.experiment import Experiment
from netsim.results import load_result
from netsim.running.estimate import estimate

REJECTION_LIMIT_S = 2.0
MAX_PACKET_HOPS, MAX_LINKS, MAX_POINTS = 6_000, 400, 3

Case = Callable[[random.Random], None]


def tries(count: int, check: Case) -> None:
    """Try a check with hypothesis's random choices: fixed ones, or the number in FUZZ."""
    more = int(os.environ.get("FUZZ", "0"))

    @settings(
        max_examples=more or count,
        derandomize=not more,
        database=None,
        phases=(Phase.generate, Phase.shrink) if more else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(0, 2**62))
    def each(seed: int) -> None:
        check(random.Random(seed))

    each()


@pytest.fixture(autouse=True)
def _scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in a separate folder, in plain Python, with 1 GB of free memory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    for module in ("common.memory", "running.estimate", "running.processes", "engine.pool"):
        monkeypatch.setattr(f"netsim.{module}.available_bytes", lambda *_: 10**9)
    for path in experiments.LISTS:
        shutil.copy(path, tmp_path)


def test_experiments() -> None:
    """Rejected with place and key, or accepted with all values in range and written out whole."""
    statuses: Counter[int] = Counter()

    def check(rng: random.Random) -> None:
        case = (experiments.tiny if rng.random() < 0.2 else experiments.mutated)(rng)
        file = Path("e.toml").absolute()
        file.write_bytes(case.content)
        outcome = run(["check", str(file), *case.arguments])
        statuses[outcome.status] += 1
        if outcome.status == 2:
            assert_names(outcome.err, case.wrong)
            return
        assert not case.wrong
        changes = [
            value if option == "--set" else f"seed={value}"
            for option, value in zip(case.arguments[::2], case.arguments[1::2], strict=True)
        ]
        points = Experiment.load(file, changes).points()
        assert points
        for point in points[:4]:
            predicted = estimate(point)
            for name in ("n_hosts", "n_flows", "packets", "packet_hops", "memory_bytes", "seconds"):
                assert 0 <= getattr(predicted, name) < 2**62, name
            again = Experiment.from_tree(point.resolved, str(file), file.parent).points()
            assert [one.resolved for one in again] == [point.resolved]

    tries(60, check)
    assert min(statuses[0], statuses[2]) > 5


def test_runs() -> None:
    """What `netsim check` accepts runs, with sound results and the exit status that they imply."""

    def check(rng: random.Random) -> None:
        file = Path("e.toml").absolute()
        file.write_bytes(experiments.tiny(rng).content)
        if run(["check", str(file)]).status == 2:
            return
        points = Experiment.load(file).points()
        predicted = [estimate(point) for point in points[:MAX_POINTS]]
        hops, n_links = sum(one.packet_hops for one in predicted), sum(x.n_links for x in predicted)
        if len(points) > MAX_POINTS or hops > MAX_PACKET_HOPS or n_links > MAX_LINKS:
            return
        shutil.rmtree("out", ignore_errors=True)
        try:
            status = run(["run", str(file), "--out", "out"], (0, 1), 2 * SECONDS).status
        except OverTimeError:
            return  # a run may be long
        results = [load_result(path.parent) for path in Path("out").rglob("summary.json")]
        assert results or status == 1
        for result in results:
            assert_sound(result)
        assert status == 0 or not all(result.complete for result in results)

    tries(12, check)


def check_file(case: files.Case) -> int:
    """Check the experiment that names a file; return the exit status."""
    Path(case.name).write_bytes(case.content)
    for path in case.beside:
        shutil.copy(path, Path())
    Path("e.toml").write_text(case.experiment, "utf-8")
    outcome = run(["check", "e.toml"])
    # Errors of several traces name their prefix.
    named = any(name in outcome.err for name in (case.name, "step_8", "e.toml"))
    assert named or outcome.status == 0, outcome.err
    return outcome.status


def test_files() -> None:
    """Damaged flow lists, topologies, sizes, requests and files of other tools."""
    statuses: Counter[int] = Counter()
    tries(40, lambda rng: statuses.update([check_file(files.damaged(rng))]))
    assert min(statuses[0], statuses[2]) > 3


def test_hostile_files() -> None:
    """Small files with counts that would need much memory are rejected quickly."""
    Path("valid.toml").write_text(experiments.text_of(experiments.shipped()[0]))
    run(["check", "valid.toml"])  # imports what commands need

    def check(rng: random.Random) -> None:
        case = files.hostile(rng)
        began = time.process_time()
        if check_file(case) == 2:
            assert time.process_time() - began < REJECTION_LIMIT_S

    tries(20, check)


SWEEP = """
transport = ["dctcp", "ndp", "ideal"]
topology = {kind = "fat_tree", hosts_per_leaf = 2, leaves = 2}
traffic = {kind = "permutation", size = "9KB"}
"""
TABLES = ("summary.json", "experiment.json", "flows.parquet", "links.parquet", "sweep.parquet")


def damage(rng: random.Random, folder: Path) -> None:
    """Damage a file of a result."""
    found = [path for name in TABLES for path in sorted(folder.rglob(name))]
    path, other = rng.choice(found), rng.choice(found)
    content = path.read_bytes()
    if path.suffix == ".json" and rng.random() < 0.5:
        tree = json.loads(content)
        change_json(rng, tree)
        content = json.dumps(tree).encode()
    elif rng.random() < 0.3:
        at = rng.randrange(len(content))
        content = content[:at] + bytes([rng.randrange(256)]) + content[at + 1 :]
    elif rng.random() < 0.5:
        content = content[: rng.randrange(len(content))]
    else:
        content = rng.choice([b"", b"\xff\xfe", b"[]", b"{}", b"[" * 20000, other.read_bytes()])
    path.unlink()
    if rng.random() < 0.8:
        path.write_bytes(content)
    elif rng.random() < 0.5:
        path.mkdir()


def change_json(rng: random.Random, tree: Any) -> None:
    """Change, remove or rename a value at any depth."""
    key = rng.choice(list(tree) if isinstance(tree, dict) else range(len(tree)))
    if isinstance(tree[key], dict | list) and tree[key] and rng.random() < 0.8:
        change_json(rng, tree[key])
        return
    odd = [value for value in values.ANYTHING if not isinstance(value, values.Raw)]
    way = rng.choice(["value", "value", "remove", "rename"])
    if way == "value":
        tree[key] = rng.choice([*odd, None, 10**400, -1, 1e308, "1Tbps", "0B"])
    elif way == "rename" and isinstance(tree, dict):
        tree[values.misspelled(rng, key)] = tree.pop(key)
    else:
        del tree[key]


def test_damaged_results() -> None:
    """Commands that read a result reject it or repair it."""
    Path("e.toml").write_text(SWEEP)
    assert run(["run", "e.toml", "--out", "whole", "--quiet"]).status == 0

    def check(rng: random.Random) -> None:
        shutil.rmtree("result", ignore_errors=True)
        shutil.copytree("whole", "result")
        damage(rng, Path("result"))
        target = rng.choice(["result", *map(str, Path("result").glob("*/"))])
        command = rng.choice(["plot", "report", "trace", "run", "load"])
        if command == "load":
            try:
                for point in getattr(netsim.load(target), "points", []):
                    repr((point, point.name, point.complete, point.flows, point.links))
            except netsim.InputError:
                return
        elif command == "run":
            if run(["run", "e.toml", "--out", "result", "--quiet"], (0, 1, 2)).status == 0:
                for path in Path("result").rglob("summary.json"):
                    assert_sound(load_result(path.parent))
        else:
            more = ["--flow", "3"] if command == "trace" else ["--out", "picture.html"]
            more = ["--kind", "fct_cdf"] if command == "plot" else more
            run([command, target, *more], (0, 1, 2))

    tries(8, check)
