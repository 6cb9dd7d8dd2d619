"""The table of `netsim topo`: a line for each figure, a column for each network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from netsim.terminal import plain_table
from netsim.units import format_number, format_rate, format_time

if TYPE_CHECKING:
    from rich.table import Table

    from netsim.inventory.circuits import CircuitRow
    from netsim.inventory.failure import Failure
    from netsim.inventory.inventory import Inventory, NetworkRow
    from netsim.inventory.prices import BillRow


class NetworkSummary(NamedTuple):
    """One network of an experiment and all that is told of it."""

    label: str
    inventory: Inventory
    bill: tuple[BillRow, ...]
    failures: tuple[Failure, ...]


PARTS = ("hosts", "switches", "cables", "all", "network", "circuit", "cost", "without")
"""How parts begin, in their order."""

SORTED = ("switches", "cables")
PER_HOST = "per host"

Lines = dict[tuple[str, str], str]
"""Part and name of a figure -> its value as text; a part's own line has no name."""


def topo_table(counted: Sequence[NetworkSummary]) -> Table:
    """All figures of all networks."""
    from rich.text import Text

    columns = [_lines(one) for one in counted]
    table = plain_table("", *(one.label for one in counted))
    for part, name in _order(columns):
        cells = [column.get((part, name), "") for column in columns]
        title = Text(f"  {name}") if name else Text(part, style="bold")
        table.add_row(title, *(Text(cell, justify="right", no_wrap=True) for cell in cells))
    return table


def notes(counted: Sequence[NetworkSummary]) -> Iterator[str]:
    """What the figures mean, and where prices are from."""
    from netsim.inventory.bisection import MAX_FLOW, TIERS
    from netsim.inventory.cables import LONGEST_M

    rack, row, hall = LONGEST_M
    yield (
        f"Lengths are delays at 5 ns a meter: rack up to {rack} m, row {row} m, hall {hall:,} m, "
        "wan beyond."
    )
    hows = {one.inventory.bisection.how for one in counted}
    if MAX_FLOW in hows:
        yield (
            "Bisection: what the first half of the hosts, by number, can send to the second at "
            "once, one way, by max-flow; circuits count for the share of time in which they are "
            "there."
        )
    if TIERS in hows:
        yield f"Bisection ({TIERS}): half of the least capacity between two tiers."
    rows = [row for one in counted for row in one.inventory.networks if row.to_edges < row.edges]
    if rows:
        yield (
            "Path diversity and diameter: to the hosts of "
            + "; ".join(f"{row.to_edges} of {row.edges:,} edge switches" for row in rows)
            + "."
        )
    sources = {row.part: row.source for one in counted for row in one.bill}
    for part, source in sources.items():
        yield f"Price of {part}: {source}."


def _order(columns: Sequence[Lines]) -> list[tuple[str, str]]:
    """All lines of all columns: by part, in each the part's own line, the others, totals last."""
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
    """Where a part stands: networks by their numbers, what there may be none of in its place."""
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
        shown = f"{nic.ports} x {format_rate(nic.port_rate_bps)}{some}"
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
    alike = f" and {row.count - 1:,} alike" if row.count > 1 else ""
    found: Lines = {(part, ""): row.name + alike}
    found[part, "hosts"] = f"{row.hosts:,}"
    found[part, "switches"] = f"{row.switches:,} in {row.tiers} tier{'s' * (row.tiers != 1)}"
    if row.bisection is not None:
        found[part, "bisection"] = _rate(row.bisection.rate_bps)
        found[part, "oversubscription"] = _ratio(row.oversubscription)
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
    turns = f"{row.matchings:,} in {format_time(row.period_ps, 4)}"
    if row.phase_driven:
        turns = f"{row.matchings:,}, one a phase"
    return {
        (part, ""): f"{row.count:,} x {row.ports:,} x {format_rate(row.rate_bps)}",
        (part, "matchings"): turns if row.period_ps else "never changes",
        (part, "dark at a change"): format_time(row.night_ps, 4),
        (part, "duty"): f"{100 * row.duty:.4g} %",
    }


def _bill_lines(one: NetworkSummary) -> Lines:
    usd, watts = sum(row.usd for row in one.bill), sum(row.watts for row in one.bill)
    hosts = one.inventory.hosts
    found: Lines = {("cost and power", ""): _bill(usd, watts)}
    for row in one.bill:
        found["cost and power", f"{row.part}"] = f"{row.count:,}: {_bill(row.usd, row.watts)}"
    found["cost and power", PER_HOST] = _bill(usd / hosts, watts / hosts)
    return found


def _failure_lines(failed: Failure) -> Lines:
    part = f"without {failed.name}"
    found: Lines = {(part, ""): f"{failed.cables:,} cable{'s' * (failed.cables != 1)} down"}
    found[part, "hosts cut off"] = f"{failed.hosts_cut_off:,}"
    found[part, "others with fewer ports"] = f"{failed.hosts_fewer_ports:,}"
    found[part, "others with fewer paths"] = f"{failed.hosts_fewer_paths:,}"
    found[part, "paths left, at least"] = f"{100 * failed.paths_left:.3g} %"
    if failed.flows_cut_off is not None:
        found[part, "flows cut off"] = f"{failed.flows_cut_off:,}"
        found[part, "other flows touched"] = f"{failed.flows_touched:,}"
    return found


def _bill(usd: float, watts: float) -> str:
    return f"{_short(usd, '')} USD, {_short(watts, 'W')}"


def _short(value: float, unit: str) -> str:
    """Three digits with a prefix, so that nobody reads more into an assumption."""
    for scale, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= scale:
            return f"{format_number(value / scale, 3)} {prefix}{unit}"
    return f"{format_number(value, 3)} {unit}".rstrip()


def _rate(rate_bps: int) -> str:
    return format_rate(rate_bps, 5) if rate_bps else "none"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{format_number(value)} : 1"
