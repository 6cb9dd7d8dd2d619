"""Drawing of a network: hosts, switches by tier, cables by rate, matchings of circuits.

Large networks are drawn in part, with counts (`network_layout.py`). `topology.py` draws results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from netsim.inventory.cables import physical_ports
from netsim.inventory.inventory import stem
from netsim.plots import style
from netsim.plots.matchings import draw_matchings
from netsim.plots.network_layout import Drawing, lay_out
from netsim.units import format_rate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from netsim.model.network import Network

HOST, SWITCH, CIRCUIT = "#444444", "#F4F1EA", "#E69F00"
ROW_IN, UNIT_IN = 1.05, 0.17
"""Height of a tier and width per host, in inches."""
ARC_POINTS = 15
ABREAST, WIDEST_IN = 3, 14.0
"""Networks in a row of the figure; maximum width of one in inches."""
OUTSIDE_BLOCKS = "#777777"


class Panel(NamedTuple):
    """A network to draw, with its title."""

    title: str
    network: Network


def draw_networks(panels: Sequence[Panel]) -> Figure:
    """Draw networks side by side, with the matchings of circuits below."""
    from matplotlib.figure import Figure

    drawings = [lay_out(panel.network) for panel in panels]
    with_circuits = any(panel.network.circuits is not None for panel in panels)
    columns = 2 if len(panels) == ABREAST + 1 else min(len(panels), ABREAST)
    rows = -(-len(panels) // columns)
    wanted = [min(WIDEST_IN, max(5.0, drawing.width * UNIT_IN + 2.6)) for drawing in drawings]
    widths = [max(wanted[column::columns]) for column in range(columns)]
    shrink = min(1.0, WIDEST_IN * 1.5 / sum(widths))
    ratios = [
        ROW_IN * max(drawing.rows for drawing in drawings) + 1.0,
        *([1.9] if with_circuits else []),
    ]
    size = (sum(widths) * shrink, sum(ratios) * rows)
    figure = Figure(figsize=size, layout="constrained")
    parts = figure.subfigures(rows, columns, squeeze=False, width_ratios=widths).ravel()
    for panel, drawing, part in zip(panels, drawings, parts, strict=False):
        grid = part.add_gridspec(len(ratios), 1, height_ratios=ratios)
        axes = part.add_subplot(grid[0, 0])
        draw_structure(axes, panel.network, drawing)
        _draw_cables(axes, panel.network, drawing)
        axes.set_title(panel.title, fontsize="medium")
        if panel.network.circuits is not None:
            draw_matchings(part, grid[1, 0], panel.network)
    return figure


def draw_structure(axes: Axes, network: Network, drawing: Drawing) -> None:
    """Draw nodes, dots and labels, but no cables."""
    from matplotlib.patches import Rectangle

    low, high = min(drawing.x.values()), max(drawing.x.values())
    for name, first, last, top in drawing.blocks:
        frame = Rectangle((first, 0.55), last - first, top - 0.1, facecolor="#EEF3F8", zorder=0)
        axes.add_patch(frame)
        axes.text((first + last) / 2, top + 0.48, name, ha="center", fontsize="small")
    hosts = [(drawing.x[host], drawing.y[host]) for host in drawing.hosts]
    xs, ys = np.array(hosts).reshape(-1, 2).T
    axes.scatter(xs, ys, s=14, color=HOST, zorder=3)
    places = [(drawing.x[one], drawing.y[one]) for one in drawing.switches]
    size = min(90.0, 4000 / len(places)) if drawing.is_round else 90.0
    style_of: dict[str, Any] = {
        "s": size,
        "marker": "s",
        "facecolor": SWITCH,
        "edgecolor": HOST,
        "zorder": 3,
    }
    xs, ys = np.array(places).T
    axes.scatter(xs, ys, **style_of)
    for x, y in drawing.circuits.values():
        axes.scatter([x], [y], s=150, marker="D", facecolor=CIRCUIT, edgecolor=HOST, zorder=3)
    for x, y in drawing.dots:
        axes.text(x, y, "\u2026", ha="center", va="center", fontsize="large", zorder=4)
    for height, text in _row_labels(network, drawing):
        axes.text(
            low - 0.03 * (high - low) - 0.6, height, text, ha="right", va="center", fontsize="small"
        )
    axes.set_xlim(low - 0.06 * (high - low) - 1, high + 0.02 * (high - low) + 1)
    tops = [*drawing.y.values(), *(y for _, y in drawing.circuits.values())]
    axes.set_ylim(min(tops) - 0.5, max(tops) + (0.75 if drawing.blocks else 0.45))
    axes.set_axis_off()
    if drawing.is_round:
        axes.set_aspect("equal")


def _row_labels(network: Network, drawing: Drawing) -> list[tuple[float, str]]:
    """Return the height and text of each row's label, with counts of the whole network."""
    ports = network.n_host_ports // network.n_hosts
    real = network.port_node[physical_ports(network)]
    ports_of = np.bincount(real, minlength=network.n_nodes)[network.n_hosts :]
    host = f"{network.n_hosts:,} hosts"
    if drawing.is_round:
        sizes = np.unique(ports_of)
        most = f" to {sizes[-1]:,}" if sizes.size > 1 else ""
        switches = f"{network.n_switches:,} switches\n{sizes[0]:,}{most} ports"
        return [(0.0, f"{switches}\n{host}")]
    texts = [(0.0, host if ports == 1 else f"{host}\nof {ports} ports")]
    kinds: dict[float, dict[str, set[int]]] = {}
    for node in drawing.switches:
        name = stem(network.switch_names[node - network.n_hosts])
        at = kinds.setdefault(drawing.y[node], {}).setdefault(name, set())
        at.add(int(network.tier[node]))
    stems = np.array([stem(name) for name in network.switch_names])
    tier = network.tier[network.n_hosts :]
    for height, names in sorted(kinds.items()):
        parts = []
        for name, tiers in names.items():
            these = np.flatnonzero((stems == name) & np.isin(tier, list(tiers)))
            sizes = np.unique(ports_of[these])
            among = " or ".join(f"{n:,}" for n in sizes[:2].tolist())
            parts.append(f"{these.size:,} {name}\n{among} ports" + " or more" * (sizes.size > 2))
        texts.append((height, "\n".join(parts[:2])))
    if network.circuits is not None:
        height = next(iter(drawing.circuits.values()))[1]
        n = len(network.circuits.names)
        texts.append((height, f"{n:,} circuit switch{'es' * (n != 1)}"))
    return texts


