"""Parameters of traffic patterns whose ranks do collectives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netsim.collectives import ALGORITHMS, COLLECTIVES
from netsim.operations import How
from netsim.params import Param

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
