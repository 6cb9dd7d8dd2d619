"""What goes wrong on links: random loss, bit errors, links that go down and come back.

A packet can be lost on a link, after its transmission has been paid for; it then counts as
lost, not as dropped. Pause frames are never lost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.memory import require_room

MAX_SIZE_BYTES = 1 << 16
OUTAGE_BYTES = 60
"""What an outage of one link takes while all are collected."""


@dataclass(frozen=True, eq=False)
class LinkFaults:
    """Faults of every link, known by the port that feeds it.

    Attributes:
        profile: int64[n_ports], row of `loss_table`; row 0 loses nothing.
        loss_table: int64[profiles, 2**16], the chance that a packet of so many bytes is
            lost, in units of 2**-32, so that chances below 1e-10 are none.
        outage_ptr: int64[n_ports + 1]. The outages of port p are
            outage_ptr[p] to outage_ptr[p + 1].
        outages_ps: int64[k, 2], from when until when the link is down. A packet is lost if the
            link is down at any time of its transmission.
    """

    profile: np.ndarray
    loss_table: np.ndarray
    outage_ptr: np.ndarray
    outages_ps: np.ndarray

    @staticmethod
    def none(n_ports: int) -> LinkFaults:
        """Links without a fault."""
        return LinkFaults(
            profile=np.zeros(n_ports, np.int64),
            loss_table=np.zeros((1, MAX_SIZE_BYTES), np.int64),
            outage_ptr=np.zeros(n_ports + 1, np.int64),
            outages_ps=np.zeros((1, 2), np.int64),
        )


@dataclass(frozen=True)
class LinkFault:
    """What goes wrong on some links.

    Attributes:
        ports: that feed the links.
        loss: the chance that a packet is lost, whatever its size.
        bit_error_rate: the chance that a bit is wrong; a packet with any wrong bit is lost.
        outages_ps: (from, until) when the links are down.
    """

    ports: np.ndarray
    loss: float = 0.0
    bit_error_rate: float = 0.0
    outages_ps: tuple[tuple[int, int], ...] = ()


def combine(faults: list[LinkFault], n_ports: int) -> LinkFaults:
    """Every link's faults together: chances of loss are independent, outages add up.

    Raises InputError, without a file, if they do not fit into memory.
    """
    n_outages = sum(len(fault.outages_ps) * fault.ports.size for fault in faults)
    require_room(n_outages * OUTAGE_BYTES, what=f"{n_outages:,} outages", key="faults")
    loss = np.zeros((n_ports, 2))
    outages: list[list[tuple[int, int]]] = [[] for _ in range(n_ports)]
    for fault in faults:
        added = np.array([fault.loss, fault.bit_error_rate])
        loss[fault.ports] = 1.0 - (1.0 - loss[fault.ports]) * (1.0 - added)
        for port in np.unique(fault.ports).tolist():
            outages[port].extend(fault.outages_ps)
    kinds, profile = np.unique(np.vstack([np.zeros((1, 2)), loss]), axis=0, return_inverse=True)
    require_room(
        3 * len(kinds) * MAX_SIZE_BYTES * 8, what=f"{len(kinds):,} chances of loss", key="faults"
    )
    flat = [outage for port in outages for outage in port]
    return LinkFaults(
        profile=profile.reshape(-1)[1:].astype(np.int64),
        loss_table=np.stack([_chances(*kind) for kind in kinds.tolist()]),
        outage_ptr=np.cumsum([0, *map(len, outages)]).astype(np.int64),
        outages_ps=np.array(flat or [(0, 0)], np.int64),
    )


def _chances(loss: float, bit_error_rate: float) -> np.ndarray:
    """Chance of loss by size in bytes, in units of 2**-32, to the nearest.

    Only products are used, whose result is the same on every machine.
    """
    two_bits = (1.0 - bit_error_rate) * (1.0 - bit_error_rate)
    byte_kept = two_bits * two_bits * two_bits * two_bits
    factors = np.full(MAX_SIZE_BYTES, byte_kept)
    factors[0] = 1.0 - loss
    chances: np.ndarray = np.floor((1.0 - np.cumprod(factors)) * 2.0**32 + 0.5).astype(np.int64)
    return chances
