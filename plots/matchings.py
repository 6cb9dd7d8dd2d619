"""Matchings of circuit switches, drawn as chords of a circle of ports; arrows are one-way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from netsim.units import format_time

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

    from netsim.model.circuits import Circuits
    from netsim.model.network import Network

Pairs = set[tuple[int, int]]

PORT, LIGHT = "#444444", "#C77700"
MAX_MATCHINGS = 6


class Circle(NamedTuple):
    """A matching of a circuit switch to draw, with a title."""

    switch: int
    title: str
    pairs: Pairs


def draw_matchings(figure: Figure | SubFigure, place: Any, network: Network) -> None:
    """Draw some matchings of a network (`_circles`) in `place`, a cell of the figure's grid."""
    circuits = network.circuits
    assert circuits is not None
    circles = _circles(network, circuits)
    grid = place.subgridspec(1, len(circles))
    for at, circle in enumerate(circles):
        ends = np.unique(circuits.fiber[circuits.of_port == circle.switch])
        angles = 2 * np.pi * np.arange(ends.size) / ends.size
        spots = np.stack([np.sin(angles), np.cos(angles)], axis=1)
        of_end = {int(end): spot for end, spot in zip(ends.tolist(), spots, strict=True)}
        width = min(1.2, 25 / ends.size)
        axes = figure.add_subplot(grid[0, at])
        axes.scatter(spots[:, 0], spots[:, 1], s=min(20.0, 200 / ends.size), color=PORT, zorder=2)
        for a, b in circle.pairs:
            if (b, a) not in circle.pairs:
                style = {"color": LIGHT, "linewidth": width, "arrowstyle": "->"}
                axes.annotate("", of_end[b], of_end[a], arrowprops=style, zorder=1)
            elif a < b:
                line = np.stack([of_end[a], of_end[b]])
                axes.plot(*line.T, color=LIGHT, linewidth=width, zorder=1)
        axes.set(aspect="equal", xlim=(-1.2, 1.2), ylim=(-1.2, 1.2))
        axes.set_axis_off()
        axes.set_title(circle.title, fontsize="small")


def _circles(network: Network, circuits: Circuits) -> list[Circle]:
    """Return the first matchings of the first switch, or if static, those of the first switches."""
    names = circuits.names
    found = matchings(network, 0)
    if len(found) > 1:
        circles = [
            Circle(
                0, f"slot {up_ps}" if circuits.follow else f"from {format_time(up_ps, 4)}", pairs
            )
            for up_ps, pairs in found
        ]
        circles[0] = circles[0]._replace(title=f"{names[0]} {circles[0].title}")
        count = len(found)
    else:
        some = [matchings(network, number)[0][1] for number in range(len(names[:MAX_MATCHINGS]))]
        circles = [Circle(n, f"{names[n]} always", pairs) for n, pairs in enumerate(some)]
        count = len(names)
    circles = circles[:MAX_MATCHINGS]
    if count > len(circles):
        more = f"{circles[-1].title}\nand {count - len(circles):,} more"
        circles[-1] = circles[-1]._replace(title=more)
    return circles


def matchings(network: Network, number: int) -> list[tuple[int, Pairs]]:
    """Return the start of each matching of a circuit switch, and its pairs of fibers (from, to).

    If circuits follow the workload, the start is a slot instead of a time.
    """
    assert network.circuits is not None
    circuits = network.circuits.with_unit_slots()
    ports = np.flatnonzero(circuits.of_port == number)
    if circuits.ever_up is not None:
        ports = ports[circuits.ever_up[ports]]
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
        up = list(always)
        for port, these in days.items():
            times = (up_ps - these[:, 0]) % period_ps
            if (times < these[:, 1] - these[:, 0]).any():
                up.append(port)
        pairs = {(int(circuits.fiber[p]), int(circuits.fiber[network.port_peer[p]])) for p in up}
        found.append((up_ps, pairs))
    return found
