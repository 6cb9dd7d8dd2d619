"""Resume runs whose run.json or checkpoint was changed, with recomputed checksums."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import struct
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
MAGIC = b"netsim checkpoint\n"


def go_on(number: int, scratch: Path) -> tuple[str, list[Finding]]:
    """Change run.json or the checkpoint of a stopped run, and resume it."""
    rng = random.Random(f"state {number}")
    sample = _sample(rng.randrange(len(EXPERIMENTS)))
    folder = scratch / "r"
    shutil.copytree(sample / "r", folder)
    shutil.copy(sample / "e.toml", scratch)
    start = json.loads((folder / "run.json").read_text())
    start |= {"experiment": str(scratch / "e.toml"), "directory": str(scratch)}
    (folder / "run.json").write_text(json.dumps(start))
    what = ""
    if rng.random() < 0.3:
        what = f"run.json: {damage.change_json(rng, folder / 'run.json')}"
    else:
        what = f"checkpoint: {_change(rng, folder / 'checkpoint.netsim')}"
    way = rng.choice(["resume", "resume", "resume", "run"])
    arguments = ["resume", "r", "--trust", "--quiet"]
    if way == "run":
        arguments = ["run", "e.toml", "--out", "r", "--checkpoint", "1s", "--quiet"]
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
    """Change the header or the arrays of a checkpoint, with matching checksum and digest."""
    content = path.read_bytes()
    (length,) = struct.unpack_from("<Q", content, len(MAGIC))
    first = len(MAGIC) + 8
    header = json.loads(content[first : first + length])
    body = bytearray(content[first + length : -64])
    header["digest"] = DIGEST
    if rng.random() < 0.35:
        what = damage.change_tree(rng, header)
    else:
        what = _change_arrays(rng, header["arrays"], body)
    text = json.dumps(header).encode()
    whole = MAGIC + struct.pack("<Q", len(text)) + text + bytes(body)
    path.write_bytes(whole + hashlib.sha256(whole).digest() + bytes(32))
    return what


def _change_arrays(rng: random.Random, arrays: list[Any], body: bytearray) -> str:
    """Change numbers of arrays; every array is equally likely, including small index arrays."""
    where, begin = {}, 0
    for name, _, _, size in arrays:
        where[name] = (begin, size)
        begin += size
    what = []
    for _ in range(rng.choice([1, 1, 2, 5])):
        name = rng.choice([one for one, (_, size) in where.items() if size >= 8])
        begin, size = where[name]
        numbers = np.frombuffer(body, np.int64, size // 8, begin)
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
        name, _, shape, _ = arrays[rng.randrange(len(arrays))]
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
    from netsim.running.run_manifest import Checkpoints, RunManifest
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
                RunOptions(1, checkpoints=Checkpoints(RunManifest.of(experiment, 1000.0))),
                Callbacks(should_stop=lambda: next(looks) > 6),
            )
        )
    drive.CHUNK_S = chunk_s
    assert not outcomes[0].complete
    assert (folder / "r" / "checkpoint.netsim").is_file(), outcomes
    return folder
