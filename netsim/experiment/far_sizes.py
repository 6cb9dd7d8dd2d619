"""Find sizes that are far from the bandwidth-delay product of a point's network.

A transport's `FABRIC` states queue sizes as bandwidth-delay products, and a window's parameter
says how many its default is (`Param.products`). An experiment or a preset may set bytes or packets
that suit another rate. At a quarter of the default's queue, or eight times as much, completion
times of NDP, RoCE, NSCC, RCCC and SMaRTT are 4 to 9 % worse; further away they may double. ECN
thresholds that were published differ more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from netsim.experiment.resolve_fabric import fabric_defaults, size_values
from netsim.model.port_sizes import base_round_trips
from netsim.units import (
    Bdp,
    format_bytes,
    format_number,
    format_rate,
    format_time,
    parse_port_size,
)

if TYPE_CHECKING:
    from netsim.experiment import Point
    from netsim.model.network import Network

QUEUES, THRESHOLDS = (0.25, 8.0), (1 / 16, 16.0)
"""Least and most of what the transport takes by default, for queues and windows, and for ECN."""


def far_sizes(point: Point, network: Network) -> Iterator[str]:
    """Yield a sentence for each size that is far from the transport's default, which is a
    bandwidth-delay product of the longest path at the rate of the fastest host."""
    given = list(_given(point))
    if not given or network.circuits is not None:  # packets wait for circuits longer than a path
        return
    hosts = network.n_host_ports
    port = int(network.port_rate_bps[:hosts].argmax())
    rate_bps = int(network.port_rate_bps[port])
    trip_ps = int(base_round_trips(network, point.packets)[network.port_network[port]])
    where = f"{format_rate(rate_bps)} and a base round trip of {format_time(trip_ps, 4)}"
    for key, size_bytes, default, fix in given:
        expected = default.at(rate_bps, trip_ps)
        least, most = THRESHOLDS if ".ecn." in key else QUEUES
        if expected and not least <= size_bytes / expected <= most:
            yield (
                f"{key} = {format_bytes(size_bytes)} is "
                f"{format_number(size_bytes / expected, 2)} times {point.transport.plugin.name}'s, "
                f"{format_bytes(expected, 4)} at {where}; {fix}"
            )


def _given(point: Point) -> Iterator[tuple[str, int, Bdp, str]]:
    """Yield key, bytes, default and remedy of each size that is not a bandwidth-delay product."""
    packet_bytes = point.packets.data_bytes
    defaults = dict(fabric_defaults(point.transport.module, None))
    defaults |= {f"ecn.{name}": value for name, value in defaults.pop("ecn", {}).items()}
    for name, value in size_values(point.fabric).items():
        usual = defaults.get(name)
        if isinstance(usual, str) and "bdp" in usual and isinstance(value, int):
            default = parse_port_size(usual, packet_bytes)
            assert isinstance(default, Bdp)
            yield f"fabric.{name}", value, default, f'write {name} = "{usual}"'
    for use in point.transport_of_class:
        for param in use.plugin.params:
            value = use.params[param.name]
            if param.products is None or not value:
                continue
            default = parse_port_size(param.products, packet_bytes)
            assert isinstance(default, Bdp)
            size_bytes = value * packet_bytes if param.unit == "count" else value
            auto = param.format(param.convert(param.default))
            yield f"transport.{param.name}", size_bytes, default, f"write {param.name} = {auto}"
