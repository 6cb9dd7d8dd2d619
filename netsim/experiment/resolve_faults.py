"""The [faults.NAME] sections: which links, and what goes wrong on them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from netsim.errors import InputError
from netsim.model.faults import LinkFault, LinkFaults, combine
from netsim.model.network import Network

LINK_PATTERN = re.compile(r"all|\s*(?P<a>\S+)\s+(?P<arrow>->|-)\s+(?P<b>\S+)\s*")
"""How links are named: "all", "A - B" for both directions of cables, "A -> B" for one."""


@dataclass(frozen=True)
class FaultUse:
    """A checked [faults.NAME] section; which ports it means is known with the network."""

    name: str
    links: str
    loss: float
    bit_error_rate: float
    outages_ps: tuple[tuple[int, int], ...]


def link_faults(faults: Iterable[FaultUse], network: Network) -> LinkFaults | None:
    """The faults of every link of a network, None if there are none.

    Raises InputError, without a file, if a section means no link.
    """
    found = [
        LinkFault(_ports(fault, network), fault.loss, fault.bit_error_rate, fault.outages_ps)
        for fault in faults
    ]
    return combine(found, network.n_ports) if found else None


def _ports(fault: FaultUse, network: Network) -> np.ndarray:
    match = LINK_PATTERN.fullmatch(fault.links)
    assert match is not None
    if match["arrow"] is None:
        return np.arange(network.n_ports)
    names = [network.node_name(node) for node in range(network.n_nodes)]
    near, far = (
        np.array([fnmatchcase(name, match[end]) for name in names], bool) for end in ("a", "b")
    )
    node, neighbour = network.port_node, network.port_node[network.port_peer]
    chosen = near[node] & far[neighbour]
    if match["arrow"] == "-":
        chosen |= far[node] & near[neighbour]
    if not chosen.any():
        shown = ", ".join([*names[:1], *names[network.n_hosts : network.n_hosts + 1], names[-1]])
        raise InputError(
            f'"{fault.links}" matches no link of this network',
            key=f"faults.{fault.name}.links",
            hint=f"its nodes are named like {shown}",
        )
    return np.flatnonzero(chosen)
