"""How many workers and how many windows the next call of the engine should get.

The result of a run depends on neither, so both may follow what is measured: small networks
and busy machines are simulated faster by one worker than by many that wait for each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field

CHUNK_S = 0.25
"""Wall-clock time that a call should take: between looks at progress, interruption and stalls."""

TRIAL_SHARE = 8
"""A trial of the other number of workers is shorter than a chunk by this factor ..."""

TRIAL_EVERY = 12
"""... and comes once in so many chunks, and three times as often among the first hundred."""

LONG_WINDOW = 100_000
"""Packet-hops in a window that outweigh any waiting for each other at its end."""

MEMORY = 0.5
"""Weight of the newest measurement in the running mean of a speed."""


@dataclass
class Tuner:
    """Chooses between one worker and ``threads``, and keeps calls at about CHUNK_S."""

    threads: int
    windows: int = 1
    speeds: dict[int, float] = field(default_factory=dict)
    calls: int = 0
    hops_per_window: float = 0.0

    def next_call(self) -> tuple[int, int]:
        """(workers, windows) of the next call."""
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
            # Many workers on a busy machine may be a thousand times slower.
            share = self.speeds[other] / self.speeds[best] / TRIAL_SHARE
            return other, max(1, int(self.windows * share))
        return best, self.windows

    def learn(self, workers: int, windows: int, hops: int, seconds: float) -> None:
        """What a call took. Speeds are packet-hops per second."""
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
