"""Worker threads that are not scheduled neither delay a run nor change its result."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from engine_runs import TRIM, build, fat_tree, flow_table, run

from netsim.common.memory import available_cores
from netsim.engine import engine as engine_module
from netsim.engine.engine import Engine, assisted
from netsim.engine.kernels import loop
from netsim.engine.kernels.layout import Crew
from netsim.running.drive import drive


def engine(bytes_per_flow: int, threads: int) -> Engine:
    """Each host sends to a host in another rack; every receiver has two senders."""
    flows = [(host, (host + 9) % 64 // 2 * 2, bytes_per_flow, 0) for host in range(64)]
    network = fat_tree(8, 8, "400Gbps", switch_latency="200ns")
    return build(network, flow_table(flows), "ndp", TRIM, threads=threads)


@contextmanager
def never(*_: object) -> Iterator[None]:
    """Never run the other workers."""
    yield


@contextmanager
def late(of_all: Crew, n_workers: int, assist: Callable[[int], object]) -> Iterator[None]:
    """Run the other workers in the middle of a call, or after it."""

    def wait(worker: int) -> None:
        time.sleep(0.002 * worker)
        assist(worker)

    with assisted(of_all, n_workers, wait):
        yield


@pytest.mark.parametrize("others", [never, late])
def test_work_of_late_workers_is_done_by_others(
    others: Callable[..., Iterator[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run(engine(20 * 4096, 1)).digest()
    monkeypatch.setattr(engine_module, "assisted", others)
    for threads in (2, 3):
        assert run(engine(20 * 4096, threads)).digest() == expected


@pytest.mark.slow
def test_two_threads_on_busy_cores_are_not_slower_than_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "SHARED_NS", 30_000)
    took: dict[int, list[float]] = {1: [], 2: []}
    with ExitStack() as busy:
        for _ in range(available_cores()):
            other = busy.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            busy.callback(other.kill)
        for _ in range(5):
            for threads, times in took.items():
                one = engine(1_500 * 4096, threads)
                began = time.perf_counter()
                drive(one)
                times.append(time.perf_counter() - began)
    assert min(took[2]) < 1.5 * min(took[1])
