"""Writes checkpoints of a run as time goes by, and takes the run back to one."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.errors import InputError, warn_once
from netsim.running import checkpoint
from netsim.running.checkpoint import Checkpoint, Standing

if TYPE_CHECKING:
    from netsim.engine.engine import Engine
    from netsim.running.stall import Patience


@dataclass
class Keeper:
    """Of one run: where its checkpoint is, and how often it is written.

    `every_s` is the time between two checkpoints, None for a run that writes none; `since` the
    checkpoint that the run begins with, if it does not begin anew.
    """

    point: str
    path: Path
    made_of: Mapping[str, Any]
    every_s: float | None
    since: Checkpoint | None = None
    _written: float = field(default_factory=time.monotonic)

    def find(self, *, trust: bool = False) -> None:
        """Begin with the checkpoint that is there.

        Raises InputError if it does not fit, or somebody else has written it and there is no
        `trust`.
        """
        found = checkpoint.read(self.path)
        found.require(self.made_of)
        if not trust:
            found.require_seal()
        self.since = found

    @property
    def at_work(self) -> bool:
        """Whether there is, or will be, a checkpoint of this run."""
        return self.every_s is not None or self.since is not None

    @property
    def since_ps(self) -> int:
        """The simulated time at which the run begins."""
        return self.since.standing.now_ps if self.since else 0

    @property
    def earlier_s(self) -> float:
        """How long the run took until the checkpoint that it begins with."""
        return self.since.standing.wall_s if self.since else 0.0

    def put_back(self, engine: Engine, patience: Patience) -> None:
        """Begin where the run stood, if it does not begin anew.

        Raises InputError if the engine is not one that the checkpoint can have been written of.
        """
        self._written = time.monotonic()
        if self.since is None:
            return
        from netsim.engine.snapshot import ForeignSnapshotError

        standing = self.since.standing
        try:
            engine.restore(self.since.snapshot)
        except ForeignSnapshotError as error:
            raise InputError(f"does not fit: {error}", file=str(self.path)) from None
        if engine.digest() != standing.digest:
            raise InputError("gives another state than was written", file=str(self.path))
        patience.go_on(standing.patience)

    def keep_if_due(self, engine: Engine, wall_s: float, patience: Patience) -> None:
        """Write a checkpoint if the last one is old enough."""
        if self.every_s is not None and time.monotonic() - self._written >= self.every_s:
            self.keep(engine, wall_s, patience)

    def keep(self, engine: Engine, wall_s: float, patience: Patience) -> None:
        """Write a checkpoint, if the run writes any. One that cannot be written stops no run."""
        if self.every_s is None:
            return
        standing = Standing(
            point=self.point,
            made_of=self.made_of,
            now_ps=engine.now_ps,
            wall_s=wall_s,
            patience=patience.noted(),
            digest=engine.digest(),
        )
        try:
            checkpoint.write(self.path, standing, engine.snapshot())
        except OSError as error:
            warn_once(f"cannot write {self.path}: {error.strerror or error}; the run goes on")
        self._written = time.monotonic()