Place = tuple[float, float]


class Wire(NamedTuple):
    """A line of a drawing: the ports at its first end, its points, its block (-1: none)."""

    ports: tuple[int, ...]
    points: tuple[Place, ...]
    block: int


def wires(network: Network, drawing: Drawing) -> list[Wire]:
    """Return a line for each pair of drawn nodes joined by cables, and for each fiber."""
    found: dict[tuple[int, int], list[int]] = {}
    circuits = network.circuits
    for node in drawing.x:
        first, end = network.node_first_port[node : node + 2].tolist()
        for port in range(first, end):
            peer = int(network.port_node[network.port_peer[port]])
            if circuits is not None and circuits.of_port[port] >= 0:
                found.setdefault((node, -1 - int(circuits.of_port[port])), []).append(port)
            elif node < peer:
                found.setdefault((node, peer), []).append(port)
    places = {node: (x, drawing.y[node]) for node, x in drawing.x.items()}
    taken = set() if drawing.is_round else set(places.values())
    drawn = []
    for (node, peer), ports in found.items():
        here = places[node]
        if peer in drawing.x:
            points = _line(here, places[peer], taken)
        elif -1 - peer in drawing.circuits:
            points = (here, drawing.circuits[-1 - peer])
        else:
            continue
        block = drawing.block_of.get(max(node, peer), -1)
        drawn.append(Wire(tuple(ports), points, block))
    return drawn


def _line(here: Place, there: Place, taken: set[Place]) -> tuple[Place, ...]:
    """Return a straight line, or an arc if nodes lie between its ends."""
    low, high = sorted((here[0], there[0]))
    between = any(y == here[1] and low < x < high for x, y in taken)
    if here[1] != there[1] or not between:
        return (here, there)
    share = np.linspace(0, 1, ARC_POINTS)
    rise = min(0.4, 0.05 * abs(there[0] - here[0]))
    xs = here[0] + share * (there[0] - here[0])
    ys = here[1] + rise * 4 * share * (1 - share)
    return tuple(zip(xs.tolist(), ys.tolist(), strict=True))


def _draw_cables(axes: Axes, network: Network, drawing: Drawing) -> None:
    """Draw cables, the fastest the widest, colored by rate or by network."""
    from matplotlib.collections import LineCollection
    from matplotlib.lines import Line2D

    drawn = wires(network, drawing)
    rates = sorted({int(rate) for rate in network.port_rate_bps}, reverse=True)
    handles = []
    for at, rate_bps in enumerate(rates):
        these = [one for one in drawn if int(network.port_rate_bps[one.ports[0]]) == rate_bps]
        by_block = bool(drawing.blocks)
        colors = [
            (style.color(one.block) if one.block >= 0 else OUTSIDE_BLOCKS)
            if by_block
            else style.color(at)
            for one in these
        ]
        width = 1.6 - 0.9 * at / (len(rates) - 1) if len(rates) > 1 else 0.9
        options: dict[str, Any] = {
            "colors": colors,
            "linewidths": width,
            "alpha": 0.75,
            "zorder": 1,
        }
        axes.add_collection(LineCollection([one.points for one in these], **options))
        label = f"{format_rate(rate_bps)}: {_cables_of(network, rate_bps):,}"
        shade = OUTSIDE_BLOCKS if by_block else style.color(at)
        handles.append(Line2D([], [], color=shade, linewidth=width, label=label))
    axes.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, 0.03),
        ncols=min(4, len(handles)),
        frameon=False,
        fontsize="small",
        title="cables" if network.circuits is None else "cables and fibers",
        title_fontsize="small",
    )


def _cables_of(network: Network, rate_bps: int) -> int:
    """Return the number of cables and fibers of a rate."""
    these = network.port_rate_bps == rate_bps
    if network.circuits is None:
        return int(these.sum()) // 2
    plain = int((these & (network.circuits.fiber < 0)).sum()) // 2
    return plain + int((these & (network.circuits.fiber >= 0) & physical_ports(network)).sum())
