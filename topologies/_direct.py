"""Shared by direct networks: parameters, and hosts at their switches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from netsim.errors import errors_at
from netsim.model.columns import Ints
from netsim.network import Network, NetworkBuilder
from netsim.params import Param, Params
from netsim.units import parse_shape

DIMENSION_ORDER, MINIMAL = "dimension_order", "minimal"


def paths_param(default: str) -> Param:
    """Return the parameter of networks with dimensions that names the paths of packets."""
    text = "which shortest paths packets take"
    return Param("paths", "choice", default, text, choices=(DIMENSION_ORDER, MINIMAL))


LINKS = [
    Param("host_rate", "rate", "800Gbps", "line rate of a host"),
    Param("fabric_rate", "rate", None, "rate between switches; default: host_rate"),
    Param("link_latency", "time", "1us", "propagation delay between switches", minimum="1ps"),
    Param("host_link_latency", "time", None, "propagation, host to switch; default: link_latency"),
    Param("switch_latency", "time", "0ns", "from a packet's last bit in to its output queue"),
]


class Cables(NamedTuple):
    """Cables between pairs of switches, ``ends`` (int64[n, 2], counted from 0).

    `rate_bps` and `delay_ps` replace `fabric_rate` and `link_latency`; `weight` and `dimension` are
    as in `NetworkBuilder.cables`.
    """

    ends: Ints
    rate_bps: int | None = None
    delay_ps: int | None = None
    weight: int = 1
    dimension: int = 0


def build_direct(
    name: str,
    params: Params,
    switches: Sequence[Sequence[str]],
    hosts_per_switch: int,
    cables: Sequence[Cables],
    shape: tuple[int, ...] = (),
) -> Network:
    """Return a network of switches, tier by tier (their names), with hosts at the first tier. Hosts
    are numbered switch by switch, and a switch's ports lead to its hosts first. `shape` is the grid
    of these switches (`Network.shape`)."""
    n_edges, n = len(switches[0]), sum(map(len, switches))
    n_hosts = n_edges * hosts_per_switch
    ends = np.concatenate([one.ends.reshape(-1) for one in cables])
    ports = int(np.bincount(ends, minlength=n).max()) + hosts_per_switch
    builder = NetworkBuilder()
    builder.reserve(
        hosts=n_hosts, switches=n, cables=n_hosts + ends.size // 2, edges=n_edges, ports=ports
    )
    hosts = np.array(builder.add_hosts(n_hosts))
    ids = np.concatenate(
        [
            np.array(builder.add_switches(names, tier, params["switch_latency"]))
            for tier, names in enumerate(switches)
        ]
    )
    latency_ps = params["link_latency"]
    to_host_ps = params["host_link_latency"] or latency_ps
    builder.cables(hosts, ids[hosts // hosts_per_switch], params["host_rate"], to_host_ps)
    for one in cables:
        rate_bps = one.rate_bps or params["fabric_rate"] or params["host_rate"]
        delay_ps = one.delay_ps or latency_ps
        a, b = ids[one.ends].T
        builder.cables(a, b, rate_bps, delay_ps, weight=one.weight, dimension=one.dimension)
    return replace(builder.build(name), shape=shape)


def numbers(text: str, key: str, least: int) -> tuple[int, ...]:
    """Return the lengths in a shape such as "4x4x8". Raises InputError if it is not a shape."""
    with errors_at(key=f"topology.{key}"):
        return parse_shape(text, least)


def places(shape: Sequence[int]) -> Ints:
    """Return int64[n, dimensions], the coordinates of each switch; the last change fastest."""
    return np.stack(np.unravel_index(np.arange(np.prod(shape)), tuple(shape)), axis=1)


def names_of(prefix: str, coordinates: Ints) -> list[str]:
    """Return a name for each row of coordinates, such as "s0_3_1"."""
    return [prefix + "_".join(map(str, row)) for row in coordinates.tolist()]
