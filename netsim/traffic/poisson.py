"""Flows that arrive as a Poisson process, or in even gaps, at each host that sends.

Give either `load`, the fraction of a host's link that its flows fill (headers included), or `rate`,
flows per second per host. Give either a `duration` or a number of arrivals, `n_flows`; with
[measure] give neither, since flows arrive until the end of the run. `pattern` defines the
destinations (netsim/traffic/README.md): by default any other host, or with `rack_hosts` any host of
another rack, each equally likely.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.flows import (
    PATTERN_PARAMS,
    Destinations,
    FlowTable,
    Rng,
    TrafficContext,
    Workload,
    destinations,
)
from netsim.limits import HORIZON_PS
from netsim.model.checks import HORIZON
from netsim.model.patterns import UNIFORM, name_tables
from netsim.network import Network
from netsim.params import REQUIRED, Param, Params
from netsim.traffic._sizes import BETWEEN, LINEAR, SizeDistribution, find_sizes
from netsim.units import written

POISSON, EVEN = "poisson", "even"

PARAMS = [
    Param("sizes", "sizes", REQUIRED,
          "one size, points of a cumulative distribution, the name of one (web_search, hadoop, "
          "data_mining, homa_w1 to homa_w5), or a file with a size in bytes and a probability on "
          "each line"),
    Param("cdf_interpolation", "choice", "linear",
          "sizes between two points: uniform (linear), or the larger one (step)", choices=BETWEEN),
    Param("rack_hosts", "count", None, "hosts per rack; flows then go only to other racks",
          minimum=1),
    *PATTERN_PARAMS,
    Param("arrival_process", "choice", POISSON,
          "gaps between a host's flows: exponentially distributed, or even from a random time on",
          choices=(POISSON, EVEN)),
    Param("load", "ratio", None, "offered load, as a fraction of the hosts' link rate"),
    Param("rate", "ratio", None, "flows per second and host", maximum=1e12),
    Param("duration", "time", None, "time of the last arrivals, from 0"),
    Param("n_flows", "count", None, "number of arrivals", minimum=1),
]  # fmt: skip

PS_PER_SECOND = 10**12


def flows(params: Params, network: Network, rng: Rng, context: TrafficContext) -> Workload:
    """Return flows in order of arrival, and a note of their mean size."""
    _exactly_one(params, "load", "rate")
    if context.end_ps is None:
        _exactly_one(params, "duration", "n_flows")
    for name in ("duration", "n_flows"):
        if context.end_ps is not None and params[name] is not None:
            hint = "flows arrive until the end of the run"
            raise InputError("conflicts with [measure]", key=f"traffic.{name}", hint=hint)
    sizes = find_sizes(params["sizes"], context.directory, params["cdf_interpolation"])
    per_host = params["rate"]
    if per_host is None:
        per_host = params["load"] * context.host_rate_bps / 8 / mean_wire_bytes(sizes, context)
    if per_host <= 0:
        raise InputError(
            "must be positive", key=f"traffic.{'load' if params['rate'] is None else 'rate'}"
        )
    to = _destinations(params, network, rng)
    start_ps, src = _arrivals(params, per_host, to.senders, rng, context)
    if not src.size:
        message = f"no flow arrives in this time (each host has {per_host:.3g} per second)"
        raise InputError(message, key="traffic.duration")
    flows = FlowTable(src, to.draw(src, rng), sizes.draw(start_ps.size, rng), start_ps)
    name_tables(flows, params, network, rng)
    return Workload(flows, notes=(_note(params, sizes),))


def _note(params: Params, sizes: SizeDistribution) -> str:
    """Return a note on the mean size, since tables with the same name (and interpolations)
    differ."""
    given = params["sizes"]
    table = f"the table {written(given)}" if isinstance(given, str) else "the table given"
    read = (
        "between points spread evenly"
        if params["cdf_interpolation"] == LINEAR
        else "each the next point"
    )
    return f"sizes of {table}, {read}: {sizes.mean_bytes():,.1f} bytes on average"


def _destinations(params: Params, network: Network, rng: Rng) -> Destinations:
    """Return the hosts' destinations: as the pattern defines, or in other racks."""
    to = destinations(params, network, rng)
    n_hosts, rack_hosts = network.n_hosts, params["rack_hosts"]
    if rack_hosts is None:
        return to
    if params["pattern"] != UNIFORM:
        raise InputError(f"conflicts with pattern {params['pattern']}", key="traffic.rack_hosts")
    if n_hosts % rack_hosts or n_hosts == rack_hosts:
        raise InputError(
            f"{rack_hosts} does not divide {n_hosts} hosts into racks",
            key="traffic.rack_hosts",
            hint=f"a divisor of {n_hosts}, less than it",
        )
    next_rack = (np.arange(n_hosts) // rack_hosts + 1) * rack_hosts % n_hosts
    return Destinations(next_rack[:, None], np.array([n_hosts - rack_hosts]), to.share)


def mean_wire_bytes(sizes: SizeDistribution, context: TrafficContext) -> float:
    """Return a flow's mean bytes on the wire, including a header per packet."""
    packets = sizes.mean_packets(context.payload_bytes)
    return max(sizes.mean_bytes(), 1.0) + packets * context.header_bytes


def _arrivals(
    params: Params,
    per_second: float,
    hosts: NDArray[np.int64],
    rng: Rng,
    context: TrafficContext,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return arrival times in ps, ascending, and the host of each; `per_second` at each host."""
    mean_gap_ps = PS_PER_SECOND / (per_second * hosts.size)
    duration, count = params["duration"], params["n_flows"]
    key = "traffic.n_flows" if duration is None else "traffic.duration"
    if context.end_ps is not None:
        duration, key = context.end_ps, "measure"
    expected = count if duration is None else duration / mean_gap_ps
    context.reserve(expected, key=key)
    if duration is None and mean_gap_ps * count >= HORIZON_PS:
        raise InputError(
            f"the last of {count} flows would arrive after "
            f"{mean_gap_ps * count / 3.6e15:.3g} hours",
            key=key,
            hint=HORIZON,
        )
    if params["arrival_process"] == EVEN:
        rounds = int(expected // hosts.size) + 2
        times = mean_gap_ps * hosts.size * (np.arange(rounds)[:, None] + rng.random(hosts.size))
        order = np.argsort(times, axis=None, kind="stable")[:count]
        at = np.rint(times.reshape(-1)[order])
        order = order[at < (HORIZON_PS if duration is None else duration)]
        return at[: order.size].astype(np.int64), hosts[order % hosts.size]
    if duration is None:
        start_ps = np.rint(np.cumsum(rng.exponential(mean_gap_ps, count))).astype(np.int64)
    else:
        # Given their number, the arrivals of a Poisson process are independent and uniform.
        start_ps = np.sort(rng.integers(0, duration, int(rng.poisson(expected))))
    # Equal Poisson processes merge into one whose arrivals are at random hosts.
    return start_ps, hosts[rng.integers(0, hosts.size, start_ps.size)]


def _exactly_one(params: Params, first: str, second: str) -> None:
    given = [name for name in (first, second) if params[name] is not None]
    if len(given) != 1:
        what = f"conflicts with {second}" if given else "missing"
        raise InputError(what, key=f"traffic.{first}", hint=f"give {first} or {second}")
