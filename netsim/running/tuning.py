"""Choose the number of workers and windows for the next call of the engine.

Results depend on neither, so both can follow measured speeds. One worker is often faster than
several in small networks and on busy machines.
"""

from __future__ import annotations

from dataclasses import dataclass, field

CHUNK_S = 0.25
"""Target wall-clock time of a call, after which progress, interruption and stalls are checked."""

TRIAL_SHARE = 8
"""Factor by which a trial of the other number of workers is shorter than a chunk."""

TRIAL_EVERY = 12
"""Chunks between trials; a third of it among the first hundred."""

LONG_WINDOW = 100_000
"""Packet-hops per window above which the barrier at its end costs nothing."""

MEMORY = 0.5
"""Weight of the newest speed in the running mean."""


@dataclass
class Tuner:
    """Chooses between one worker and `threads`, and keeps calls at about CHUNK_S."""

    threads: int
    windows: int = 1
    speeds: dict[int, float] = field(default_factory=dict)
    calls: int = 0
    hops_per_window: float = 0.0

    def next_call(self) -> tuple[int, int]:
        """Return (workers, windows) of the next call."""
        self.calls += 1
        if self.threads == 1 or self.hops_per_window > LONG_WINDOW:
            return self.threads, self.windows
        missing = [w for w in (self.threads, 1) if w not in self.speeds]
        if missing:
            return missing[0], max(1, self.windows // TRIAL_SHARE)
        best = max(self.speeds, key=self.speeds.__getitem__)
        every = TRIAL_EVERY // 3 if self.calls < 100 else TRIAL_EVERY
        if self.calls % every == 0:
            other = 1 if best == self.threads else self.threads
            # Several workers on a busy machine may be a thousand times slower.
            share = self.speeds[other] / self.speeds[best] / TRIAL_SHARE
            return other, max(1, int(self.windows * share))
        return best, self.windows

    def learn(self, workers: int, windows: int, hops: int, seconds: float) -> None:
        """Record the duration of a call; speeds are packet-hops per second."""
        if hops > 0 and seconds > 0:
            speed = hops / seconds
            before = self.speeds.get(workers, speed)
            self.speeds[workers] = MEMORY * speed + (1 - MEMORY) * before
            self.hops_per_window = hops / windows
        if windows < self.windows:
            return
        if seconds < CHUNK_S / 2:
            self.windows = min(2 * self.windows, 1 << 20)
        elif seconds > 2 * CHUNK_S and self.windows > 1:
            self.windows //= 2
