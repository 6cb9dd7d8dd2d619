"""`netsim topo`: count, price and draw the network of an experiment."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from netsim.cli.options import (
    FILE,
    PATH,
    experiment_options,
    json_option,
    load_experiment,
    print_json,
)
from netsim.common.terminal import plain_table
from netsim.errors import errors_at
from netsim.units import format_number, format_rate, format_time

if TYPE_CHECKING:
    from rich.table import Table

    from netsim.experiment import Point
    from netsim.model.inventory import BillRow, Inventory, NetworkRow
    from netsim.model.network import Network
    from netsim.model.paths import CircuitRow, Failure

DRAWS = True

FAIL = "--fail"
OF_TRAFFIC = {"traffic", "flow_classes", "seed"}
"""Sections, besides its own, that determine a network adapted to its traffic."""


class NetworkSummary(NamedTuple):
    """All figures of one network."""

    label: str
    inventory: Inventory
    bill: tuple[BillRow, ...]
    failures: tuple[Failure, ...]


@click.command("topo")
@experiment_options
@click.option("--prices", type=PATH, metavar="FILE",
              help="TOML file with prices that override netsim's, part by part.")  # fmt: skip
@click.option(FAIL, "failing", multiple=True, metavar="NAME",
              help="Show the impact of a failed link or node, named as in [faults]: "
              '"spine0", "plane1.*", "leaf0 - spine*". Repeatable.')  # fmt: skip
@click.option("--traffic", "patterns", multiple=True, metavar="PATTERN",
              help="Also show the saturation of a pattern, such as tornado; default: the "
              "experiment's traffic. Repeatable.")  # fmt: skip
@click.option("--plot", is_flag=True, help="Also draw the network.")
@click.option(
    "--out",
    type=FILE,
    help="Output file of the drawing; its suffix selects the format (EXPERIMENT_topology.png).",
)
@json_option
def command(
    experiment: str,
    overrides: tuple[str, ...],
    seed: str | None,
    prices: Path | None,
    failing: tuple[str, ...],
    patterns: tuple[str, ...],
    plot: bool,
    out: Path | None,
    as_json: bool,
) -> None:
    """Count the parts of EXPERIMENT's network; print its capacity, cost and power.

    A sweep prints a column for each distinct network.

    \b
    netsim topo p2p_8192 --set 'topology.oversubscription=[1, 2, 4]'
    netsim topo p2p_512 --plot --fail spine0 --fail 'h3 - leaf0'
    netsim topo p2p_512 --traffic tornado --traffic group_plus_one
    """
    loaded = load_experiment(experiment, overrides, seed)
    networks, counted = summaries(loaded.points(), prices, failing, patterns)
    if as_json:
        print_json([as_dict(one) for one in counted])
    else:
        _show(counted)
    if plot or out is not None:
        from netsim.plots import save
        from netsim.plots.networks import Panel, draw_networks

        panels = [Panel(label, network) for label, network in networks]
        path = save(draw_networks(panels), out or Path(f"{loaded.name}_topology.png"))
        click.echo(path, err=as_json)


def summaries(
    points: Sequence[Point],
    prices: Path | None = None,
    failing: Sequence[str] = (),
    patterns: Sequence[str] = (),
) -> tuple[list[tuple[str, Network]], list[NetworkSummary]]:
    """Return each distinct network of an experiment with its label, and its figures.

    `prices` is a file that overrides netsim's, `failing` names links and nodes, and `patterns`
    traffic whose saturation is computed. Raises InputError.
    """
    from netsim.experiment.scenario import network_of
    from netsim.model.inventory import read_prices

    table_of_prices = read_prices(prices)
    chosen = distinct(points)
    networks = [(label, network_of(point)) for label, point in chosen]
    counted = [
        _counted(point, network, label, table_of_prices, failing, patterns)
        for (_, point), (label, network) in zip(chosen, networks, strict=True)
    ]
    return networks, counted


def _show(counted: Sequence[NetworkSummary]) -> None:
    from netsim.common.terminal import show

    show(topo_table(counted))
    for note in notes(counted):
        click.echo(note)


def distinct(points: Sequence[Point]) -> list[tuple[str, Point]]:
    """Return the first point of each distinct network, with a label."""
    from netsim.experiment.scenario import adapts

    first: dict[str, Point] = {}
    named: set[str] = set()
    for point in points:
        sections = {"topology"} | (OF_TRAFFIC if adapts(point.topology) else set())
        inputs = {section: point.resolved.get(section) for section in sections}
        if first.setdefault(json.dumps(inputs, sort_keys=True), point) is point:
            named |= sections
    return [(_label(point, named), point) for point in first.values()]


def _label(point: Point, sections: set[str]) -> str:
    """Return a point's values on the axes of some sections."""
    parts = [
        str(value) if axis == "topology" else f"{axis.rpartition('.')[2]} {value}"
        for axis, value in point.axes.items()
        if axis.partition(".")[0] in sections
    ]
    return ", ".join(parts) or point.topology.name


