"""`netsim cost`: cost, power and failures of GPUs at equal silicon."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from netsim.cli.options import json_option, print_json
from netsim.common.terminal import Column, Wide
from netsim.units import format_number
from netsim.workloads.cli.options import set_option, show_lines

if TYPE_CHECKING:
    from netsim.workloads.cost import CostTables, GpuCost

DRAWS = True

PRESET = "lite"  # default comparison


@click.command("cost")
@click.argument("file", metavar="[FILE]", default=PRESET)
@set_option("wafer.usd=20000")
@json_option
def command(file: str, overrides: tuple[str, ...], as_json: bool) -> None:
    """Compare GPUs of different die size at equal silicon: yield, cost, power, optics, failures.

    FILE holds the input values. By default it is the preset "lite": an H100 and GPUs of a quarter
    of its die. "netsim show cost lite" prints the preset with the source of each value; many are
    assumptions.

    \b
    netsim cost
    netsim cost --set failures.rate_by=gpu --set gpu.lite.link=pluggable
    netsim cost mine.toml --json
    """
    from netsim.workloads.cost import compare, load_cost_tables

    costs = load_cost_tables(file, overrides=overrides)
    rows = compare(costs)
    if as_json:
        print_json({"figures": asdict(costs), "gpus": [asdict(row) for row in rows]})
        return
    show_lines(tables(costs, rows))


def tables(costs: CostTables, rows: Sequence[GpuCost]) -> Iterator[Wide | str]:
    reference = costs.fleet.reference
    yield _cost(costs, rows)
    yield (
        f"of {reference}: at equal silicon. Break-even: the price of links at which smaller dies "
        "save nothing; other costs may rise by the amount saved."
    )
    yield _links(costs, rows)
    yield (
        f"W of {reference}: with the GPU's own links, at equal silicon. Links are scale-up; "
        "netsim topo prices scale-out."
    )
    yield _failures(costs, rows)
    hours = f"{format_number(costs.failures.repair_hours)} h to repair"
    yield (
        f"Up: with {hours} and no spares. Lost: share of the fleet lost by one failure if groups "
        "stop, or shrink to the remaining GPUs."
    )
    yield _spares(costs, rows)
    yield (
        f"Spares: fewest additional GPUs for a mean goodput, with "
        f"{format_number(costs.failures.swap_hours)} h to take over; -: no number is enough. Full: "
        "for the full capacity during that share of the time. In brackets: the number of "
        f"{reference} with equal silicon."
    )


def _column(
    header: str,
    rows: Sequence[GpuCost],
    cell: Callable[[GpuCost], float | int | str],
    rank: int = 0,
) -> Column:
    cells = [cell(row) for row in rows]
    return Column(header, [c if isinstance(c, str) else format_number(c) for c in cells], rank)


def _cost(costs: CostTables, rows: Sequence[GpuCost]) -> Wide:
    return Wide(
        [
            Column("GPU", [row.name for row in rows], left=True),
            _column("die\nmm2", rows, lambda row: row.die_mm2, 1),
            _column("dies per\nwafer", rows, lambda row: row.dies, 2),
            _column("without\ndefects", rows, lambda row: _percent(row.defect_free), 2),
            _column("yield", rows, lambda row: _percent(row.die_yield)),
            _column("USD per\ngood die", rows, lambda row: _usd(row.die_usd)),
            _column("USD/mm2", rows, lambda row: f"{row.usd_per_good_mm2:.3f}"),
            _column("memory", rows, lambda row: _usd(row.memory_usd), 3),
            _column("package", rows, lambda row: _usd(row.package_usd), 3),
            _column("links", rows, lambda row: _usd(row.link_usd), 3),
            _column("USD per\nGPU", rows, lambda row: _usd(row.usd)),
            _column(f"of\n{costs.fleet.reference}", rows, lambda r: f"{r.usd_of_reference:.2f}"),
            _column("saved before\nlinks, USD", rows, lambda row: _usd(row.saved_usd), 1),
            _column(
                "break-even\nUSD/Gbps", rows, lambda row: f"{row.break_even_usd_per_gbps:.3f}", 1
            ),
        ],
        title="Cost",
        elsewhere="--json has all",
    )


def _links(costs: CostTables, rows: Sequence[GpuCost]) -> Wide:
    columns = [
        Column("GPU", [row.name for row in rows], left=True),
        Column("own link", [row.link for row in rows], left=True),
        _column("Gbps", rows, lambda row: costs.gpus[row.name].rate / 1e9),
    ]
    for number, kind in enumerate(costs.links):
        ends = [row.links[number] for row in rows]
        columns += [
            Column(f"{kind}\nUSD", [_usd(end.usd) for end in ends], 1),
            Column(f"{kind}\nW", [f"{end.watts:.1f}" for end in ends]),
        ]
    columns += [
        _column("W per GPU,\nno links", rows, lambda row: row.watts),
        _column(f"W of\n{costs.fleet.reference}", rows, lambda r: f"{r.watts_of_reference:.3f}"),
    ]
    return Wide(columns, title="Scale-up links by kind, and power", elsewhere="--json has all")


def _failures(costs: CostTables, rows: Sequence[GpuCost]) -> Wide:
    return Wide(
        [
            Column("GPU", [row.name for row in rows], left=True),
            _column("GPUs", rows, lambda row: f"{row.gpus:,}"),
            _column("group\nsize", rows, lambda row: row.group),
            _column("MTBF per\nGPU, h", rows, lambda row: f"{row.mtbf_hours:,.0f}"),
            _column("failures\nper day", rows, lambda row: f"{row.failures_a_day:.3f}"),
            _column("GPU up", rows, lambda row: _percent(row.gpu_up, 3)),
            _column("group up", rows, lambda row: _percent(row.group_up, 3)),
            _column("lost,\nstop", rows, lambda row: _percent(row.blast_stop, 3)),
            _column("lost,\nshrink", rows, lambda row: _percent(row.blast_shrink, 3)),
        ],
        title=f"Failures of {costs.fleet.gpus:,} {costs.fleet.reference}, or equal silicon",
        elsewhere="--json has all",
    )


def _spares(costs: CostTables, rows: Sequence[GpuCost]) -> Wide:
    columns = [Column("GPU", [row.name for row in rows], left=True)]
    for number, goodput in enumerate(costs.fleet.goodput):
        for what in ("stop", "shrink", "full"):

            def cell(row: GpuCost, i: int = number, what: str = what) -> str:
                spares: int | None = getattr(row.spares[i], what)
                return "-" if spares is None else f"{spares} ({spares / row.silicon:g})"

            columns.append(_column(f"{100 * goodput:g} %\n{what}", rows, cell))
    return Wide(columns, title="Spares", elsewhere="--json has all")


def _usd(value: float) -> str:
    return f"{value:,.0f}"


def _percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"
