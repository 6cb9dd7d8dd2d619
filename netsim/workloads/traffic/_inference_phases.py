"""Compute times and message sizes of the iterations of a phase."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netsim.workloads.collectives.steps import cut
from netsim.workloads.inference.cost import (
    IterationCost,
    all_reduce_bytes,
    compute_ps,
    network_ps,
    prompt_pairs,
)
from netsim.workloads.inference.deployment import Deployment
from netsim.workloads.inference.roofline import gpu_parameters, iteration_cost, kv_bytes_of_token
from netsim.workloads.job.model import parameters
from netsim.workloads.operations import CollectiveOptions
from netsim.workloads.traffic._inference_steps import BLOCKS, InferencePhase

Ints = NDArray[np.int64]

PREFILL, DECODE = PHASES = ("prefill", "decode")


@dataclass(frozen=True, eq=False)
class Batches:
    """The batches of a phase, the same for all its instances.

    Attributes:
        phase: one of `PHASES`.
        deployment: the deployment of each instance.
        rows: int64[parts], prompts or decoding sequences in each part of the batch.
        lengths: int64[n], by iteration: tokens of each prompt, or before each sequence's next one.
        layers: number of simulated layers.
        chunks: chunks of each block; 1 unless the batch is one part.
    """

    phase: str
    deployment: Deployment
    rows: Ints
    lengths: Ints
    layers: int
    chunks: int = 1

    def phase_of(
        self, ranks: Ints, step: Ints, how: CollectiveOptions, *, by_formula: bool
    ) -> InferencePhase:
        """Return the phase on `ranks`, int64[instances, tp]; iteration k belongs to `step[k]`."""
        cost = iteration_cost(self.deployment)
        tokens = self.rows * (self.lengths[0] if self.phase == PREFILL else 1)
        n_bytes = np.array([all_reduce_bytes(cost, n) for n in tokens.tolist()])
        each_ps = np.array(
            [network_ps(cost, n) // max(1, cost.all_reduces) for n in tokens.tolist()]
        )
        computing_ps = self._compute_ps(cost)
        if self.chunks > 1:
            n_bytes = cut(n_bytes[0], self.chunks)
            latency_ps = round(cost.all_reduce_ps)
            each_ps = latency_ps + cut(each_ps[0] - latency_ps, self.chunks)
            computing_ps = np.moveaxis(cut(computing_ps[0], self.chunks), -1, 0)
        return InferencePhase(
            name=self.phase,
            ranks=ranks,
            step=step,
            compute_ps=computing_ps,
            all_reduce_bytes=n_bytes,
            how=how,
            all_reduce_ps=each_ps if by_formula else None,
            chunked=self.chunks > 1,
        )

    def formula_ps(self) -> tuple[int, int]:
        """Return compute and all-reduce time of the first iteration: all layers, whole batch, and
        an idle network."""
        cost, rows, length = iteration_cost(self.deployment), int(self.rows.sum()), self.lengths[0]
        tokens = rows * int(length) if self.phase == PREFILL else rows
        return self._times_ps(cost, rows, int(length))[0], network_ps(cost, tokens)

    def largest(self, length: int) -> tuple[float, int]:
        """Return the KV cache bytes of all GPUs, with replicas, and the compute time of an
        iteration at this length: all layers, whole batch."""
        rows, copies = int(self.rows.sum()), self.deployment.kv_share * self.deployment.tp
        time_ps = self._times_ps(iteration_cost(self.deployment), rows, length)[0]
        return copies * kv_bytes_of_token(self.deployment) * rows * length, time_ps

    def kv_bytes(self) -> Ints:
        """int64[parts]: KV cache bytes of each part in the simulated layers, in iteration 0."""
        every = kv_bytes_of_token(self.deployment) * self.rows * self.lengths[0]
        found = np.ceil(every * self.layers / self._n_layers).astype(np.int64)
        return cut(found[0], self.chunks) if self.chunks > 1 else found

    def layer_kv_bytes(self) -> Ints:
        """int64[n]: KV cache bytes of a layer by iteration, summed over GPUs, with replicas."""
        copies = self.deployment.kv_share * self.deployment.tp
        every = kv_bytes_of_token(self.deployment) * int(self.rows.sum()) * self.lengths
        return np.ceil(copies * every / self._n_layers).astype(np.int64)

    def layer_weight_bytes(self) -> Ints:
        """int64[n]: weight bytes of a layer of one instance."""
        numbers = sum(gpu_parameters(self.deployment)) * self.deployment.tp / self._n_layers
        n_bytes = numbers * self.deployment.formats.bytes_of("weights")
        return np.full(self.lengths.size, round(n_bytes))

    @property
    def _n_layers(self) -> int:
        return self.deployment.model.layers

    def _compute_ps(self, cost: IterationCost) -> Ints:
        """Return `InferencePhase.compute_ps`: an iteration's time in equal layers of two blocks.

        Attention takes the time of its token pairs, and its share of the rest by parameters. Each
        part and each chunk launches all layers. Overheads per iteration and per request are in the
        first part; the time up to the floor is spread over all parts.
        """
        model = self.deployment.model
        known = parameters(model)
        matrices = known.active - known.embedding - known.head
        share = model.layers * model.attention_parameters / matrices
        parts = self.rows.size
        found = np.empty((parts, self.lengths.size, BLOCKS * self.layers), np.int64)
        layer = np.arange(self.layers)[:, None]
        for k, length in enumerate(self.lengths.tolist()):
            # [2, parts]: whole time, and time without attention pairs
            times = np.array([self._part_ps(cost, part, length) for part in range(parts)]).T
            if self.phase == PREFILL:
                shortfall = np.maximum(0, round(cost.prefill_floor_ps) - times.sum(1))
                times += cut(shortfall, parts)
            for part, (whole, rest) in enumerate(times.T.tolist()):
                attention = whole - rest + share * rest
                ends = (layer * whole + np.array([attention, whole])) / self._n_layers
                found[part, k] = np.diff(np.rint(ends).astype(np.int64).reshape(-1), prepend=0)
        return found

    def _part_ps(self, cost: IterationCost, part: int, length: int) -> tuple[int, int]:
        """Return `_times_ps` of one part, without the iteration's floor."""
        own = cost._replace(prefill_floor_ps=0.0, layers_ps=cost.layers_ps * self.chunks)
        if part:
            own = own._replace(iteration_ps=0.0)
            if self.phase == PREFILL:
                own = own._replace(sequence_ps=0.0)
        return self._times_ps(own, int(self.rows[part]), length)

    def _times_ps(self, cost: IterationCost, rows: int, length: int) -> tuple[int, int]:
        """Return the compute time of an iteration, and that without attention's token pairs."""
        if self.phase == DECODE:
            whole = compute_ps(cost, rows, 0, rows, rows * length)
            return whole, compute_ps(cost, rows, 0, rows, 0)
        tokens = rows * length
        pairs = rows * prompt_pairs(self.deployment.causal, 0, length)
        return compute_ps(cost, tokens, pairs, 0, 0), compute_ps(cost, tokens, 0, 0, 0)
