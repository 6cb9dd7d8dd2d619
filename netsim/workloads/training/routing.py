"""Routing of tokens to experts: bytes between the ranks of an expert-parallel group.

Experts are placed on ranks in blocks, the first ones on the first rank. Every token goes to k:

- Zipf(s): the e-th most popular expert of a layer receives a share proportional to 1 / e^s. The
  order of popularity is random for each layer. Tokens are drawn by these shares for each layer,
  micro-batch and group.
- recorded: shares of each layer and rank from a file.

The return exchange is the transpose.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netsim.workloads.job.job import Job
from netsim.workloads.job.work import sizes_of

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Routing:
    """Routing of a job's tokens.

    Attributes:
        shares: float64[layers, sources, ranks], share of a source's tokens to each rank of its
            group. Higher layers and sources wrap around.
        tokens: tokens drawn per source and micro-batch, k for each; 0: send exact shares.
        seed: seed of the draws.
    """

    shares: NDArray[np.float64]
    tokens: int
    seed: int

    def bytes_of(self, layer: Ints, micro_batch: Ints, groups: int, size_bytes: int) -> Ints:
        """int64[rows, groups, ranks, ranks]: bytes from each rank of a group to each other one.

        Each row is a layer and a micro-batch; `size_bytes` is the total sent by one rank.
        """
        n_layers, n_sources, n = self.shares.shape
        shares = self.shares[layer % n_layers][:, np.arange(n) % n_sources]
        if not self.tokens:
            sent = np.broadcast_to(shares[:, None], (layer.size, groups, n, n))
            fixed: Ints = np.rint(sent * size_bytes).astype(np.int64)
            return fixed
        found = np.empty((layer.size, groups, n, n), np.int64)
        for row, (one, batch) in enumerate(zip(layer.tolist(), micro_batch.tolist(), strict=True)):
            rng = np.random.Generator(np.random.Philox([self.seed, one * 2**32 + batch]))
            found[row] = rng.multinomial(self.tokens, shares[row], size=(groups, n))
        drawn: Ints = np.rint(found * (size_bytes / self.tokens)).astype(np.int64)
        return drawn


def zipf(job: Job, exponent: float, seed: int) -> Routing:
    """Return a job's routing with Zipf-distributed popularity of experts."""
    experts, ep = job.model.experts, job.layout.ep
    popularity = np.arange(1, experts + 1) ** -float(exponent)
    rng = np.random.Generator(np.random.Philox([seed, 0x65700000]))
    order = np.array([rng.permutation(experts) for _ in range(job.model.layers)])
    shares = (popularity / popularity.sum())[order]
    by_rank = shares.reshape(job.model.layers, 1, ep, experts // ep).sum(-1)
    sizes = sizes_of(job)
    return Routing(by_rank, round(sizes.own_tokens * job.model.active_experts), seed)


def recorded(job: Job, counts: NDArray[np.float64]) -> Routing:
    """Return routing by recorded tokens, float64[layers, sources, experts]."""
    shares = counts / counts.sum(-1, keepdims=True)
    ep = job.layout.ep
    by_rank = shares.reshape(*counts.shape[:2], ep, job.model.experts // ep).sum(-1)
    return Routing(by_rank, 0, 0)
