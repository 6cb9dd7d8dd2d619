"""Progress reports, available memory, and formatting of durations and speeds."""

import io
from types import SimpleNamespace

import pytest
from fake_simulate import FakeEstimate, FakeProgress
from raises_input import mentions, raises_input

from netsim.cli.points import Forecast
from netsim.cli.progress import (
    BarReporter,
    PlainReporter,
    Speed,
    describe,
    format_duration,
    share,
)
from netsim.common.memory import available_bytes
from netsim.common.steps import Steps, step
from netsim.common.terminal import common_unit, number
from netsim.running.estimate import Code, require_memory


def test_progress_line_has_time_flows_speed_and_eta():
    speed = Speed()
    speed.update(FakeProgress())
    last = FakeProgress(
        wall_s=2.0, packet_hops=40_000_000, bytes_done=500, flows_done=1234, simulated_ps=1_500_000
    )
    speed.update(last)
    assert mentions(describe(last, speed), "1.5us", "1,234", "8", "20", "packet-hops/s", "2.0")


def test_progress_follows_requests_if_any():
    speed = Speed()
    speed.update(FakeProgress(counted=("requests", 0, 40), tasks_total=5000))
    last = FakeProgress(wall_s=3.0, counted=("requests", 10, 40), bytes_done=1000)
    speed.update(last)
    assert mentions(describe(last, speed), "0ps", "10", "40", "0", "8", "packet-hops/s", "9.0")
    assert share(last) == 0.25


def test_remaining_time_adapts_to_measured_points():
    points = [SimpleNamespace(name=name) for name in "abc"]
    now = 0.0
    forecast = Forecast(points, lambda: now)
    seconds = {"a": 1.0, "b": 400.0, "c": 200.0}
    estimates = {n: FakeEstimate(seconds=s, setup_seconds=0.0) for n, s in seconds.items()}
    forecast.predict(estimates, lambda *_: Code(0, 0))
    assert forecast.begin(points[0]) == pytest.approx(600, rel=0.1)
    now = 1.0
    assert forecast.begin(points[1]) == pytest.approx(200, rel=0.1)
    now += 800.0
    assert forecast.begin(points[2]) == 0
    assert Forecast(points[:1], lambda: now).begin(points[0]) is None


def test_plain_reporter_prints_few_lines():
    now = 0.0
    stream = io.StringIO()
    report = PlainReporter(stream, lambda: now).watch("p2p")
    for now in range(21):
        report(FakeProgress(wall_s=float(now), bytes_done=50 * now))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("p2p: 25% simulated 0ps")


def test_silent_steps_become_lines_with_a_time_left():
    """After 3 s, at each further step, and every 30 s; on a terminal on one line that moves."""
    now, stream = 0.0, io.StringIO()
    with Steps(stream, lambda: now) as steps:
        for now in range(101):
            if now % 50 == 0:
                step("building", now // 50, 3)
            steps.show()
        step("")
        steps.show()
    assert stream.getvalue().splitlines() == [
        "building, 1 of 3, 3.0 s",
        "building, 1 of 3, 33 s",
        "building, 2 of 3, 3.0 s, about 1:37 left",
        "building, 2 of 3, 33 s, about 1:07 left",
    ]
    step("nobody shows this")


def test_bar_opens_and_closes_without_errors(capsys):
    reporter = BarReporter()
    for title in ("first", "[second]"):
        report = reporter.watch(title)
        report(FakeProgress(phase="compile"))
        report(FakeProgress(wall_s=1.0, bytes_done=10))
    reporter.close()
    reporter.close()
    assert "Traceback" not in capsys.readouterr().err


def test_durations_are_readable():
    for seconds, text in [
        (0.0, "0.0 s"),
        (0.0123, "12 ms"),
        (0.0996, "0.1 s"),
        (0.44, "0.4 s"),
        (12.4, "12 s"),
        (59.6, "1:00"),
        (185, "3:05"),
        (3723, "1:02:03"),
    ]:
        assert format_duration(seconds) == text


def test_table_numbers_are_readable():
    assert number(1234567.0) == "1,234,567"
    assert number(1.23456) == "1.235"
    assert number(None) == number(float("nan")) == "-"
    assert common_unit([None, 5_000_000, 2_000_000_000]) == ("ms", 10**9)
    assert common_unit([None]) == ("ps", 1)


class TestMemory:
    @pytest.fixture
    def machine(self, tmp_path):
        meminfo = tmp_path / "meminfo"
        meminfo.write_text("MemTotal:  2000 kB\nMemAvailable:  1000 kB\n")
        return meminfo, tmp_path / "cgroup"

    def test_available_memory_of_the_machine(self, machine):
        assert available_bytes(*machine) == 1_024_000

    def test_available_memory_of_a_container(self, machine):
        meminfo, cgroup = machine
        cgroup.mkdir()
        (cgroup / "memory.max").write_text("500000\n")
        (cgroup / "memory.current").write_text("400000\n")
        (cgroup / "memory.stat").write_text("anon 1\ninactive_file 150000\n")
        assert available_bytes(meminfo, cgroup) == 250_000

    def test_too_little_memory_is_an_error(self):
        with raises_input("big.toml", "1MB", "999KB"):
            require_memory(FakeEstimate(), what="big.toml", available=999_000)
        require_memory(FakeEstimate(), what="big.toml", available=1_000_000)
