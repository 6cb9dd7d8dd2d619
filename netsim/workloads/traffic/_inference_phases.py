"""What machines of a deployment compute and send in each iteration of a phase."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netsim.workloads.inference.cost import (
    IterationCost,
    all_reduce_bytes,
    compute_ps,
    network_ps,
    prompt_pairs,
)
from netsim.workloads.inference.deployment import Deployment
from netsim.workloads.inference.roofline import gpu_parameters, iteration_cost, kv_bytes_of_token
from netsim.workloads.job.model import attention_parameters, parameters
from netsim.workloads.operations import CollectiveOptions
from netsim.workloads.traffic._inference_steps import BLOCKS, InferencePhase, cut

Ints = NDArray[np.int64]

PREFILL, DECODE = PHASES = ("prefill", "decode")


@dataclass(frozen=True, eq=False)
class Batches:
    """The batches of a phase's machines, iteration after iteration.

    Attributes:
        phase: one of `PHASES`.
        deployment: of each machine.
        rows: int64[parts], of the batch: prompts, or sequences that decode; part by part.
        lengths: int64[n], by iteration: tokens of each prompt, or before each sequence's next one.
        layers: that are simulated, of the model's.
        pieces: in which each block is computed, if there is one part of the batch.
    """

    phase: str
    deployment: Deployment
    rows: Ints
    lengths: Ints
    layers: int
    pieces: int = 1

    def phase_of(
        self, ranks: Ints, step: Ints, how: CollectiveOptions, *, by_formula: bool
    ) -> InferencePhase:
        """What the machines of `ranks`, int64[machines, tp], do; iteration k is of `step[k]`."""
        cost = iteration_cost(self.deployment)
        tokens = self.rows * (self.lengths[0] if self.phase == PREFILL else 1)
        n_bytes = np.array([all_reduce_bytes(cost, n) for n in tokens.tolist()])
        each_ps = np.array(
            [network_ps(cost, n) // max(1, cost.all_reduces) for n in tokens.tolist()]
        )
        computing_ps = self._compute_ps(cost)
        if self.pieces > 1:
            n_bytes = cut(n_bytes[0], self.pieces)
            latency_ps = round(cost.all_reduce_ps)
            each_ps = latency_ps + cut(each_ps[0] - latency_ps, self.pieces)
            computing_ps = np.moveaxis(cut(computing_ps[0], self.pieces), -1, 0)
        return InferencePhase(
            name=self.phase,
            ranks=ranks,
            step=step,
            compute_ps=computing_ps,
            all_reduce_bytes=n_bytes,
            how=how,
            all_reduce_ps=each_ps if by_formula else None,
            pieces=self.pieces > 1,
        )

    def formula_ps(self) -> tuple[int, int]:
        """Picoseconds of the first iteration, all layers and the whole batch at once: of computing,
        and of its all-reduces, each alone on an idle network."""
        cost, rows, length = iteration_cost(self.deployment), int(self.rows.sum()), self.lengths[0]
        tokens = rows * int(length) if self.phase == PREFILL else rows
        return self._times_ps(cost, rows, int(length))[0], network_ps(cost, tokens)

    def most(self, length: int) -> tuple[float, int]:
        """Of an iteration over such lengths, all layers and the whole batch at once: the bytes of
        keys and values of all GPUs, copies as well, and the picoseconds of computing."""
        rows, copies = int(self.rows.sum()), self.deployment.kv_share * self.deployment.tp
        time_ps = self._times_ps(iteration_cost(self.deployment), rows, length)[0]
        return copies * kv_bytes_of_token(self.deployment) * rows * length, time_ps

    def kv_bytes(self) -> Ints:
        """int64[parts]: keys and values of a part, in the layers that are simulated, at first."""
        every = kv_bytes_of_token(self.deployment) * self.rows * self.lengths[0]
        found = np.ceil(every * self.layers / self._of).astype(np.int64)
        return cut(found[0], self.pieces) if self.pieces > 1 else found

    def layer_kv_bytes(self) -> Ints:
        """int64[n]: in a layer, keys and values of all tokens that there are in an iteration, for
        each GPU what it holds of them: some of it several times, if that is replicated."""
        copies = self.deployment.kv_share * self.deployment.tp
        every = kv_bytes_of_token(self.deployment) * int(self.rows.sum()) * self.lengths
        return np.ceil(copies * every / self._of).astype(np.int64)

    def layer_weight_bytes(self) -> Ints:
        """int64[n]: the weights of a layer, of a whole machine."""
        numbers = sum(gpu_parameters(self.deployment)) * self.deployment.tp / self._of
        n_bytes = numbers * self.deployment.formats.bytes_of("weights")
        return np.full(self.lengths.size, round(n_bytes))

    @property
    def _of(self) -> int:
        return self.deployment.model.layers

    def _compute_ps(self, cost: IterationCost) -> Ints:
        """`InferencePhase.compute_ps`: an iteration's time in equal layers, and in each its two
        blocks.

        Attention takes that of its pairs and contexts, and of the rest as much as of the matrices'
        parameters are its own. Each part launches all layers, and so does each piece. What is of an
        iteration is there once: what software adds to it and to a request is in the first part, and
        what is lacking to its floor in all parts alike.
        """
        model = self.deployment.model
        known = parameters(model)
        matrices = known.active - known.embedding - known.head
        share = model.layers * attention_parameters(model) / matrices
        parts = self.rows.size
        found = np.empty((parts, self.lengths.size, BLOCKS * self.layers), np.int64)
        layer = np.arange(self.layers)[:, None]
        for k, length in enumerate(self.lengths.tolist()):
            # [2, parts]: whole, and rest
            times = np.array([self._part_ps(cost, part, length) for part in range(parts)]).T
            if self.phase == PREFILL:
                lacking = np.maximum(0, round(cost.prefill_floor_ps) - times.sum(1))
                times += cut(lacking, parts)
            for part, (whole, rest) in enumerate(times.T.tolist()):
                attention = whole - rest + share * rest
                ends = (layer * whole + np.array([attention, whole])) / self._of
                found[part, k] = np.diff(np.rint(ends).astype(np.int64).reshape(-1), prepend=0)
        return found

    def _part_ps(self, cost: IterationCost, part: int, length: int) -> tuple[int, int]:
        """`_times_ps` of a part by itself, without the floor of the iteration."""
        own = cost._replace(prefill_floor_ps=0.0, layers_ps=cost.layers_ps * self.pieces)
        if part:
            own = own._replace(iteration_ps=0.0)
            if self.phase == PREFILL:
                own = own._replace(sequence_ps=0.0)
        return self._times_ps(own, int(self.rows[part]), length)

    def _times_ps(self, cost: IterationCost, rows: int, length: int) -> tuple[int, int]:
        """Picoseconds of computing in an iteration: all, and without attention's own part."""
        if self.phase == DECODE:
            whole = compute_ps(cost, rows, 0, rows, rows * length)
            return whole, compute_ps(cost, rows, 0, rows, 0)
        tokens = rows * length
        causal = self.deployment.options.attention == "causal"
        pairs = rows * prompt_pairs(causal, 0, length)
        return compute_ps(cost, tokens, pairs, 0, 0), compute_ps(cost, tokens, 0, 0, 0)