def _counted(
    point: Point,
    network: Network,
    label: str,
    prices: Any,
    failing: Sequence[str],
    patterns: Sequence[str],
) -> NetworkSummary:
    from netsim.engine.routing_choices import choices_of
    from netsim.experiment.scenario import patterns_of
    from netsim.model.inventory import bill, inventory

    traffic = dict(patterns_of(point, network, patterns))
    found = inventory(network, traffic, choices_of(point.fabric, network))
    failures = tuple(_failures(point, network, failing)) if failing else ()
    return NetworkSummary(label, found, bill(found, prices), failures)


def _failures(point: Point, network: Network, failing: Sequence[str]) -> Iterator[Failure]:
    from netsim.experiment.place_faults import ports_named
    from netsim.experiment.scenario import prepare
    from netsim.model.paths import failure

    port_pairs = prepare(point).port_pairs
    for name in failing:
        with errors_at(file=point.file, key=FAIL):
            ports = ports_named(name, network)
        yield failure(network, name, ports, port_pairs)


def as_dict(one: NetworkSummary) -> Any:
    """Return all figures of a network as dictionaries, lists, texts and numbers."""
    from dataclasses import asdict

    from netsim.results.files import plain

    figures = {
        "label": one.label,
        **asdict(one.inventory),
        "bisection": one.inventory.bisection,
        "oversubscription": one.inventory.oversubscription,
        "diameter": one.inventory.diameter,
        "tiers": one.inventory.tiers,
        "bill": [asdict(row) for row in one.bill],
        "failures": [asdict(row) for row in one.failures],
    }
    return plain(_with_names(figures))


def _with_names(value: Any) -> Any:
    """Convert named tuples to tables, at any depth."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {key: _with_names(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_names(item) for item in value]
    return value


PARTS = ("hosts", "switches", "cables", "all", "network", "circuit", "cost", "without")
"""First words of the parts, in order."""

SORTED = ("switches", "cables")
PER_HOST = "per host"

Lines = dict[tuple[str, str], str]
"""(Part, name) of a figure -> its value as text; the first line of a part has no name."""


def topo_table(counted: Sequence[NetworkSummary]) -> Table:
    """Return the table of all figures, a column for each network."""
    from rich.text import Text

    columns = [_lines(one) for one in counted]
    table = plain_table("", *(one.label for one in counted))
    for part, name in _order(columns):
        cells = [column.get((part, name), "") for column in columns]
        title = Text(f"  {name}") if name else Text(part, style="bold")
        table.add_row(title, *(Text(cell, justify="right", no_wrap=True) for cell in cells))
    return table


def notes(counted: Sequence[NetworkSummary]) -> Iterator[str]:
    """Yield definitions of the figures and sources of prices."""
    from netsim.model.inventory import LONGEST_M
    from netsim.model.paths import MAX_FLOW, TIERS

    rack, row, hall = LONGEST_M
    yield (
        f"Lengths are delays at 5 ns a meter: rack up to {rack} m, row {row} m, hall {hall:,} m, "
        "wan beyond."
    )
    hows = {one.inventory.bisection.how for one in counted}
    if MAX_FLOW in hows:
        yield (
            "Bisection: max-flow from the first half of the hosts to the second; circuits count "
            "for the share of time that they are up."
        )
    if TIERS in hows:
        yield f"Bisection ({TIERS}): half of the smallest capacity between two tiers."
    rows = [row for one in counted for row in one.inventory.networks if row.to_edges < row.edges]
    if rows:
        yield (
            "Path diversity and diameter: to the hosts of "
            + "; ".join(f"{row.to_edges} of {row.edges:,} edge switches" for row in rows)
            + "."
        )
    for one in [one for one in counted if one.inventory.pfc]:
        yield (f"PFC, {one.label}" if len(counted) > 1 else "PFC") + f": {one.inventory.pfc}."
    sources = {row.part: row.source for one in counted for row in one.bill}
    for part, source in sources.items():
        yield f"Price of {part}: {source}."


def _order(columns: Sequence[Lines]) -> list[tuple[str, str]]:
    """Return all lines by part: the part's own line first, totals last."""
    keys = dict.fromkeys(key for column in columns for key in column)
    parts = sorted(dict.fromkeys(part for part, _ in keys), key=_rank)
    found = []
    for part in parts:
        names = [name for own, name in keys if own == part and name]
        if part in SORTED:
            names.sort()
        names.sort(key=lambda name: name == PER_HOST)
        found += [(part, name) for name in ("", *names) if (part, name) in keys]
    return found


