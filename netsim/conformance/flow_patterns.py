"""Flows between the hosts of small networks."""

from __future__ import annotations

import numpy as np

from netsim.model.fabric import PacketFormat
from netsim.model.flows import FlowTable

PACKET = PacketFormat().payload_bytes
HOSTS = 8


def permutation_of(n_bytes: int, start_ps: int = 0) -> FlowTable:
    """Return a flow from every host to one on another leaf."""
    src = np.arange(HOSTS)
    return FlowTable(src, (src + 3) % HOSTS, n_bytes, start_ps)


def incast_of(n_bytes: int) -> FlowTable:
    """Return flows from all other hosts to host 0."""
    return FlowTable(np.arange(1, HOSTS), 0, n_bytes)


def incast_in_classes(n_packets: int, n_traffic_classes: int) -> FlowTable:
    """Return two flows from each of seven hosts to one, at once and in all classes."""
    src = np.repeat(np.arange(1, HOSTS), 2)
    n = np.arange(src.size)
    return FlowTable(src, 0, n_packets * PACKET - 1000 * (n % 3), cls=n % n_traffic_classes)


def everybody(
    n_hosts: int, n_packets: int, *, n_traffic_classes: int = 1, start_ps: int = 0
) -> FlowTable:
    """Return a flow from every host to every other, in all classes, at slightly different times."""
    src, dst = np.divmod(np.arange(n_hosts**2), n_hosts)
    src, dst = src[src != dst], dst[src != dst]
    n = np.arange(src.size)
    size = n_packets * PACKET - 777 * (n % 5)
    return FlowTable(src, dst, size, start_ps + n % 7 * 100_000, cls=n % n_traffic_classes)


def two_of_each(n_hosts: int, n_packets: int, n_traffic_classes: int) -> FlowTable:
    """Return flows from every host to two others, in all classes."""
    src = np.repeat(np.arange(n_hosts), 2)
    dst = (src + np.tile([5, 16], n_hosts)) % n_hosts
    cls = np.arange(src.size) % n_traffic_classes
    return FlowTable(src, dst, n_packets * PACKET + 9, cls=cls)
