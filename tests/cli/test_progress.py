"""Progress and tables in terminals."""

import io

import pytest
from fake_simulate import FakeEstimate, FakeProgress
from raises_input import mentions, raises_input

from netsim.cli.progress import (
    BarReporter,
    Overview,
    PlainReporter,
    Speed,
    describe,
    format_duration,
    share,
)
from netsim.cli.tables import result_table, sweep_table
from netsim.common.memory import available_bytes
from netsim.common.steps import Steps, step
from netsim.common.terminal import Column, Wide, common_unit, needed_width, number, show, wide_lines
from netsim.running.estimate import require_memory


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
    now = 0.0
    overview = Overview({"a": 1.0, "b": 400.0, "c": 200.0}, clock=lambda: now)
    overview.begin("a")
    assert overview.rest_s == pytest.approx(600, rel=0.1)
    now = 1.0
    overview.finish("a")
    overview.begin("b")
    assert overview.rest_s == pytest.approx(200, rel=0.1)
    now += 800.0
    overview.finish("b")
    overview.begin("c")
    assert overview.rest_s == 0


def test_plain_reporter_prints_few_lines():
    now = 0.0
    stream = io.StringIO()
    report = PlainReporter(stream, lambda: now).watch("p2p")
    for now in range(21):
        report(FakeProgress(wall_s=float(now), bytes_done=50 * now))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("p2p: 25% 15 s left, simulated 0ps")


def test_silent_steps_become_lines_with_a_time_left():
    """After 3 s, at each further step, and every 30 s; on a terminal, on one changing line."""
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


ROW = {
    "point": "p", "transport": "transport_of_mine", "traffic.fan_in": 64, "status": "finished",
    "flows": 65_536, "flows_finished": 65_536, "fct_mean_ps": 5.209e9, "fct_p50_ps": 5.215e9,
    "fct_p99_ps": 5.237e9, "fct_max_ps": 5.238e9, "ideal_max_ps": 86_250_000,
    "slowdown_p50": 60.48, "slowdown_p99": 61.75, "slowdown_max": 62.01, "drops": 0,
    "trims": 2698, "retransmits": 2698, "packet_hops_per_s": 4.4e6, "wall_s": 12.0,
}  # fmt: skip
AXES = ["transport", "traffic.fan_in"]


def text_of(table, width=None):
    from rich.console import Console

    console = Console(file=io.StringIO(), width=width or 400, highlight=False)
    for line in wide_lines(table, width):
        console.print(line, soft_wrap=isinstance(line, str))
    return console.file.getvalue()


def test_sweep_table_fits_into_the_terminal():
    for width in [60, 80, 100]:
        table = sweep_table([ROW, {**ROW, "traffic.fan_in": 4}], AXES)
        assert needed_width(table.table()) > 120
        text = text_of(table, width)
        lines = text.splitlines()
        assert all(len(line) <= width for line in lines if not line.startswith("no room for"))
        rows = [line.split() for line in lines if line.startswith(" transport_of_mine")]
        assert [row[1] for row in rows] == ["64", "4"]
        assert all(row[-1] == "finished" and "5.237" in row for row in rows)
        assert mentions(lines[-1], "sweep.parquet")
        assert "slowdown p50, slowdown" in lines[-1]
        assert "packet-hops/s" in lines[-1]


def test_optional_results_have_a_line_only_if_present():
    def lines(summary):
        table = result_table(ROW, summary)
        names, texts = (list(map(str, column.cells)) for column in table.columns)
        return dict(zip(names, texts, strict=True))

    plain = lines({})
    assert plain["flows"] == "65,536"
    faults = {"down": 2, "rate": 0, "loss": 1200, "reroute": 0, "hosts_cut_off": []}
    summary = {"tasks": 5000, "tasks_done": 4321, "faults": faults}
    found = lines({**summary, "series": {"interval_ps": 10**7, "said": "sampled every 10us"}})
    assert {name: found[name] for name in found.keys() - plain.keys()} == {
        "tasks": "4,321/5,000",
        "faults": "outages: 2, losses: 1,200",
        "series": "sampled every 10us",
    }
    assert lines({"faults": dict.fromkeys(faults, 0)})["faults"] == "none yet"