def _rank(part: str) -> tuple[int, str]:
    """Return the sort key of a part; networks sort by number."""
    place = next(at for at, begin in enumerate(PARTS) if part.startswith(begin))
    return place, part if part.startswith("network") else ""


def _lines(one: NetworkSummary) -> Lines:
    found = dict(_network_lines(one.inventory))
    for number, row in enumerate(one.inventory.networks, 1):
        found |= _kind_lines(row, f"network {number}")
    for circuit in one.inventory.circuit_switches:
        found |= _circuit_lines(circuit)
    found |= _bill_lines(one)
    for failed in one.failures:
        found |= _failure_lines(failed)
    return found


def _network_lines(inventory: Inventory) -> Iterator[tuple[tuple[str, str], str]]:
    yield ("hosts", ""), f"{inventory.hosts:,}"
    for nic in inventory.nics:
        some = "" if nic.hosts == inventory.hosts else f", {nic.hosts:,} hosts"
        up = ", scale-up" * nic.is_scale_up
        shown = f"{nic.ports} x {format_rate(nic.port_rate_bps)}{up}{some}"
        yield ("hosts", f"NIC {nic.nic}" + (f" ({some[2:]})" if some else "")), shown
    yield ("switches", ""), f"{inventory.switch_count:,}"
    for switch in inventory.switches:
        yield (
            ("switches", f"tier {switch.tier}: {switch.name}, {switch.ports:,} ports"),
            f"{switch.count:,}",
        )
    yield ("cables", ""), f"{inventory.cable_count:,}"
    for cable in inventory.cables:
        name = f"{cable.joins}, {format_rate(cable.rate_bps)}, {cable.length}"
        yield ("cables", name), f"{cable.count:,}"
    yield ("all networks", ""), f"{sum(row.count for row in inventory.networks):,}"
    yield ("all networks", "tiers"), str(inventory.tiers)
    yield ("all networks", "bisection"), _rate(inventory.bisection.rate_bps)
    yield ("all networks", "oversubscription"), _ratio(inventory.oversubscription)
    yield ("all networks", "diameter"), f"{inventory.diameter} links"


