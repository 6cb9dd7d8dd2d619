"""Sizes in bandwidth-delay products as bytes at each kind of port."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from netsim.experiment.model import Point
from netsim.experiment.resolve_fabric import size_values
from netsim.model.parts import built
from netsim.model.port_sizes import PortSizes, port_sizes
from netsim.units import Bdp, format_bytes, format_rate, format_time


def report_queue_sizes(points: Sequence[Point]) -> Iterator[str]:
    """Return lines with the sizes in bdp at each kind of port, once for equal points.

    Builds the network of each. Raises InputError if one cannot be built.
    """
    lines: dict[tuple[str, ...], str] = {}
    for point in points:
        if not point.fabric.in_products:
            continue
        network = built(point.topology, "build", point.topology.params)
        sizes = port_sizes(point.fabric, network, point.packets)
        lines.setdefault(tuple(_rows(point, sizes)), point.name)
    for rows, name in lines.items():
        yield "Sizes in bdp" + (f" of {name}" if len(lines) > 1 else "") + ":"
        yield from rows


def _rows(point: Point, sizes: PortSizes) -> Iterator[str]:
    written = size_values(point.fabric)
    names = [name for name, value in written.items() if isinstance(value, Bdp)]
    kinds = zip(sizes.fabrics, sizes.rate_bps, sizes.round_trip_ps, strict=True)
    for fabric, rate_bps, round_trip_ps in kinds:
        values = size_values(fabric)
        each = ", ".join(f"{name} = {format_bytes(int(values[name]))}" for name in names)
        trip = format_time(round_trip_ps)
        yield f"  ports of {format_rate(rate_bps)}, base round trip {trip}: {each}"
