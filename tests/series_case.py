"""What tests of series share."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from reference.model import Case

from netsim.engine.engine import Engine
from netsim.engine.series_reading import SeriesReading
from netsim.model.sampling import Sampling

FIELDS = {
    "datagram": (),
    "roce": ("tx.next_seq", "tx.una"),
    "ndp": ("tx.pulled", "tx.n_nacks"),
}


def sampled(case: Case, every_ps: int, budget_bytes: int = 64_000_000) -> Sampling:
    """Everything there is, of a case."""
    return Sampling(
        interval_ps=every_ps,
        ports=np.arange(2 * len(case.cables)),
        hosts=np.arange(case.n_hosts),
        flows=np.arange(len(case.flows)),
        fields=FIELDS[case.transport],
        budget_bytes=budget_bytes,
        queues=True,
    )


def reading(engine: Engine) -> SeriesReading:
    found = engine.series()
    assert found is not None
    return found


def equal(a: SeriesReading, b: SeriesReading, besides: tuple[str, ...] = ()) -> None:
    """Bit by bit."""
    for field in fields(SeriesReading):
        if field.name not in besides:
            mine, other = getattr(a, field.name), getattr(b, field.name)
            pairs = zip(mine.values(), other.values(), strict=True) if mine is a.fields else ()
            for one, two in pairs or [(mine, other)]:
                assert np.array_equal(one, two), field.name
