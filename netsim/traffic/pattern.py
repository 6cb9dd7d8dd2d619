"""Every host sends to its partners in a pattern, once or in several steps.

`pattern` defines the partners (netsim/traffic/README.md). A host with one or a few partners sends
`size` to each; with many (uniform, group_plus_one, hot_spot), to a random one in every step. A host
starts a step when all flows that it sent and received in the previous step are complete.
"""

from __future__ import annotations

import numpy as np

from netsim.flows import PATTERN_PARAMS, FlowTable, Rng, TrafficContext, destinations
from netsim.model.columns import indices
from netsim.model.patterns import name_tables
from netsim.network import Network
from netsim.params import Param, Params

PARAMS = [
    *PATTERN_PARAMS,
    Param("size", "bytes", "1MB", "size of each flow", minimum="1B"),
    Param("steps", "count", 1, "how often each host sends", minimum=1),
]


def flows(params: Params, network: Network, rng: Rng, context: TrafficContext) -> FlowTable:
    """Return the flows by step, then by part of the pattern and by source."""
    steps, n = params["steps"], network.n_hosts
    to = destinations(params, network, rng)
    parts = 1 if to.is_drawn else to.size.size
    each = parts * to.senders.size
    context.reserve(steps * each * (1 + parts), key="traffic.steps")
    src = np.tile(to.senders, steps * parts)
    dst = (
        np.tile(to.first[to.senders].T.reshape(-1), steps) if not to.is_drawn else to.draw(src, rng)
    )
    table = FlowTable(src, dst, params["size"])
    if steps > 1:
        # Flow f waits for flows of the previous step that its source sent or received.
        step, n_flows = np.arange(len(table)) // each, len(table)
        place = np.concatenate([step * n + src, step * n + dst])
        first = np.concatenate([[0], np.cumsum(np.bincount(place, minlength=steps * n))])
        waits = step[each:] * n - n + src[each:]
        awaited = np.argsort(place, kind="stable")[indices(first, waits)] % n_flows
        waiting = np.repeat(np.arange(each, n_flows), first[waits + 1] - first[waits])
        table.wait_for_pairs(awaited, waiting)
    name_tables(table, params, network, rng)
    return table
