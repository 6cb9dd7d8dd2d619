"""Records that the handlers of a routing algorithm see; fields.py has all others."""

from __future__ import annotations

from netsim.engine.kernels.fields import Declared
from netsim.engine.kernels.ids import GlobalPort, NodeId


class RoutingPortRecord(Declared):
    """A port, as the handlers of the routing algorithm see it."""

    number: GlobalPort
    from_host: int  # 1 if it leads to a host
    draws: int  # random choices for packets that came in by it


class RouterRecord(Declared):
    """A switch, as the handlers of the routing algorithm see it."""

    node: NodeId
    first_port: GlobalPort
    n_ports: int
    group: int  # of its hosts in its network, or -1
    n_groups: int  # of its network ...
    first_group: int  # ... and the first of them
    salt: int  # start of the ECMP hash
    ticks: int  # periods that have ended
