"""A training job: model, layout and machine."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from netsim.workloads.job.layout import Layout, Optimizer, Overlap, Precision
from netsim.workloads.job.machine import Machine
from netsim.workloads.job.model import Model


@dataclass(frozen=True)
class Job:
    """A checked job; `file` is its name in messages."""

    name: str
    model: Model
    layout: Layout
    machine: Machine
    precision: Precision
    optimizer: Optimizer
    overlap: Overlap
    file: str

    @property
    def tokens(self) -> int:
        """Tokens per micro-batch and GPU."""
        return self.layout.micro_batch * self.model.sequence // self.layout.cp

    @cached_property
    def virtual_stages(self) -> tuple[range, ...]:
        """Layers by virtual stage; chunk c of stage s is c * pp + s. The first may be longer."""
        n = self.layout.pp * self.layout.virtual_stages
        shortest, rest = divmod(self.model.layers, n)
        ends = [0]
        for index in range(n):
            ends.append(ends[-1] + shortest + (index < rest))
        return tuple(range(a, b) for a, b in pairwise(ends))

    def layers_of_stage(self, stage: int) -> list[int]:
        return [
            layer for layers in self.virtual_stages[stage :: self.layout.pp] for layer in layers
        ]