P2P = {
    **ROW, "fct_p50_ps": 45_040_000, "fct_mean_ps": 52_420_000, "fct_p99_ps": 106_700_000,
    "fct_max_ps": 109_700_000, "ideal_max_ps": 24_440_000, "fair_max_ps": 105_700_000,
    "trims": 0, "retransmits": 0, "pfc_pauses": 1219, "flows": 512, "flows_finished": 512,
    "transport": "roce:800g",
}  # fmt: skip
STEP = {"step_ps": 1.5e10, "mfu": 0.1729, "exposed": 0.222, "bubble": 0.01, "skew": 0.002}
STEP |= {"exposed_scale_up": 0.182, "exposed_scale_out": 0.04, "exposed_scale_out_dp": 0.04}
JOB = {**ROW, **STEP, "mfu_base": "fp8", "transport": "ndp", "traffic.fan_in": 400}
COLLECTIVE = {
    **ROW, "transport": "ndp", "step_ps": 1.25e8, "exposed": 1.0, "busbw_bps": 2e11, "mfu": None
}  # fmt: skip
TTFT = {"ttft_p50_ps": 2e10, "ttft_p99_ps": 4e10, "tbt_p50_ps": 5e9, "tbt_p99_ps": 8e9}
SERVING = {
    **ROW, **TTFT, "transport": "ndp", "requests_per_s": 40.0, "slo_attainment": 0.975,
    "goodput_per_s": 39.0, "offered_per_s": 40.0, "tbt_max_ps": 9e9, "second_token_p99_ps": 9e9,
}  # fmt: skip
SHOWN = (
    # What a reader of each kind of table came for: shown at 80 columns, with these cells.
    (P2P, {"FCT mean us": "52.42", "FCT p99 us": "106.7", "FCT max us": "109.7",
           "ideal max us": "24.44", "fair max us": "105.7", "slowdown p99": "61.75",
           "pfc_pauses": "1,219", "status": "finished"}),
    (JOB, {"step ms": "15", "MFU fp8 %": "17.29", "exposed %": "22.2",
           "exposed scale-up %": "18.2", "exposed scale-out %": "4"}),
    (COLLECTIVE, {"time us": "125", "busbw GB/s": "25", "FCT p99 ms": "5.237"}),
    (SERVING, {"TTFT p99 ms": "40", "TBT p99 ms": "8", "met %": "97.5",
               "goodput 1/s": "39"}),
)  # fmt: skip


def test_columns_that_a_reader_came_for_fit_into_80_columns():
    for row, expected in SHOWN:
        axes = ["transport"] if row is P2P else AXES
        for width in (80, 120):
            table, left_out = sweep_table([row], axes).fitting(width)
            assert table.fits(width)
            shown = {column.name: column.cells[0] for column in table.columns}
            assert expected.items() <= shown.items(), left_out
            if row is not P2P and width == 80:  # before the columns of flows
                assert list(shown)[len(axes)] == next(iter(expected))


def test_a_piped_table_obeys_columns(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    show(sweep_table([ROW], AXES))
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 80 for line in lines[:-1])
    assert lines[-1].startswith("no room for")
    monkeypatch.delenv("COLUMNS")
    show(sweep_table([ROW], AXES))
    assert "no room" not in capsys.readouterr().out


def test_columns_of_the_highest_rank_are_dropped_first():
    columns = [Column("a", ["1" * 9]), Column("b", ["2" * 9], 1), Column("c", ["3" * 9], 2)]
    chosen, left_out = Wide(columns).fitting(24)
    assert [column.header for column in chosen.columns] == ["a", "b"]
    assert left_out == ["c"]
    wide = [Column("a", ["1" * 9]), Column("b", ["2" * 19], 1), Column("c", ["3" * 9], 2)]
    assert Wide(wide).fitting(24)[1] == ["b"]  # once b is gone, c fits again
