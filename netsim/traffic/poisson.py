"""Flows that arrive at random: a Poisson process at each host, to hosts chosen at random.

How many is given either as `load`, the share of a host's link that its flows fill (headers
included), or as `rate`, flows per second and host. How long: for a `duration`, or until
there are `n_flows`. A flow never goes to its own source; every other host is equally likely, or
with `rack_hosts` every host of another rack.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.flows import FlowTable, TrafficContext, Workload
from netsim.limits import HORIZON_PS
from netsim.model.checks import HORIZON
from netsim.network import Network
from netsim.params import REQUIRED, Param
from netsim.traffic._draw import other_hosts
from netsim.traffic._sizes import BETWEEN, LINEAR, SizeDistribution, find_sizes
from netsim.units import written

PARAMS = [
    Param(
        "sizes",
        "sizes",
        REQUIRED,
        "one size, points of a cumulative distribution, the name of one (web_search, hadoop, "
        "data_mining, homa_w1 to homa_w5), or a file with a size in bytes and a probability on "
        "each line",
    ),
    Param(
        "cdf_interpolation",
        "choice",
        "linear",
        "sizes between two points are spread evenly, or each is the larger one",
        choices=BETWEEN,
    ),
    Param(
        "rack_hosts", "count", None, "hosts of a rack, which send to other racks only", minimum=1
    ),
    Param("load", "ratio", None, "share of the hosts' link capacity that is offered"),
    Param("rate", "ratio", None, "flows per second that start at each host", maximum=1e12),
    Param("duration", "time", None, "arrivals from 0 until this time"),
    Param("n_flows", "count", None, "number of arrivals", minimum=1),
]

PS_PER_SECOND = 10**12


def flows(
    params: Mapping[str, Any], network: Network, rng: np.random.Generator, context: TrafficContext
) -> Workload:
    """Flows in order of arrival, and a note of how large they are on average."""
    if network.n_hosts < 2:
        raise InputError("needs at least two hosts", key="traffic")
    _exactly_one(params, "load", "rate")
    _exactly_one(params, "duration", "n_flows")
    sizes = find_sizes(params["sizes"], context.directory, params["cdf_interpolation"])
    per_host = params["rate"]
    if per_host is None:
        per_host = params["load"] * context.host_rate_bps / 8 / mean_wire_bytes(sizes, context)
    if per_host <= 0:
        raise InputError(
            "must be positive", key=f"traffic.{'load' if params['rate'] is None else 'rate'}"
        )
    start_ps = _arrivals(params, per_host * network.n_hosts, rng, context)
    # The sum of equal Poisson processes is one, each of whose arrivals is at any host.
    src = rng.integers(0, network.n_hosts, start_ps.size)
    dst = _destinations(src, params["rack_hosts"], network.n_hosts, rng)
    flows = FlowTable(src, dst, sizes.draw(start_ps.size, rng), start_ps)
    return Workload(flows, notes=(_note(params, sizes),))


def _note(params: Mapping[str, Any], sizes: SizeDistribution) -> str:
    """The mean of the sizes: tables of one name differ, and so do the two ways to read one."""
    given = params["sizes"]
    table = f"the table {written(given)}" if isinstance(given, str) else "the table given"
    read = (
        "between points spread evenly"
        if params["cdf_interpolation"] == LINEAR
        else "each the next point"
    )
    return f"sizes of {table}, {read}: {sizes.mean_bytes():,.1f} bytes on average"


def _destinations(
    src: NDArray[np.int64], rack_hosts: int | None, n_hosts: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """For each source another host, or one of another rack, each equally likely."""
    if rack_hosts is None:
        return other_hosts(src, n_hosts, rng)
    if n_hosts % rack_hosts or n_hosts == rack_hosts:
        raise InputError(
            f"{n_hosts} hosts are no several racks of {rack_hosts}",
            key="traffic.rack_hosts",
            hint=f"a divisor of {n_hosts} that is less",
        )
    behind = src - src % rack_hosts + rack_hosts  # the first host of the next rack
    return (behind + rng.integers(0, n_hosts - rack_hosts, src.size)) % n_hosts


def mean_wire_bytes(sizes: SizeDistribution, context: TrafficContext) -> float:
    """Mean bytes of a flow on the wire: its size and a header for each packet."""
    packets = sizes.mean_packets(context.payload_bytes)
    return max(sizes.mean_bytes(), 1.0) + packets * context.header_bytes


def _arrivals(
    params: Mapping[str, Any], per_second: float, rng: np.random.Generator, context: TrafficContext
) -> NDArray[np.int64]:
    """Times of arrival in ps, rising, int64."""
    mean_gap_ps = PS_PER_SECOND / per_second
    duration, count = params["duration"], params["n_flows"]
    key = "traffic.n_flows" if duration is None else "traffic.duration"
    expected = count if duration is None else duration / mean_gap_ps
    context.reserve(expected, key=key)
    if duration is None:
        if mean_gap_ps * count >= HORIZON_PS:
            raise InputError(
                f"the last of {count} flows would arrive after "
                f"{mean_gap_ps * count / 3.6e15:.3g} hours",
                key=key,
                hint=HORIZON,
            )
        gaps_ps: NDArray[np.float64] = rng.exponential(mean_gap_ps, count)
        return np.rint(np.cumsum(gaps_ps)).astype(np.int64)
    # Given their number, the arrivals of a Poisson process are independent and uniform.
    drawn = int(rng.poisson(expected))
    if not drawn:
        raise InputError(f"no flow arrives in this time (on average {expected:.3g})", key=key)
    return np.sort(rng.integers(0, duration, drawn))


def _exactly_one(params: Mapping[str, Any], first: str, second: str) -> None:
    given = [name for name in (first, second) if params[name] is not None]
    if len(given) != 1:
        what = "missing" if not given else f"cannot be given together with {second}"
        raise InputError(what, key=f"traffic.{first}", hint=f"give {first} or {second}")
