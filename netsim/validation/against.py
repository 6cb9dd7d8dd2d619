"""Run netsim and another simulator on the same input in turns."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError, RunError
from netsim.validation.child import Usage, run
from netsim.validation.htsim import PeerInput, PeerOutput

LEAST_END_US, TIMES_LONGER = 1000, 20
"""Most simulated time of the other simulator: at least, and in netsim's last completion times."""

COMPLETION: dict[str, Callable[[NDArray[np.float64]], Any]] = {
    "mean": np.mean,
    "p50": np.median,
    "p99": lambda times_us: np.quantile(times_us, 0.99),
    "max": np.max,
}
"""Name -> figure of an array of completion times."""

Turn = Mapping[str, float]
"""One run: `simulated_s`, the fields of `Usage`, and COMPLETION in us."""


@dataclass(frozen=True)
class Comparison:
    """The runs of both simulators, in pairs."""

    netsim: list[Turn]
    peer: list[Turn]

    def medians(self, name: str) -> tuple[float, float, float]:
        """Return the medians of a figure, netsim's first, and that of the pairs' ratios."""
        own, other = ([turn[name] for turn in turns] for turns in (self.netsim, self.peer))
        ratios = [theirs / max(ours, 1e-9) for ours, theirs in zip(own, other, strict=True)]
        return median(own), median(other), median(ratios)


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
        last_us = _netsim(experiment, directory, limits)["max"]
        end_us = max(LEAST_END_US, round(TIMES_LONGER * last_us))
        argv = [str(program.resolve()), *given.write(directory, end_us)]
        for _ in range(limits.repeats):
            done.netsim.append(_netsim(experiment, directory, limits))
            note("netsim", done.netsim[-1])
            output = PeerOutput(given.flows, end_us)
            usage = run(argv, directory, limits.cores, limits.limit_s, output.read)
            output.check(program)
            simulated_s = output.ended_s - output.began_s
            done.peer.append(_turn(simulated_s, usage, np.array(output.times_us)))
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
    return _turn(float(result.summary["wall_s"]), usage, times_us)


def _turn(simulated_s: float, usage: Usage, times_us: NDArray[np.float64]) -> Turn:
    completion = {name: float(figure(times_us)) for name, figure in COMPLETION.items()}
    return {"simulated_s": simulated_s, **asdict(usage), **completion}
