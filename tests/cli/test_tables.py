"""Tables of command output: fitting into a terminal, and their content."""

import io

from raises_input import mentions

from netsim.cli.tables import result_table, sweep_table
from netsim.common.terminal import Column, Wide, needed_width, show, wide_lines

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