def _kind_lines(row: NetworkRow, part: str) -> Lines:
    alike = f" and {row.count - 1:,} identical" if row.count > 1 else ""
    found: Lines = {(part, ""): row.name + alike + ", scale-up" * row.is_scale_up}
    found[part, "hosts"] = f"{row.hosts:,}"
    found[part, "switches"] = f"{row.switches:,} in {row.tiers} tier{'s' * (row.tiers != 1)}"
    if row.bisection is not None:
        found[part, "bisection"] = _rate(row.bisection.rate_bps)
        found[part, "oversubscription"] = _ratio(row.oversubscription)
    if row.uniform is not None:
        found[part, "uniform traffic"] = f"{100 * row.uniform:.4g} % of the hosts' rate"
    for name, bound in row.patterns.items():
        found[part, f"{name} traffic"] = f"{100 * bound:.4g} % of the hosts' rate"
    for one in row.path_diversity:
        fewest, most = format_number(one.fewest), format_number(one.most)
        shown = fewest if one.fewest == one.most else f"{fewest} to {most}"
        over = f"paths over {one.links} links" + (f" by {one.by}" if one.by else "")
        found[part, over] = f"{shown}, {100 * one.share:.3g} % of pairs"
    if paths := row.slot_paths:
        ends = sorted({paths.shortest, paths.longest})
        longest = " to ".join(map(str, ends)) + " links"
        by = f" by {paths.by}" if paths.by else ""
        found[part, f"longest path between edges{by}"] = f"{longest} in {paths.slots:,} slots"
        found[part, f"mean path between edges{by}"] = f"{paths.mean:.3g} links"
    return found


def _circuit_lines(row: CircuitRow) -> Lines:
    name = " to ".join(row.names) if row.count > 1 else row.names[0]
    part = f"circuit switch {name}"
    matchings = f"{row.matchings:,} in {format_time(row.period_ps, 4)}"
    if row.phase_driven:
        matchings = f"{row.matchings:,}, one per phase"
    return {
        (part, ""): f"{row.count:,} x {row.ports:,} x {format_rate(row.rate_bps)}",
        (part, "matchings"): matchings if row.period_ps else "never changes",
        (part, "reconfiguration"): format_time(row.night_ps, 4),
        (part, "duty cycle"): f"{100 * row.duty:.4g} %",
    }


def _bill_lines(one: NetworkSummary) -> Lines:
    """Return the lines of a bill: with a scale-up network, each kind separately."""
    from netsim.model.inventory import SCALE_UP_PORT

    found: Lines = {("cost and power", ""): _total(one.bill)}
    ups = [row for row in one.bill if row.part == SCALE_UP_PORT]
    outs = [row for row in one.bill if row.part != SCALE_UP_PORT]
    for name, rows in (("scale-up", ups), ("scale-out", outs)):
        part = f"cost and power, {name}" if ups else "cost and power"
        if rows:
            found[part, ""] = _total(rows)
            found |= {(part, row.part): f"{row.count:,}: {_total([row])}" for row in rows}
            found[part, PER_HOST] = _total(rows, one.inventory.hosts)
    return found


def _failure_lines(failed: Failure) -> Lines:
    part = f"without {failed.name}"
    found: Lines = {(part, ""): f"{failed.cables:,} cable{'s' * (failed.cables != 1)} down"}
    found[part, "hosts cut off"] = f"{failed.hosts_cut_off:,}"
    found[part, "other hosts with fewer ports"] = f"{failed.hosts_fewer_ports:,}"
    found[part, "other hosts with fewer paths"] = f"{failed.hosts_fewer_paths:,}"
    found[part, "remaining paths, minimum"] = f"{100 * failed.paths_left:.3g} %"
    if failed.flows_cut_off is not None:
        found[part, "flows cut off"] = f"{failed.flows_cut_off:,}"
        found[part, "other flows affected"] = f"{failed.flows_touched:,}"
    return found


def _total(rows: Sequence[BillRow], hosts: int = 1) -> str:
    usd, watts = sum(row.usd for row in rows) / hosts, sum(row.watts for row in rows) / hosts
    return f"{_short(usd, '')} USD, {_short(watts, 'W')}"


def _short(value: float, unit: str) -> str:
    """Format with a prefix and only three digits, since prices are assumptions."""
    for scale, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= scale:
            return f"{format_number(value / scale, 3)} {prefix}{unit}"
    return f"{format_number(value, 3)} {unit}".rstrip()


def _rate(rate_bps: int) -> str:
    return format_rate(rate_bps, 5) if rate_bps else "none"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{format_number(value)} : 1"
