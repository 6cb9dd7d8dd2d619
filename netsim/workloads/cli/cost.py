"""`netsim cost`: cost, power and failures of GPUs at equal silicon."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from netsim.cli.options import json_option, print_json, set_option, show_lines
from netsim.common.terminal import Column, Wide
from netsim.units import format_number

if TYPE_CHECKING:
    from netsim.workloads.cost.costs import CostTables, GpuCost

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
    from netsim.workloads.cost.costs import compare, load_cost_tables

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


def _wide(title: str, rows: Sequence[GpuCost], *columns: Any) -> Wide:
    """Return a row for each GPU; columns are header, cell of a row, rank and alignment."""
    made = [Column("GPU", [row.name for row in rows], left=True)]
    for header, cell, *rest in columns:
        cells = [cell(row) for row in rows]
        texts = [one if isinstance(one, str) else format_number(one) for one in cells]
        made.append(Column(header, texts, *rest))
    return Wide(made, title=title, elsewhere="--json has all")


def _cost(costs: CostTables, rows: Sequence[GpuCost]) -> Wide:
    return _wide(
        "Cost",
        rows,
        ("die\nmm2", lambda row: row.die_mm2, 1),
        ("dies per\nwafer", lambda row: row.dies, 2),
        ("without\ndefects", lambda row: _percent(row.defect_free), 2),
        ("yield", lambda row: _percent(row.die_yield)),
        ("USD per\ngood die", lambda row: _usd(row.die_usd)),
        ("USD/mm2", lambda row: f"{row.usd_per_good_mm2:.3f}"),
        ("memory", lambda row: _usd(row.memory_usd), 3),
        ("package", lambda row: _usd(row.package_usd), 3),
        ("links", lambda row: _usd(row.link_usd), 3),
        ("USD per\nGPU", lambda row: _usd(row.usd)),
        (f"of\n{costs.fleet.reference}", lambda row: f"{row.usd_of_reference:.2f}"),
        ("saved before\nlinks, USD", lambda row: _usd(row.saved_usd), 1),
        ("break-even\nUSD/Gbps", lambda row: f"{row.break_even_usd_per_gbps:.3f}", 1),
    )


def _links(costs: CostTables, rows: Sequence[GpuCost]) -> Wide:
    kinds: list[Any] = []
    for number, kind in enumerate(costs.links):
        kinds += [
            (f"{kind}\nUSD", lambda row, k=number: _usd(row.links[k].usd), 1),
            (f"{kind}\nW", lambda row, k=number: f"{row.links[k].watts:.1f}"),
        ]
    return _wide(
        "Scale-up links by kind, and power",
        rows,
        ("own link", lambda row: row.link, 0, True),
        ("Gbps", lambda row: costs.gpus[row.name].rate / 1e9),
        *kinds,
        ("W per GPU,\nno links", lambda row: row.watts),
        (f"W of\n{costs.fleet.reference}", lambda row: f"{row.watts_of_reference:.3f}"),
    )


def _failures(costs: CostTables, rows: Sequence[GpuCost]) -> Wide:
    return _wide(
        f"Failures of {costs.fleet.gpus:,} {costs.fleet.reference}, or equal silicon",
        rows,
        ("GPUs", lambda row: f"{row.gpus:,}"),
        ("group\nsize", lambda row: row.group),
        ("MTBF per\nGPU, h", lambda row: f"{row.mtbf_hours:,.0f}"),
        ("failures\nper day", lambda row: f"{row.failures_a_day:.3f}"),
        ("GPU up", lambda row: _percent(row.gpu_up, 3)),
        ("group up", lambda row: _percent(row.group_up, 3)),
        ("lost,\nstop", lambda row: _percent(row.blast_stop, 3)),
        ("lost,\nshrink", lambda row: _percent(row.blast_shrink, 3)),
    )


def _spares(costs: CostTables, rows: Sequence[GpuCost]) -> Wide:
    def cell(row: GpuCost, number: int, what: str) -> str:
        spares: int | None = getattr(row.spares[number], what)
        return "-" if spares is None else f"{spares} ({spares / row.silicon:g})"

    columns = [
        (f"{100 * goodput:g} %\n{what}", partial(cell, number=number, what=what))
        for number, goodput in enumerate(costs.fleet.goodput)
        for what in ("stop", "shrink", "full")
    ]
    return _wide("Spares", rows, *columns)


def _usd(value: float) -> str:
    return f"{value:,.0f}"


def _percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"
