"""LetFlow: each flowlet takes a random port.

A flowlet is a burst of packets of a flow with gaps of at most `flowlet_gap`. Flowlets on congested
paths are delayed and end sooner, so flows leave such paths. Each ingress port has a table of
flowlets, indexed by a hash of flow, direction and entropy; flows with the same row share it.

Vanini et al., "Let It Flow: Resilient Asymmetric Load Balancing with Flowlet Switching", NSDI 2017,
section 3. The paper uses a gap of 500 us at 10 Gbps, conweave-ns3 100 us.
"""

from netsim.params import Param
from netsim.routing import candidate, flow_row
from netsim.routing_algorithms import spray_random

PARAMS = [
    Param(
        "flowlet_gap", "time", "100us", "longest gap within a flowlet",
        source="conweave-ns3, letflow-routing: 100 us",
    ),
]  # fmt: skip

PORT_SALTS = spray_random.PORT_SALTS
FLOW_TABLE = ("port", "index", "last_ps")  # port + 1; 0: none yet


def choose(env, now, port, pkt, first, n):
    row = flow_row(env, port, pkt)
    k = index_of(env, row, first, n)
    if k < 0 or now - row.last_ps > env.par.flowlet_gap:
        k = spray_random.choose(env, now, port, pkt, first, n)
    remember(env, now, row, first, k)
    return k


def index_of(env, row, first, n):
    """Return the index of the flowlet's port; -1 if it has none, or the candidates changed."""
    k = int(row.index)
    if row.port > 0 and k < n and int(candidate(env, first, k)) + 1 == row.port:
        return k
    return -1


def remember(env, now, row, first, k):
    """Store candidate `k` as the flowlet's port."""
    row.port = int(candidate(env, first, k)) + 1
    row.index = k
    row.last_ps = now
