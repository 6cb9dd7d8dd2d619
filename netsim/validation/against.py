"""Run netsim and another simulator on the same input in turns."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError, RunError
from netsim.validation.child import Usage, run
from netsim.validation.htsim import PeerInput, PeerOutput

LEAST_END_US, TIMES_LONGER = 1000, 20
"""Most simulated time of the other simulator: at least, and in netsim's last completion times."""

FIGURES: dict[str, Callable[[NDArray[np.float64]], float]] = {
    "mean": lambda times: float(times.mean()),
    "p50": lambda times: float(np.quantile(times, 0.5)),
    "p99": lambda times: float(np.quantile(times, 0.99)),
    "max": lambda times: float(times.max()),
}
"""Name -> figure of an array of completion times."""


@dataclass(frozen=True)
class Turn:
    """One run: time of the simulated part, what the program used, completion times of all flows."""

    simulated_s: float
    usage: Usage
    times_us: NDArray[np.float64]

    @property
    def costs(self) -> dict[str, float]:
        used = self.usage
        return {
            "simulated_s": self.simulated_s,
            "whole_s": used.whole_s,
            "processor_s": used.processor_s,
            "peak_bytes": used.peak_bytes,
        }

    @property
    def completion_us(self) -> dict[str, float]:
        return {name: figure(self.times_us) for name, figure in FIGURES.items()}


@dataclass(frozen=True)
class Comparison:
    """The runs of both simulators, in pairs."""

    netsim: list[Turn]
    peer: list[Turn]

    def cost(self, name: str) -> tuple[float, float, float]:
        """Return the medians of a cost, netsim's first, and that of the pairs' ratios."""
        pairs = [(own.costs[name], other.costs[name]) for own, other in self._pairs()]
        own, other = (statistics.median(values) for values in zip(*pairs, strict=True))
        return own, other, statistics.median(other / max(own, 1e-9) for own, other in pairs)

    def completion_us(self, name: str) -> tuple[float, float]:
        """Return the medians of a figure of the completion times, netsim's first."""
        own, other = (
            statistics.median(turn.completion_us[name] for turn in turns)
            for turns in (self.netsim, self.peer)
        )
        return own, other

    def _pairs(self) -> Iterator[tuple[Turn, Turn]]:
        return zip(self.netsim, self.peer, strict=True)


@dataclass(frozen=True)
class Limits:
    """How often each simulator runs, netsim's threads, and the longest time of a run.

    Both simulators have as many cores as there are threads.
    """

    repeats: int
    threads: int
    limit_s: float

    @property
    def cores(self) -> list[int]:
        """Cores that both may use; none: all."""
        if not hasattr(os, "sched_getaffinity"):
            return []
        return sorted(os.sched_getaffinity(0))[: self.threads]


def compare(
    experiment: Sequence[str],
    program: Path,
    given: PeerInput,
    limits: Limits,
    note: Callable[[str, Turn], None],
) -> Comparison:
    """Run `experiment`, arguments of `netsim run`, and `program` on the same, `given`, in turns.

    netsim runs once before, so that it need not compile later. `note` gets each run and whose it
    is. Raises InputError if the other simulator cannot run or prints something else, RunError if
    netsim fails.
    """
    done = Comparison([], [])
    with tempfile.TemporaryDirectory(prefix="netsim-against-") as name:
        directory = Path(name)
        last_us = _netsim(experiment, directory, limits).times_us.max()
        end_us = max(LEAST_END_US, round(TIMES_LONGER * last_us))
        argv = [str(program.resolve()), *given.write(directory, end_us)]
        for _ in range(limits.repeats):
            done.netsim.append(_netsim(experiment, directory, limits))
            note("netsim", done.netsim[-1])
            output = PeerOutput(given.flows, end_us)
            usage = run(argv, directory, limits.cores, limits.limit_s, output.read)
            output.check(program)
            simulated_s = output.ended_s - output.began_s
            done.peer.append(Turn(simulated_s, usage, np.array(output.times_us)))
            note(program.name, done.peer[-1])
    return done


def _netsim(experiment: Sequence[str], directory: Path, limits: Limits) -> Turn:
    from netsim.results import load_result

    out = directory / "result"
    options = ("--force", "--quiet", "--threads", str(limits.threads), "--out", str(out))
    argv = [sys.executable, "-P", "-m", "netsim", "run", *experiment, *options]
    try:
        usage = run(argv, Path.cwd(), limits.cores, limits.limit_s)
    except InputError as error:
        raise RunError(f"netsim {error.message}") from None
    result = load_result(out)
    if not result.complete:
        raise RunError(f"netsim: {result.reason}")
    times_us = result.flows["acked_ps"].to_numpy() / 1e6
    return Turn(float(result.summary["wall_s"]), usage, times_us)
