"""What circuit switches join: their ports around a circle, matching by matching.

Light that goes one way only is an arrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.units import format_time

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

    from netsim.model.network import Network

PORT, LIGHT = "#444444", "#C77700"
MOST_MATCHINGS = 6


def draw_matchings(figure: Figure | SubFigure, place: Any, network: Network) -> None:
    """The first matchings of the first circuit switch; `place` is part of a grid of the figure."""
    circuits = network.circuits
    assert circuits is not None
    found = matchings(network, 0)
    count = min(len(found), MOST_MATCHINGS)
    grid = place.subgridspec(1, count)
    ends = np.unique(circuits.fibre[circuits.of_port == 0])
    angles = 2 * np.pi * np.arange(ends.size) / ends.size
    spots = np.stack([np.sin(angles), np.cos(angles)], axis=1)
    of_end = {int(end): spot for end, spot in zip(ends.tolist(), spots, strict=True)}
    width = min(1.2, 25 / ends.size)
    for at, (up_ps, pairs) in enumerate(found[:count]):
        axes = figure.add_subplot(grid[0, at])
        axes.scatter(spots[:, 0], spots[:, 1], s=min(20.0, 200 / ends.size), color=PORT, zorder=2)
        for a, b in pairs:
            if (b, a) not in pairs:
                style = {"color": LIGHT, "linewidth": width, "arrowstyle": "->"}
                axes.annotate("", of_end[b], of_end[a], arrowprops=style, zorder=1)
            elif a < b:
                line = np.stack([of_end[a], of_end[b]])
                axes.plot(*line.T, color=LIGHT, linewidth=width, zorder=1)
        axes.set(aspect="equal", xlim=(-1.2, 1.2), ylim=(-1.2, 1.2))
        axes.set_axis_off()
        title = f"from {format_time(up_ps, 4)}" if len(found) > 1 else "always"
        if circuits.follow:
            title = f"slot {up_ps}"
        if not at:
            title = f"{circuits.names[0]} {title}"
        if at == count - 1 and len(found) > count:
            title += f"\nand {len(found) - count:,} more"
        axes.set_title(title, fontsize="small")


def matchings(network: Network, number: int) -> list[tuple[int, set[tuple[int, int]]]]:
    """When light begins to pass a circuit switch anew, and the fibres joined then: from, to.

    Of one that follows the workload the slot is told in place of the time.
    """
    assert network.circuits is not None
    circuits = network.circuits.in_turn()
    ports = np.flatnonzero(circuits.of_port == number)
    if circuits.lit is not None:
        ports = ports[circuits.lit[ports]]
    calendar = circuits.calendar[ports]
    always = ports[calendar < 0]
    first = circuits.first_day
    period_ps = int(circuits.period_ps[calendar[calendar >= 0]].max(initial=1))
    days = {
        int(port): circuits.days_ps[slice(*first[c : c + 2])]
        for port, c in zip(ports, calendar, strict=True)
        if c >= 0
    }
    starts = sorted({int(up) % period_ps for these in days.values() for up in these[:, 0]})
    found = []
    for up_ps in starts or [0]:
        lit = list(always)
        for port, these in days.items():
            times = (up_ps - these[:, 0]) % period_ps
            if (times < these[:, 1] - these[:, 0]).any():
                lit.append(port)
        pairs = {(int(circuits.fibre[p]), int(circuits.fibre[network.port_peer[p]])) for p in lit}
        found.append((up_ps, pairs))
    return found
