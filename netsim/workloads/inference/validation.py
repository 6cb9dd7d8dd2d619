"""The model against published times and formulas (published.toml).

The overheads of the presets are fitted to measured times here. Four numbers are fitted: prefill
efficiency, overhead per layer, overhead per sequence, and the prefill floor. The others are fixed
in the preset, with sources. The fit minimizes the squared relative errors of a group's fitted rows
(Gauss-Newton with step halving).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.common.inputs import read_toml
from netsim.workloads.inference.cost import LONG_PROMPT
from netsim.workloads.inference.deployment import Deployment, Overheads
from netsim.workloads.inference.load import load_deployment
from netsim.workloads.inference.roofline import decode_ps, prefill_ps

FILE = Path(__file__).with_name("published.toml")
PS_PER_MS = 1e9

PROMPT = 512
"""Tokens of each prompt in phase "prefills"."""

CONTEXT = PROMPT + 128 // 2
"""Mean context of a decoded token."""

PHASES = ("prefill", "prefills", "decode")


@dataclass(frozen=True)
class InferenceRow:
    """A measured time, and ours.

    `size` is the prompt's tokens ("prefill"), the number of prompts ("prefills"), or the number of
    decoding sequences.
    """

    group: str
    model: str
    deployment: Deployment
    fitted: bool
    phase: str
    size: int
    measured_ms: float

    @property
    def large(self) -> bool:
        """Whether its prompts have more than `LONG_PROMPT` tokens in total."""
        tokens = {"prefill": self.size, "prefills": self.size * PROMPT, "decode": 0}[self.phase]
        return tokens > LONG_PROMPT

    @property
    def ms(self) -> float:
        """Our time, with the group's overheads."""
        return time_ms(self.deployment, self.phase, self.size)

    @property
    def error(self) -> float:
        """Ours over theirs, minus one."""
        return self.ms / self.measured_ms - 1

    def with_overheads(self, overheads: Overheads) -> InferenceRow:
        """Return the row with other overheads."""
        return replace(self, deployment=replace(self.deployment, overheads=overheads))


@dataclass(frozen=True)
class Formula:
    """A time by another model, and ours."""

    name: str
    phase: str
    stated_ms: float
    ms: float

    @property
    def error(self) -> float:
        """Ours over theirs, minus one."""
        return self.ms / self.stated_ms - 1


def time_ms(deployment: Deployment, phase: str, size: int, context: int = CONTEXT) -> float:
    """Return the time of an iteration; `context` is that of each decoding sequence."""
    if phase == "decode":
        return decode_ps(deployment, size, context) / PS_PER_MS
    prompts, tokens = (1, size) if phase == "prefill" else (size, PROMPT)
    return prefill_ps(deployment, tokens, prompts) / PS_PER_MS


@cache
def groups() -> dict[str, dict[str, Any]]:
    """Return the source and setup of each group."""
    return dict(read_toml(FILE)["group"])


@cache
def rows() -> tuple[InferenceRow, ...]:
    """Return all measured times."""
    return tuple(one for table in read_toml(FILE)["row"] for one in _rows_of(table))


def _rows_of(table: dict[str, Any]) -> Iterator[InferenceRow]:
    group = groups()[table["group"]]
    parts = {name: group[name] for name in ("machine", "overheads", "formats")}
    options = {"tp": table["tp"], "embeddings": True}
    deployment = load_deployment({"model": table["model"], "options": options, **parts})
    for phase in PHASES:
        for size, measured_ms in table.get(f"{phase}_ms", ()):
            yield InferenceRow(
                group=table["group"],
                model=table["model"],
                deployment=deployment,
                fitted=table.get("fitted", False),
                phase=phase,
                size=size,
                measured_ms=measured_ms,
            )


@cache
def formulas() -> tuple[Formula, ...]:
    """Return other models' times and ours: 16 bits, full attention."""
    found = []
    fp16 = dict.fromkeys(("weights", "kv", "activations", "compute"), "fp16")
    for table in read_toml(FILE)["formula"]:
        deployment = load_deployment(
            {
                "model": table["model"],
                "machine": table.get("machine", "a100_80gb"),
                "formats": fp16,
                "options": {"tp": table["tp"], "attention": "full", "embeddings": True},
                "overheads": table.get("overheads", {}),
            }
        )
        for phase, size in (("prefill", PROMPT), ("decode", 1)):
            ms = time_ms(deployment, phase, size, PROMPT)
            found.append(Formula(table["name"], phase, table[f"{phase}_ms"], ms))
    return tuple(found)


START = (0.5, 400.0, 200.0, 60_000.0)
"""Share of the peak; overheads per layer and per sequence, and floor, in microseconds."""

PS_PER_US = 1e6
SMALLEST_STEP = 1e-3
MAX_STEPS = 50

Floats = NDArray[np.float64]


def fitted_overheads(group: str, **fixed: Any) -> Overheads:
    """Return a group's overheads, fitted, with other fixed values."""
    chosen = [row for row in rows() if row.group == group and row.fitted]
    base = replace(chosen[0].deployment.overheads, **fixed)

    def errors(x: Floats) -> Floats:
        overheads = _overheads(base, x)
        return np.array([row.with_overheads(overheads).error for row in chosen])

    x = np.array(START)
    for _ in range(MAX_STEPS):
        now = errors(x)
        near = [np.where(np.arange(x.size) == k, x * 1.0001, x) for k in range(x.size)]
        slopes = [(errors(one) - now) / (one[k] - x[k]) for k, one in enumerate(near)]
        step = np.linalg.lstsq(np.stack(slopes, axis=1), -now, rcond=None)[0]
        part = 1.0
        while part > SMALLEST_STEP and np.sum(errors(x + part * step) ** 2) >= np.sum(now**2):
            part /= 2
        if part <= SMALLEST_STEP:
            break
        x = x + part * step
    return _overheads(base, x)


def _overheads(base: Overheads, x: Floats) -> Overheads:
    share = float(np.clip(x[0], 0.01, 1.0))
    layer, sequence, floor = (max(0, round(value * PS_PER_US)) for value in x[1:])
    return replace(
        base,
        prefill_efficiency=share,
        decode_efficiency=share,
        layer_overhead=layer,
        sequence_overhead=sequence,
        prefill_floor=floor,
    )
