"""Profiles: the clock is read between the parts of a window, and nothing else changes."""

import time

import numba
import pytest
from engine_runs import LOSSLESS, TRIM, build, digest, fat_tree, flow_table, run

from netsim.engine.instructions import compiled_read_clock_ns

NETWORK = fat_tree(4, 4, "100Gbps")
FLOWS = flow_table([(i, (i + 5) % 16, 40_000, 0) for i in range(16)])


@pytest.mark.parametrize(("transport", "fabric"), [("ndp", TRIM), ("roce", LOSSLESS)])
def test_a_profile_changes_nothing(transport, fabric):
    plain = run(build(NETWORK, FLOWS, transport, fabric, jit=False))
    began = time.perf_counter()
    measured = run(build(NETWORK, FLOWS, transport, fabric, jit=False, profile=True, threads=2))
    passed = time.perf_counter() - began
    assert digest(measured) == digest(plain)
    times = measured.window_times()
    parts = (times.find_s, times.switches_s, times.hosts_s, times.publish_s)
    assert min(parts) > 0
    assert sum(parts) < passed
    assert 16 <= times.host_steps <= 16 * measured.counts.windows
    assert 8 <= times.switch_steps <= 8 * measured.counts.windows


def test_the_clock_of_compiled_code():
    read = compiled_read_clock_ns()

    @numba.njit
    def twice():
        return read(), read()

    before = time.monotonic_ns()
    first, second = twice()
    assert before <= first <= second <= time.monotonic_ns()
