"""Profiles: the clock is read between the parts of a window, and nothing else changes."""

import re
import time

import numba
import pytest
from click.testing import CliRunner
from engine_runs import LOSSLESS, TRIM, build, fat_tree, flow_table, run

from netsim.cli import app
from netsim.engine.compiling.instructions import INSTRUCTIONS
from netsim.engine.kernels.instructions import read_clock_ns
from netsim.running.profile import STEPS

NETWORK = fat_tree(4, 4, "100Gbps")
FLOWS = flow_table([(i, (i + 5) % 16, 40_000, 0) for i in range(16)])


@pytest.mark.parametrize(("transport", "fabric"), [("ndp", TRIM), ("roce", LOSSLESS)])
def test_profiling_does_not_change_results(transport, fabric):
    plain = run(build(NETWORK, FLOWS, transport, fabric, jit=False))
    began = time.perf_counter()
    measured = run(build(NETWORK, FLOWS, transport, fabric, jit=False, profile=True, threads=2))
    passed = time.perf_counter() - began
    assert measured.digest() == plain.digest()
    times = measured.window_times()
    parts = (times.find_s, times.switches_s, times.hosts_s, times.publish_s)
    assert min(parts) > 0
    assert sum(parts) < passed
    assert 16 <= times.host_steps <= 16 * measured.counts.windows
    assert 8 <= times.switch_steps <= 8 * measured.counts.windows


def test_compiled_clock_agrees_with_monotonic_time():
    read = INSTRUCTIONS[read_clock_ns]

    @numba.njit
    def twice():
        return read(), read()

    before = time.monotonic_ns()
    first, second = twice()
    assert before <= first <= second <= time.monotonic_ns()


def test_printed_profile_shares_add_up(monkeypatch):
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    arguments = ["bench", "--profile", "--transport", "ndp", "--hosts", "16", "--size", "40KB"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    steps = [line.split()[0] for line in lines if line.split()[:1] and line.split()[0] in STEPS]
    assert steps == list(STEPS)
    shares = [float(share) for share in re.findall(r"([\d.]+)%  ", result.stdout)]
    whole, parts = shares[3], shares[4:9]
    assert sum(parts) == pytest.approx(whole, abs=0.3)
    assert sum(shares) - sum(parts) == pytest.approx(100, abs=0.4)
    assert re.search(r"\d+ windows.*: [\d.]+ switches and [\d.]+ hosts", result.stdout)
