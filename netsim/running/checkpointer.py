"""Write checkpoints of a run at intervals, and restore a run from one."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.errors import InputError, warn_once
from netsim.running import checkpoint
from netsim.running.checkpoint import Checkpoint, CheckpointHeader

if TYPE_CHECKING:
    from netsim.engine.engine import Engine
    from netsim.running.stall import StallDetector


@dataclass
class Checkpointer:
    """Writes the checkpoint of one run every `every_s` seconds (None: never).

    `since` is the checkpoint that the run resumes from, if any.
    """

    point: str
    path: Path
    run_inputs: Mapping[str, Any]
    every_s: float | None
    since: Checkpoint | None = None
    _written: float = field(default_factory=time.monotonic)

    def find(self, *, trust: bool = False) -> None:
        """Resume from the checkpoint at `path`.

        Raises InputError if it does not match, or if another user wrote it and `trust` is false.
        """
        found = checkpoint.read(self.path)
        found.require(self.run_inputs)
        if not trust:
            found.require_seal()
        self.since = found

    @property
    def is_active(self) -> bool:
        """Whether this run resumes from a checkpoint or writes one."""
        return self.every_s is not None or self.since is not None

    @property
    def since_ps(self) -> int:
        """Simulated time at which the run starts."""
        return self.since.header.now_ps if self.since else 0

    @property
    def earlier_s(self) -> float:
        """Wall-clock time of the run before its checkpoint."""
        return self.since.header.wall_s if self.since else 0.0

    def restore(self, engine: Engine, stall_detector: StallDetector) -> None:
        """Restore the engine and the stall detector from the checkpoint, if any.

        Raises InputError if the engine has another layout.
        """
        self._written = time.monotonic()
        if self.since is None:
            return
        from netsim.engine.snapshot import ForeignSnapshotError

        header = self.since.header
        try:
            engine.restore(self.since.snapshot)
        except ForeignSnapshotError as error:
            raise InputError(f"does not match: {error}", file=str(self.path)) from None
        if engine.digest() != header.digest:
            raise InputError("damaged: the restored state has another digest", file=str(self.path))
        stall_detector.restore(header.stall)

    def write_if_due(self, engine: Engine, wall_s: float, stall_detector: StallDetector) -> None:
        """Write a checkpoint if the interval has passed."""
        if self.every_s is not None and time.monotonic() - self._written >= self.every_s:
            self.write(engine, wall_s, stall_detector)

    def write(self, engine: Engine, wall_s: float, stall_detector: StallDetector) -> None:
        """Write a checkpoint if the run writes any; warn if that fails."""
        if self.every_s is None:
            return
        header = CheckpointHeader(
            point=self.point,
            run_inputs=self.run_inputs,
            now_ps=engine.now_ps,
            wall_s=wall_s,
            stall=stall_detector.state(),
            digest=engine.digest(),
        )
        try:
            checkpoint.write(self.path, header, engine.snapshot())
        except OSError as error:
            warn_once(f"cannot write {self.path}: {error.strerror or error}; the run continues")
        self._written = time.monotonic()
