"""A random program for the tasks of a case."""

from __future__ import annotations

import random
from dataclasses import replace

from .model import Case

NS = 1_000
US = 1_000_000


def with_program(case: Case, rng: random.Random) -> Case:
    """Add a program with the last tasks; some of these are deferred."""
    if not case.tasks:
        return case
    first = rng.choice((0, rng.randrange(len(case.tasks))))
    share = rng.random()
    deferred = [number >= first and rng.random() < share for number in range(len(case.tasks))]
    return replace(
        case,
        tasks=[replace(task, deferred=one) for task, one in zip(case.tasks, deferred, strict=True)],
        program={
            "first": first,
            "gap_ps": rng.choice((1, NS, 3 * US, 20 * US)),
            "most_runs": rng.choice((1, 2, 5)),
            "most_draws": rng.choice((20, 200)),
            "resize": rng.choice((0, 1, 3)),
        },
    )
