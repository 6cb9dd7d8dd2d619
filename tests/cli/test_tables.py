"""Tables of command output: fitting into a terminal, and their content."""

import io

from raises_input import mentions

from netsim.cli.tables import class_table, comparison_table, result_table, sweep_table
from netsim.plots import sweeps
from netsim.terminal import Column, Wide, needed_width, wide_lines

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
        assert needed_width(table.table()) > 140
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


def test_table_without_a_terminal_is_complete():
    text = text_of(sweep_table([ROW], AXES))
    for column in ("FCT", "ideal max", "slowdown", "drops", "hops/s", "wall"):
        assert column in text
    assert "no room" not in text


def test_required_columns_wrap_to_further_lines():
    rows = [ROW, *({**ROW, "traffic.fan_in": fan_in} for fan_in in range(20))]
    text = text_of(sweep_table(rows, AXES), 40)
    lines = text.splitlines()
    assert all(len(line) <= 40 for line in lines if not line.startswith("no room for"))
    assert len(lines) < 4 * len(rows)
    assert "FCT p99" in text
    assert "finished" in text


def test_columns_of_the_highest_rank_are_dropped_first():
    columns = [Column("a", ["1" * 9]), Column("b", ["2" * 9], 1), Column("c", ["3" * 9], 2)]
    chosen, left_out = Wide(columns).fitting(24)
    assert [column.header for column in chosen.columns] == ["a", "b"]
    assert left_out == ["c"]


def test_comparison_table_drops_columns():
    table = sweeps.Table(("transport", "load", "seeds", "last", "mean"), [("ndp",) + ("123",) * 4])
    text = text_of(comparison_table(table), 30)
    assert "mean" in text


def test_class_table_has_a_row_per_flow_class():
    statistics = {"mean": 2e9, "p50": 1e9, "p99": 3e9, "max": 4e9}
    classes = [
        {
            "flow_class": name, "transport": transport, "flows": 8, "flows_finished": done,
            "fct_ps": statistics, "slowdown": {"p99": 2.5},
        }
        for name, transport, done in (("", "dctcp", 8), ("wan", "wan_fec", 7))
    ]  # fmt: skip
    rows = [{**ROW, "traffic.fan_in": value} for value in (4, 64)]
    text = text_of(class_table(rows, [classes, classes], ["traffic.fan_in"]))
    found = [line.split() for line in text.splitlines()]
    assert ["4", "-", "dctcp", "8", "2", "1", "3", "4", "2.5"] in found
    assert ["64", "wan", "wan_fec", "7/8", "2", "1", "3", "4", "2.5"] in found
