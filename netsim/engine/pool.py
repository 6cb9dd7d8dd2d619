"""The memory of packets: its size, and which blocks belong to which link and queue.

`lay_out` decides that from the numbers of packets alone, before a run and when a snapshot is
restored. So no block or list of free blocks is ever read from a file.
"""

from __future__ import annotations

import gc
import resource

import numpy as np

from netsim.common.memory import available_bytes
from netsim.engine.division import WHOLE, Rows, Share, worker_rows
from netsim.engine.kernels import links as rings
from netsim.engine.kernels.fields import Array
from netsim.engine.kernels.layout import HostState, LinkState, Net
from netsim.engine.records import untouched_zeros

UNKNOWN_BYTES = 1 << 36  # address space of the pool if the available memory is unknown

INT32 = np.dtype(np.int32)
FEWEST = 1 << 12  # minimum blocks of a pool, in addition to the first block of each link


def build_pool(
    n_links: int, packet: np.dtype, workers: int, *, origins: bool, blocks: int | None
) -> dict[str, Array]:
    """Return the pool's arrays: addresses for all available memory, or for ``blocks`` blocks. A
    block takes no memory before its first use."""
    room = min([available_bytes() or UNKNOWN_BYTES, *_share_of_addresses()])
    n = blocks or max(FEWEST, room // (rings.BLOCK_SLOTS * packet.itemsize))
    n = min(n, np.iinfo(INT32).max - n_links)
    while True:
        slots = (n_links + n) * rings.BLOCK_SLOTS
        try:
            return {
                "pool": untouched_zeros(slots, packet),
                "origins": untouched_zeros(slots if origins else 1, INT32),
                "next_block": untouched_zeros(n_links + n, INT32),
                "free_blocks": worker_rows(workers, 6),
                "pool_used": np.zeros(1, np.int64),
                "pool_full": np.zeros(1, np.int64),
            }
        except (MemoryError, OSError):  # a limit on addresses
            if n <= FEWEST:
                raise
            n //= 2


def _share_of_addresses() -> list[int]:
    """Return an eighth of the addresses that this process may use, if they are limited; unused
    engines give their addresses back."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return []
    gc.collect()
    return [limit // 8]


def lay_out(net: Net, links: LinkState, hosts: HostState, share: Share = WHOLE) -> None:
    """Give every link and queue of a share the blocks that its packets need."""
    ports, readers, queues = map(np.asarray, (links.ports, links.readers, links.queues))
    used = ports.size
    used = _chains(links, np.asarray(net.port_peer), ports, readers, used, share.links)
    own_queues = share.queues(queues.size // ports.size)
    used = _rings(queues, ("off", "mask", "head", "tail"), used, own_queues)
    fifos = np.asarray(hosts.host_ports)
    names = ("ctrl_off", "ctrl_mask", "ctrl_head", "ctrl_tail")
    used = _rings(fifos, names, used, share.host_ports)
    fifos["checked"][share.host_ports] = fifos["ctrl_tail"][share.host_ports]
    free_blocks = np.asarray(links.free_blocks)
    free_blocks[:] = 0
    free_blocks[:, [rings.FREE, rings.MADE]] = rings.NO_BLOCK
    links.pool_used[0] = used


def blocks_needed(head: Array, tail: Array) -> Array:
    """Return the number of blocks of each link with packets ``head .. tail``."""
    size = rings.BLOCK_SLOTS
    n: Array = -(-tail // size) - head // size
    return n


def _chains(
    links: LinkState, peer: Array, ports: Array, readers: Array, used: int, at: Rows
) -> int:
    """Lay out links from block ``used`` on; return the first block after them. ``at`` are the ports
    that they lead to."""
    size, peer = rings.BLOCK_SLOTS, peer[at]
    n = blocks_needed(readers["head"][at], readers["tail"][at])
    behind, end = used + np.cumsum(n), used + int(n.sum())
    links.next_block[used:end] = np.arange(used, end) + 1
    # Without packets, a link is in its first block, which is never used.
    readers["block"][at] = np.where(n > 0, behind - n, peer)
    begin = readers["head"][at] // size * size
    readers["block_end"][at] = begin + size * (n > 0)
    ports["block"][peer] = np.where(n > 0, behind - 1, peer)
    ports["block_end"][peer] = begin + size * n
    return end


def _rings(records: Array, names: tuple[str, str, str, str], used: int, at: Rows) -> int:
    """Likewise lay out rings, whose fields have these names."""
    off, mask, head, tail = names
    length = records[tail][at] - records[head][at]
    n = np.zeros(length.size, np.int64)
    some = length > 0
    need = np.maximum(length[some] + 1, rings.BLOCK_SLOTS)
    n[some] = 1 << np.ceil(np.log2(need)).astype(np.int64)
    behind = used * rings.BLOCK_SLOTS + np.cumsum(n)
    records[off][at] = np.where(some, behind - n, 0)
    records[mask][at] = np.where(some, n - 1, rings.NO_RING)
    return used + int(n.sum()) // rings.BLOCK_SLOTS
