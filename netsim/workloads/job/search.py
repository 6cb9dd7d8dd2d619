"""Layouts of a job, compared by formula: memory, step time, MFU and cost of each.

    from netsim.workloads.job.search import search_layouts

    found = search_layouts(load_job("llama3_70b", fits=False), gpus=[512])
    print(found.rows[0].job.layout, found.refused)

A layout is a choice of the keys in `AXES`; dp is what the number of GPUs leaves. Of the ways to
recompute, only the least that fits is timed: more of it takes longer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any

from netsim.errors import InputError, did_you_mean
from netsim.units import written
from netsim.workloads.job.job import Job
from netsim.workloads.job.layout import RECOMPUTE, Layout
from netsim.workloads.job.load import job_errors
from netsim.workloads.job.step import StepTime, step_time
from netsim.workloads.job.work import stage_memory

AXES = ("tp", "pp", "cp", "ep", "schedule", "virtual_stages", "micro_batch", "zero", "recompute")
"""Keys of [layout] that a search varies; sp follows tp, and dp what the GPUs leave."""

MAX_LAYOUTS = 100_000

PS_PER_HOUR = 3.6e15


@dataclass(frozen=True)
class LayoutRow:
    """A layout that fits: the job with it, the peak memory of its fullest stage, and its step."""

    job: Job
    memory_bytes: float
    step: StepTime

    @property
    def gpu_hours_per_token(self) -> float:
        """GPU-hours of a step over its tokens."""
        layout = self.job.layout
        tokens = layout.global_batch * self.job.model.sequence
        return layout.gpus * self.step.total_ps / PS_PER_HOUR / tokens


@dataclass(frozen=True)
class LayoutSearch:
    """What a search found.

    Attributes:
        rows: layouts that fit, by step time.
        refused: number of other layouts by key and reason, the reason of the first of each key.
    """

    rows: tuple[LayoutRow, ...]
    refused: Mapping[tuple[str, str], int]


def search_layouts(
    job: Job,
    gpus: Sequence[int] = (),
    vary: Mapping[str, Sequence[Any]] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> LayoutSearch:
    """Return the layouts of a job on numbers of GPUs; default: as many as it has.

    `vary` gives values of `AXES` instead of the default ones; `progress` is called with the number
    of layouts done, and of all. Raises InputError for unknown keys and too many layouts.
    """
    given = dict(vary or {})
    for name in given:
        if name not in AXES:
            hint = did_you_mean(name, AXES) or f"one of {', '.join(AXES)}"
            raise InputError(f"unknown axis {written(name)}", key="--vary", hint=hint)
    layouts = [one for n in gpus or [job.layout.gpus] for one in _layouts(job, n, given)]
    if len(layouts) > MAX_LAYOUTS:
        message = f"{len(layouts):,} layouts exceed {MAX_LAYOUTS:,}"
        raise InputError(message, key="--vary", hint="fewer values")
    rows: list[LayoutRow] = []
    counts: Counter[str] = Counter()
    reasons: dict[str, str] = {}
    for number, choices in enumerate(layouts):
        found, error = _first_that_fits(job, choices)
        if found is not None:
            rows.append(found)
        if error is not None:
            key = error.key or ""
            counts[key] += 1
            reasons.setdefault(key, error.message)
        if progress is not None:
            progress(number + 1, len(layouts))
    rows.sort(key=lambda one: one.step.total_ps)
    return LayoutSearch(tuple(rows), {(key, reasons[key]): n for key, n in counts.most_common()})


def _layouts(job: Job, gpus: int, given: Mapping[str, Sequence[Any]]) -> Iterator[list[Layout]]:
    """Yield each choice of the axes on some GPUs: its ways to recompute, the least first."""
    axes = {name: [*given.get(name, _values(job, name, gpus))] for name in AXES}
    recompute = sorted(axes.pop("recompute"), key=lambda one: [*RECOMPUTE, one].index(one))
    for values in product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        shared = chosen["tp"] * chosen["pp"] * chosen["cp"]
        chunks = chosen["virtual_stages"] > 1
        if gpus % shared or chunks != (chosen["schedule"] == "interleaved"):
            continue
        if chosen["pp"] == 1 and chosen["schedule"] != axes["schedule"][0]:
            continue  # all schedules are the same
        chosen |= {"dp": gpus // shared, "dp_levels": None, "sp": chosen["tp"] > 1}
        yield [replace(job.layout, **chosen, recompute=how) for how in recompute]


def _values(job: Job, name: str, gpus: int) -> Sequence[Any]:
    """Return the default values of an axis."""
    model, powers = job.model, [2**k for k in range(13) if 2**k <= gpus]
    own = getattr(job.layout, name)
    values: dict[str, Sequence[Any]] = {
        "tp": [n for n in powers if n <= job.machine.domain_gpus and model.heads % n == 0],
        "pp": [n for n in range(1, model.layers + 1) if model.layers % n == 0],
        "ep": [n for n in powers if n <= model.experts] or [1],
        "schedule": ("1f1b", "interleaved", "zb_h1"),
        "virtual_stages": (1, 2, 4),
        "micro_batch": (1, 2, 4),
        "zero": (0, 1, 2, 3),
        "recompute": RECOMPUTE,
    }
    return list(dict.fromkeys([*values.get(name, ()), own]))


def _first_that_fits(
    job: Job, choices: Sequence[Layout]
) -> tuple[LayoutRow | None, InputError | None]:
    error = None
    for layout in choices:
        tried = replace(job, layout=layout)
        errors = job_errors(tried, fits=False)
        if errors and errors[0].key == "layout.recompute":
            continue  # a way that the model does not have
        if errors:
            return None, errors[0]
        memory = max(stage_memory(tried, stage).total for stage in range(layout.pp))
        if memory <= job.machine.memory:
            return LayoutRow(tried, memory, step_time(tried)), None
        error = InputError("a GPU's memory is too small", key="machine.memory")
    return None, error


def layout_keys(layout: Layout) -> dict[str, Any]:
    found = {one.name: getattr(layout, one.name) for one in fields(layout)}
    return {name: found[name] for name in ("tp", "sp", *AXES[1:3], "dp", *AXES[3:])}
