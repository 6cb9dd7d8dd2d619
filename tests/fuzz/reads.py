"""Jobs that read input files of every format, and damaged results."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from . import damage, files, hostile, judge, results
from .command import Outcome, run
from .judge import Finding

SECONDS = 20.0

REJECTION_LIMIT_S = 2.0
"""Limit on the CPU time for rejecting a file that needs too much memory."""

SMALL = """
transport = {transport}
[topology]
kind = "fat_tree"
hosts_per_leaf = 2
leaves = 2
[traffic]
kind = "permutation"
size = "9KB"
"""

PLOTS = ("fct_cdf", "slowdown", "links", "fct_vs_load", "fct_by_transport")


def read_file(number: int, scratch: Path) -> tuple[str, list[Finding]]:
    """Check an experiment that names the mutated file `number`."""
    return _check(files.case(number), scratch)


def read_hostile(number: int, scratch: Path) -> tuple[str, list[Finding]]:
    """Check hostile file `number`, which must be rejected quickly."""
    _warm()
    began = time.process_time()
    verdict, found = _check(hostile.case(number), scratch)
    took = time.process_time() - began
    if verdict == "rejected" and took > REJECTION_LIMIT_S:
        found.append(Finding("slow", "rejected late", f"{took:.1f} s"))
    return verdict, found


def _check(case: files.Case, scratch: Path) -> tuple[str, list[Finding]]:
    (scratch / case.name).write_bytes(case.content)
    for path in case.beside:
        shutil.copy(path, scratch)
    (scratch / "e.toml").write_text(case.experiment, "utf-8")
    outcome = run(["check", "e.toml"], SECONDS)
    found = list(judge.command(outcome, (0, 2)))
    names = (case.name, "step_8", "e.toml")  # errors of several traces name their prefix
    if outcome.status == 2 and not any(name in outcome.err for name in names):
        found.append(Finding("message", "names no file", outcome.err[:300]))
    return ("accepted" if outcome.status == 0 else "rejected"), found


@cache
def _warm() -> None:
    """Import what commands need, so that its time does not count."""
    file = Path(tempfile.mkdtemp(prefix="warm_", dir=Path.cwd().parent)) / "e.toml"
    file.write_text(SMALL.format(transport='"dctcp"'))
    assert run(["check", str(file)], SECONDS).status == 0


def read_result(number: int, scratch: Path) -> tuple[str, list[Finding]]:
    """Damage a result and run a command that reads it."""
    rng = random.Random(f"result {number}")
    sweep = rng.random() < 0.4
    folder = scratch / "result"
    shutil.copytree(_sample(sweep), folder)
    shutil.copy(_sample(sweep).parent / "e.toml", scratch)
    what = damage.damage(rng, folder)
    target = rng.choice([folder, *results.folders(folder)]) if sweep else folder
    way = rng.choice(["plot", "report", "trace", "load", "run"])
    if way == "load":
        return _load(target, what)
    arguments = {
        "plot": ["plot", str(target), "--kind", rng.choice(PLOTS), "--out", "picture.png"],
        "report": ["report", str(target), "--out", "report.html"],
        "trace": ["trace", str(target), "--flow", rng.choice(["0", "3", "slowest"])],
        "run": ["run", "e.toml", "--out", str(folder), "--quiet"],
    }[way]
    outcome = run(arguments, SECONDS)
    return way, list(_judged(outcome, way, what, folder))


def _judged(outcome: Outcome, way: str, what: str, folder: Path) -> Iterator[Finding]:
    for finding in judge.command(outcome, (0, 1, 2)):
        yield Finding(finding.kind, finding.what, f"{way} after {what}: {finding.detail}")
    if way == "run" and outcome.status == 0:
        for finding in results.judged(folder, complete=True):
            yield Finding(finding.kind, finding.what, f"run after {what}: {finding.detail}")


def _load(folder: Path, what: str) -> tuple[str, list[Finding]]:
    """Load a result and access everything: it must work or raise InputError."""
    import netsim

    try:
        loaded = netsim.load(folder)
        repr(loaded)
        for point in loaded.points:
            repr(point)
            _ = point.name, point.complete, point.flows, point.links, point.summary["hash"]
    except netsim.InputError:
        return "rejected", []
    except KeyError as error:
        if error.args != ("hash",):
            return "?", [Finding("traceback", f"load: {error!r}", what)]
    except Exception as error:
        from .command import place

        text = f"load after {what}: {error!r}"[:400]
        return "?", [Finding("traceback", f"{type(error).__name__} {place(error)}", text)]
    return "loaded", []


@cache
def _sample(sweep: bool) -> Path:
    """Return the result of a small run, or of a sweep of three, created once per process."""
    folder = Path(tempfile.mkdtemp(prefix="sample_", dir=Path.cwd().parent))
    transports = '["dctcp", "ndp", "ideal"]' if sweep else '"dctcp"'
    (folder / "e.toml").write_text(SMALL.format(transport=transports))
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    out = folder / "result"
    outcome = run(["run", str(folder / "e.toml"), "--out", str(out), "--quiet"], SECONDS)
    assert outcome.status == 0, outcome
    return out
