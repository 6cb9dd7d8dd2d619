"""What becomes of instances, and when, as their leaders note it: failures, one change at a time."""

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
    """What becomes of instances: c transitions, each instance's together and in the order of time.

    Attributes:
        instance: int64[c].
        at_ps: int64[c].
        becomes: int64[c], DOWN, WHOLE or SHRUNK.
    """

    instance: Ints
    at_ps: Ints
    becomes: Ints


def transitions_of(outages: Outages) -> Transitions:
    """An instance is down, then perhaps shrunk, then whole."""
    at = np.stack([outages.down_ps, outages.up_ps, outages.whole_ps], axis=1)
    kept = np.ones(at.shape, bool)
    kept[:, 1] = outages.up_ps < outages.whole_ps
    order = np.lexsort((outages.down_ps, outages.instance))
    instance = np.broadcast_to(outages.instance[:, None], at.shape).astype(np.int64)
    becomes = np.broadcast_to([DOWN, SHRUNK, WHOLE], at.shape)
    kept = kept[order]
    return Transitions(*(column[order][kept] for column in (instance, at, becomes)))


def check_shrunk(outages: Outages, groups: Iterable[Group], *, of_file: bool) -> None:
    """Raise InputError if an instance is to work with a GPU less on which its model does not fit.

    The error names what says so: a file of outages, or else `on_failure`.
    """
    key, hint = ("failure_trace", "up = whole") if of_file else ("on_failure", '"stop"')
    first = 0
    for group in groups:
        of_group = (outages.instance >= first) & (outages.instance < first + group.n)
        first += group.n
        gpus = group.deployment.tp - 1
        if group.shrunk_tokens == 0 and (outages.up_ps < outages.whole_ps)[of_group].any():
            message = f"{group.deployment.name} has no room on {gpus} GPUs, one less"
            raise InputError(message, key=f"traffic.{key}", hint=hint)
