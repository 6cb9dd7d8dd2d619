"""Resume runs whose checkpoint was changed, with recomputed checksums."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from . import damage, judge
from .command import Outcome, run
from .judge import Finding

SECONDS = 20.0
DIGEST = "0" * 64
"""Digest that engines report in half of the cases, since a forger could compute the right one."""

EXPERIMENTS = (
    'transport = "ndp"\n[topology]\nkind = "fat_tree"\nhosts_per_leaf = 3\nleaves = 2\n'
    '[traffic]\nkind = "permutation"\nsize = "60KB"\n[outputs]\nsample_interval = "10us"\n',
    'transport = "dcqcn"\n[topology]\nkind = "dumbbell"\nhosts = 3\n'
    '[traffic]\nkind = "permutation"\nsize = "40KB"\n',
    'transport = "swift"\n[topology]\nkind = "fat_tree"\nhosts_per_leaf = 2\nleaves = 2\n'
    '[traffic]\nkind = "ring_all_reduce"\nsize = "40KB"\n',
)
ODD = (0, 1, -1, 2, 7, 255, 1 << 31, -(1 << 31), 1 << 40, (1 << 62) - 1, 1 << 62, (1 << 63) - 1)


def go_on(number: int, scratch: Path) -> tuple[str, list[Finding]]:
    """Change the checkpoint of a stopped run, and resume it."""
    rng = random.Random(f"state {number}")
    sample = _sample(rng.randrange(len(EXPERIMENTS)))
    folder = scratch / "r"
    shutil.copytree(sample / "r", folder)
    shutil.copy(sample / "e.toml", scratch)
    what = _change(rng, folder / "checkpoint.netsim")
    way = rng.choice(["r", "r", "r", "e.toml"])
    arguments = ["run", way, "--out", "r", "--trust", "--quiet"]
    with _digest(known=rng.random() < 0.5):
        outcome = run(arguments, SECONDS)
    found = []
    for finding in _judged(outcome):
        detail = f"{way} after {what}: {finding.detail}"
        found.append(Finding(finding.kind, finding.what, detail))
    return f"{way} {outcome.status}", found


def _judged(outcome: Outcome) -> Iterator[Finding]:
    yield from judge.command(outcome, (0, 1, 2), plugin=True)
    if "IndexError" in outcome.err:
        yield Finding("memory", "compiled code would leave its arrays", outcome.err[:400])


class _digest:  # noqa: N801
    """Make engines report the digest of forged checkpoint headers."""

    def __init__(self, *, known: bool) -> None:
        self._known = known

    def __enter__(self) -> None:
        from netsim.engine.engine import Engine

        self._digest = Engine.digest
        if self._known:
            Engine.digest = lambda _: DIGEST  # type: ignore[method-assign, assignment]

    def __exit__(self, *_: object) -> None:
        from netsim.engine.engine import Engine

        Engine.digest = self._digest  # type: ignore[method-assign]


def _change(rng: random.Random, path: Path) -> str:
    """Change the header or the arrays of a checkpoint, with matching digest."""
    with np.load(path) as archive:
        arrays = dict(archive)
    header = json.loads(arrays.pop("header").tobytes())
    header["digest"] = DIGEST
    header["origin"] = {
        "experiment": str(path.parents[1] / "e.toml"),
        "overrides": [],
        "directory": "/",
    }
    if rng.random() < 0.35:
        what = damage.change_tree(rng, header)
    else:
        what = _change_arrays(rng, header["arrays"], arrays)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with path.open("wb") as file:
        np.savez(file, **arrays)
    return what


def _change_arrays(rng: random.Random, layout: dict[str, Any], arrays: dict[str, Any]) -> str:
    """Change numbers of arrays; every array is equally likely, including small index arrays."""
    what = []
    for _ in range(rng.choice([1, 1, 2, 5])):
        name = rng.choice([name for name, raw in arrays.items() if raw.size >= 8])
        numbers = arrays[name][: arrays[name].size // 8 * 8].view(np.int64)
        at = rng.randrange(numbers.size)
        way = rng.choice(["odd", "odd", "near", "bits"])
        if way == "odd":
            numbers[at] = rng.choice(ODD)
        elif way == "near":
            numbers[at] += rng.choice([-1, 1, 2, 100])
        else:
            numbers[at] ^= 1 << rng.randrange(63)
        what.append(f"{name}[{8 * at}] {way}")
    if rng.random() < 0.1:
        name = rng.choice([*layout])
        shape = layout[name][1]
        shape[0] = rng.choice([0, 1, 1 << 40, -1, shape[0] + 1, 2 * shape[0]])
        what.append(f"{name} of shape {shape}")
    return ", ".join(what)


@cache
def _sample(which: int) -> Path:
    """Return a run stopped halfway with a checkpoint, created once per process."""
    import os
    import tempfile

    from netsim.experiment import Experiment
    from netsim.running import drive
    from netsim.running.point_run import Callbacks, RunOptions
    from netsim.running.sweep import run_points

    os.environ["NUMBA_DISABLE_JIT"] = "1"
    folder = Path(tempfile.mkdtemp(prefix="state_", dir=Path.cwd().parent))
    (folder / "e.toml").write_text(EXPERIMENTS[which])
    experiment = Experiment.load(folder / "e.toml")
    chunk_s, drive.CHUNK_S = drive.CHUNK_S, 0.001
    looks = iter(range(1000))
    with _digest(known=True):
        outcomes = list(
            run_points(
                experiment.points(),
                folder / "r",
                RunOptions(1, checkpoint_s=1000.0, origin=experiment.origin),
                Callbacks(should_stop=lambda: next(looks) > 6),
            )
        )
    drive.CHUNK_S = chunk_s
    assert not outcomes[0].complete
    assert (folder / "r" / "checkpoint.netsim").is_file(), outcomes
    return folder
