"""Records that the handlers of a routing algorithm see; fields.py has all others."""

from __future__ import annotations

from netsim.engine.kernels.fields import Declared
from netsim.engine.kernels.ids import Fixed, GlobalPort, NodeId


class RoutingPortRecord(Declared):
    """A port, as the handlers of the routing algorithm see it."""

    number: Fixed[GlobalPort]
    from_host: Fixed[int]  # 1 if it leads to a host
    draws: int  # random choices for packets that came in by it


class RouterRecord(Declared):
    """A switch, as the handlers of the routing algorithm see it."""

    node: Fixed[NodeId]
    first_port: Fixed[GlobalPort]
    n_ports: Fixed[int]
    group: Fixed[int]  # of its hosts in its network, or -1
    n_groups: Fixed[int]  # of its network ...
    first_group: Fixed[int]  # ... and the first of them
    salt: Fixed[int]  # start of the ECMP hash
    ticks: int  # periods that have ended
