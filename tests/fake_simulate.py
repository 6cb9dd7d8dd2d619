"""Stand-ins for modules of netsim.running: tests of the command line need no engine."""

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from fakes import FakeResult, fake_result

from netsim.engine.simulation import FeatureSet, Options
from netsim.errors import RunError
from netsim.running import estimate, executor, point
from netsim.running.estimate import Code, Memory
from netsim.running.point import NO_OPTIONS

MEMORY = Memory(held=10**6, state=8 * 10**6, results=10**6)


@dataclass
class FakeEstimate:
    """The attributes of netsim.running.estimate.Estimate."""

    n_hosts: int = 8
    n_switches: int = 6
    n_links: int = 48
    n_flows: int = 8
    packets: int = 1000
    packet_hops: int = 8000
    simulated_ps: int = 10**9
    memory_bytes: int = 10**6
    seconds: float = 1.5
    setup_seconds: float = 0.1
    feature_set: FeatureSet = field(default_factory=FeatureSet)
    assumptions: str = "a machine that does not exist"
    notes: tuple[str, ...] = ()
    pfc: str | None = "deadlock-free"
    far: tuple[str, ...] = ()
    memory: Memory = MEMORY
    advice: tuple[str, ...] = ()
    scenario: None = None

    def seconds_with(self, _: int) -> float:
        """Return a time so short that one process runs all points."""
        return 0.0


@dataclass
class FakeProgress:
    """The attributes of netsim.running.point.Progress."""

    phase: str = "run"
    simulated_ps: int = 0
    flows_done: int = 0
    flows_total: int = 8
    packet_hops: int = 0
    wall_s: float = 0.0
    bytes_done: int = 0
    bytes_total: int = 1000
    tasks_done: int = 0
    tasks_total: int = 0
    counted: tuple[str, int, int] | None = None


@dataclass
class FakeSimulate:
    """Functions of the module. `fate` maps the name of a point to its outcome."""

    fate: dict[str, str] = field(default_factory=dict)
    memory_bytes: int = 10**6
    missing: int = 1
    seen: list[Any] = field(default_factory=list)
    threads: list[int | None] = field(default_factory=list)
    checked: list[bool] = field(default_factory=list)
    keepers: list[Any] = field(default_factory=list)
    assumptions: dict[str, str] = field(default_factory=dict)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Replace the functions of netsim."""

        def estimate_each(points: Any, *_: Any, **_how: Any) -> Iterator[tuple[Any, FakeEstimate]]:
            return ((one, self.estimate(one)) for one in points)

        monkeypatch.setattr(estimate, "estimate", self.estimate)
        monkeypatch.setattr(
            estimate, "code_needed", lambda *_: Code(needed=3, missing=self.missing)
        )
        for module in (estimate, executor):
            monkeypatch.setattr(module, "estimate_each", estimate_each)
        for module in (point, executor):
            monkeypatch.setattr(module, "simulate", self.simulate)

    def estimate(self, point: Any, budget_s: float | None = None) -> FakeEstimate:  # noqa: ARG002
        """Return an estimate; `assumptions` maps the name of a point to its assumptions."""
        text = self.assumptions.get(point.name, FakeEstimate.assumptions)
        return FakeEstimate(memory_bytes=self.memory_bytes, assumptions=text)

    def simulate(
        self,
        point: Any,
        *,
        threads: int | None,
        progress: Callable[[Any], None] | None,
        should_stop: Callable[[], bool] | None,
        checkpointer: Any = None,
        options: Options = NO_OPTIONS,
        **_: Any,
    ) -> FakeResult:
        """Replace netsim.running.point.simulate; the result does not depend on the point."""
        self.seen.append(point)
        self.threads.append(threads)
        self.checked.append(options.checked)
        self.keepers.append(checkpointer)
        if progress:
            progress(FakeProgress(phase="compile"))
            progress(FakeProgress(wall_s=1.0))
            progress(FakeProgress(wall_s=2.0, packet_hops=10**6, bytes_done=500, flows_done=3))
        fate = self.fate.get(point.name, "finished")
        if fate == "stalled":
            stall = "flow 7 (host 1 to host 2) made no progress"
            return fake_result(unfinished=2, complete=False, stop_reason=fate, reason=stall)
        if fate == "failed":
            raise RunError("the ring of link 3 cannot grow")
        if fate == "hung":
            assert options.on_hang is not None
            options.on_hang("build_packet does not come back")
        if fate in ("SIGINT", "SIGTERM"):
            os.kill(os.getpid(), signal.Signals[fate])
            assert should_stop is not None
            assert should_stop()
            return fake_result(unfinished=3, complete=False, stop_reason="interrupted")
        if fate == "impatient":
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        return fake_result(seed=point.seed)
