"""Failures as transitions of instances, one state change at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.workloads.serving.failures import Outages
from netsim.workloads.serving.plan import Group
from netsim.workloads.serving.state import DOWN, SHRUNK, WHOLE

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Transitions:
    """A table of c transitions, grouped by instance and sorted by time.

    Attributes:
        instance: int64[c].
        at_ps: int64[c].
        becomes: int64[c], DOWN, WHOLE or SHRUNK.
    """

    instance: Ints
    at_ps: Ints
    becomes: Ints


def transitions_of(outages: Outages) -> Transitions:
    """Return the transitions of all failures: down, then possibly shrunk, then whole."""
    at = np.stack([outages.down_ps, outages.up_ps, outages.whole_ps], axis=1)
    kept = np.ones(at.shape, bool)
    kept[:, 1] = outages.up_ps < outages.whole_ps
    order = np.lexsort((outages.down_ps, outages.instance))
    instance = np.broadcast_to(outages.instance[:, None], at.shape).astype(np.int64)
    becomes = np.broadcast_to([DOWN, SHRUNK, WHOLE], at.shape)
    kept = kept[order]
    return Transitions(*(column[order][kept] for column in (instance, at, becomes)))


def check_shrunk(outages: Outages, groups: Iterable[Group], *, of_file: bool) -> None:
    """Raise InputError if an instance must shrink but its model does not fit on one GPU fewer.

    The error names the failure trace or `on_failure`.
    """
    key, hint = ("failure_trace", "up = whole") if of_file else ("on_failure", '"stop"')
    first = 0
    for group in groups:
        of_group = (outages.instance >= first) & (outages.instance < first + group.n)
        first += group.n
        gpus = group.deployment.tp - 1
        if group.shrunk_tokens == 0 and (outages.up_ps < outages.whole_ps)[of_group].any():
            message = f"{group.deployment.name} does not fit on {gpus} GPUs, one fewer"
            raise InputError(message, key=f"traffic.{key}", hint=hint)
