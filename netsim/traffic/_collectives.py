"""Parameters of traffic patterns whose ranks do collectives, and what closed forms are told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.bounds.ideal import ideal_times
from netsim.collectives import ALGORITHMS, COLLECTIVES, Wire
from netsim.flows import FlowTable, TrafficContext
from netsim.limits import PS_BITS
from netsim.model.fabric import PacketFormat
from netsim.network import Network
from netsim.operations import How
from netsim.params import Param

MANY = 1000
"""Packets by which the rate of a way is told."""

PARAMS = [
    Param(
        "algorithm",
        "choice",
        "auto",
        "of collectives",
        choices=("auto", *ALGORITHMS),
        each=COLLECTIVES,
    ),
    Param("channels", "count", 1, "of a collective", minimum=1, each=COLLECTIVES),
    Param("chunk", "bytes", None, "that is sent on at a time", minimum="1B", each=COLLECTIVES),
    Param("latency", "time", "0us", "of software, in each step of a collective", each=COLLECTIVES),
    Param("node", "count", None, "ranks of a group near one another, for hierarchical", minimum=1),
]


def how_of(params: Mapping[str, Any], what: str, rate_bps: int) -> How:
    """How a collective is done between hosts of that rate."""
    return How(
        algorithm=params["algorithm"][what],
        chunk_bytes=params["chunk"][what],
        channels=params["channels"][what],
        latency_ps=params["latency"][what],
        node=params["node"],
        rate_bps=rate_bps,
    )


def wire_of(network: Network, group: NDArray[np.int64], context: TrafficContext) -> Wire:
    """From the first host of a group to the farthest other one, where nobody else is."""
    payload, header = context.payload_bytes, context.header_bytes
    packets, others = PacketFormat(payload, header), group[1:]
    here = np.full(others.size, group[0])
    one, many = (
        ideal_times(network, FlowTable(here, others, n * payload), packets).fct_ps
        for n in (1, MANY)
    )
    farthest = int(one.argmax())
    packet_ps = int(many[farthest] - one[farthest]) / (MANY - 1)
    rate_bps = round((payload + header) * PS_BITS / packet_ps)
    delay_ps = int(one[farthest]) - Wire(rate_bps, 0, payload, header).send_ps(payload)
    return Wire(rate_bps, delay_ps, payload, header)
