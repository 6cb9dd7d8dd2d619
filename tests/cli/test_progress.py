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


def test_speed_excludes_compilation():
    speed = Speed()
    speed.update(FakeProgress(phase="compile", wall_s=0.0))
    speed.update(FakeProgress(wall_s=10.0))
    assert speed.hops_per_s is None
    speed.update(FakeProgress(wall_s=12.0, packet_hops=6_000_000, bytes_done=250))
    assert speed.hops_per_s == 3e6
    assert speed.eta_s == 6.0


def test_progress_line_has_time_flows_speed_and_eta():
    speed = Speed()
    speed.update(FakeProgress())
    last = FakeProgress(
        wall_s=2.0, packet_hops=40_000_000, bytes_done=500, flows_done=1234, simulated_ps=1_500_000
    )
    speed.update(last)
    assert mentions(describe(last, speed), "1.5us", "1,234", "8", "20", "packet-hops/s", "2.0")


def test_progress_line_counts_tasks_if_any():
    progress = FakeProgress(tasks_done=4321, tasks_total=5000)
    assert mentions(describe(progress, Speed()), "0ps", "0", "8", "4,321", "5,000")


def test_progress_follows_requests_if_any():
    speed = Speed()
    speed.update(FakeProgress(counted=("requests", 0, 40), tasks_total=5000))
    last = FakeProgress(wall_s=3.0, counted=("requests", 10, 40), bytes_done=1000)
    speed.update(last)
    assert mentions(describe(last, speed), "0ps", "10", "40", "0", "8", "packet-hops/s", "9.0")
    assert share(last) == 0.25


def test_bar_starts_with_the_remaining_time():
    speed = Speed()
    speed.update(FakeProgress())
    last = FakeProgress(wall_s=2.0, packet_hops=40_000_000, bytes_done=500)
    speed.update(last)
    assert mentions(describe(last, speed, eta_first=True), "2.0")


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


def test_run_without_bytes_has_no_remaining_time():
    speed = Speed()
    for wall_s in (0.0, 1.0):
        speed.update(FakeProgress(wall_s=wall_s, bytes_total=0))
    assert speed.eta_s is None


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


def test_time_left_goes_on_between_reports():
    speed = Speed()
    speed.update(FakeProgress())
    last = FakeProgress(wall_s=2.0, bytes_done=100)
    speed.update(last)
    assert mentions(describe(last, speed), "18 s left")
    assert mentions(describe(last, speed, age_s=11.0), "7.0 s left")


def test_loading_is_not_reported_as_compiling():
    stream = io.StringIO()
    report = PlainReporter(stream, lambda: 0.0).watch("p2p")
    report(FakeProgress(phase="load"))
    assert not stream.getvalue()
    assert describe(FakeProgress(phase="load"), Speed()) == "loading compiled code"
    report(FakeProgress(phase="compile"))
    assert "compiling" in stream.getvalue()


@pytest.mark.parametrize("width", [72, 80, 120])
def test_bar_keeps_its_width_while_compiling(width):
    from rich.console import Console

    def row(**progress):
        console = Console(file=io.StringIO(), width=width, force_terminal=True)
        reporter = BarReporter(console)
        report = reporter.watch("transport=smartt-100g,paths=oblivious,load=0.5,seed=1 (1/240)")
        report(FakeProgress(**progress))
        (line,) = console.render_lines(reporter._bar.make_tasks_table(reporter._bar.tasks))
        reporter.close()
        return "".join(segment.text for segment in line)

    compiling = row(phase="compile")
    assert compiling.count("━") == 20
    assert "0%" in compiling
    running = row(simulated_ps=123_456_789, flows_done=12_345, flows_total=99_999, bytes_done=500)
    assert running.count("━") + running.count("╸") + running.count("╺") == 20


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

    def test_available_memory_of_an_unlimited_container(self, machine):
        meminfo, cgroup = machine
        cgroup.mkdir()
        (cgroup / "memory.max").write_text("max\n")
        assert available_bytes(meminfo, cgroup) == 1_024_000

    def test_available_memory_is_found_without_proc(self, tmp_path):
        assert available_bytes(tmp_path / "none", tmp_path / "none") > 10**6

    def test_too_little_memory_is_an_error(self):
        with raises_input("big.toml", "1MB", "999KB"):
            require_memory(FakeEstimate(), what="big.toml", available=999_000)
        require_memory(FakeEstimate(), what="big.toml", available=1_000_000)
