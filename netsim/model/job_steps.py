"""What is known of the steps of a job beside its operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class JobSteps:
    """The steps, such as of training, that a workload's operations belong to.

    Attributes:
        step: int32[n_operations], the step of each operation, from 0.
        model_flops: floating-point operations of one step that are the model's own (recomputation
            not counted), by all ranks that are simulated; None if that is not known.
        peak_flops: how many of them these ranks could do in a second, together.
    """

    step: NDArray[np.int32]
    model_flops: float | None = None
    peak_flops: float | None = None

    @property
    def n(self) -> int:
        """How many there are."""
        return int(self.step.max(initial=-1)) + 1

    @staticmethod
    def join(parts: Sequence[tuple[JobSteps | None, int]]) -> JobSteps | None:
        """The steps of several workloads' operations, each with how many operations it has.

        Those of a workload without steps belong to step 0. FLOPs are known if all workloads that
        have steps say theirs.
        """
        known = [one for one, _ in parts if one is not None]
        if not known:
            return None
        columns = [np.zeros(n, np.int32) if one is None else one.step for one, n in parts]
        work = [one.model_flops for one in known if one.model_flops is not None]
        peak = [one.peak_flops for one in known if one.peak_flops is not None]
        return JobSteps(
            np.concatenate(columns),
            sum(work) if len(work) == len(known) else None,
            sum(peak) if len(peak) == len(known) else None,
        )
