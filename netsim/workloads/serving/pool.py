"""Memory pooling: other hosts hold part of the weights or KV cache, and GPUs read it from them.

A pool holds a fraction of the KV cache of the decode instances, or of the weights of all instances.
In every iteration each GPU reads, in parallel with compute, the pooled KV cache of the contexts
being decoded, or its pooled weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netsim.flows import JOIN, RECEIVE, SEND
from netsim.limits import PS_BITS
from netsim.workloads.inference import Deployment, kv_bytes_of_token
from netsim.workloads.inference.roofline import weight_bytes
from netsim.workloads.serving.kv_partition import partition
from netsim.workloads.serving.state import POOL_READ, POOL_REQUEST
from netsim.workloads.serving.tables import CONTROL, POOL, ServingTasks

Ints = NDArray[np.int64]

KV_CACHE, WEIGHTS = POOLED = ("kv", "weights")


@dataclass(frozen=True)
class Pool:
    """What is pooled, and where.

    Attributes:
        of: one of POOLED.
        share: fraction that is pooled, above 0.
        hosts: number of pool hosts; 0 for analytic reads.
        rate_bps: rate of analytic reads per GPU; 0 if reads are flows.
    """

    of: str
    share: float
    hosts: int
    rate_bps: int

    def weights(self, one: Deployment) -> float:
        """Pooled bytes of weights of each GPU."""
        return self.share * weight_bytes(one) if self.of == WEIGHTS else 0.0

    def token(self, one: Deployment) -> float:
        """Pooled bytes of each token's KV cache of each GPU."""
        own = kv_bytes_of_token(one) * one.kv_share
        return self.share * own if self.of == KV_CACHE else 0.0

    def reading_ps(self, n_bytes: float) -> float:
        """Return the duration of an analytic read."""
        return PS_BITS * n_bytes / self.rate_bps if self.rate_bps else 0.0


def add_reads(
    tables: ServingTasks, hosts: Ints, pool: Ints, n_bytes: int, n_iterations: int, asked: int
) -> None:
    """Add the tasks and flows of reads, consecutive per iteration at each host.

    Args:
        hosts: int64[k, tp], of instances.
        pool: int64[p], pool hosts, each with an equal share for every instance.
        n_bytes: largest read of an instance per iteration.
        n_iterations: iterations of each instance.
        asked: size of a message that requests everything.
    """
    share = partition(pool.size, hosts.shape[1])
    shape = (len(hosts), n_iterations)
    leader = np.broadcast_to(hosts[:, :1, None], (*shape, pool.size))
    orders = tables.add_flows(leader, pool, asked, CONTROL)
    asks = tables.add_tasks(SEND, leader, flow=orders, deferred=True)
    tables.set_host("pooled", hosts, 1)
    tables.set_host("n_pool_requests", hosts[:, 0], pool.size)
    tables.point_host("pool_requests", hosts[:, 0], asks[:, 0, 0])
    size = share.sizes(np.array([n_bytes]), 1)[0, 0]
    src = np.broadcast_to(pool[share.source], (*shape, len(share)))
    flows = tables.add_flows(src, hosts[:, None, share.sink], size, POOL)
    for k, host in enumerate(pool.tolist()):
        mine = share.source == k
        come = tables.add_tasks(RECEIVE, host, flow=orders[:, :, k])
        sends = tables.add_tasks(SEND, host, flow=flows[:, :, mine], deferred=True)
        tables.set("role", come, POOL_REQUEST)
        tables.point("of", come, sends[:, :, 0])
        tables.set("parts", come, int(mine.sum()))
        tables.set("max_bytes", sends, size[mine])
    for gpu in range(hosts.shape[1]):
        host = hosts[:, gpu, None]
        come = tables.add_tasks(RECEIVE, host[:, :, None], flow=flows[:, :, share.sink == gpu])
        read = tables.add_tasks(JOIN, np.broadcast_to(host, shape))
        tables.wait(come, read[:, :, None])
        tables.set("role", read, POOL_READ)
