"""The model against published times and formulas (published.toml)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from netsim.common.inputs import read_toml
from netsim.workloads.inference.deployment import Deployment
from netsim.workloads.inference.load import load_deployment
from netsim.workloads.inference.roofline import LONG_PROMPT, decode_ps, prefill_ps

FILE = Path(__file__).with_name("published.toml")
PS_PER_MS = 1e9

PROMPT = 512  # tokens of each prompt in phase "prefills"

CONTEXT = PROMPT + 128 // 2  # mean context of a decoded token

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


class Formula(NamedTuple):
    """A time by another model, and ours."""

    name: str
    phase: str
    stated_ms: float
    ms: float


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
    return tuple(one for table in read_toml(FILE)["row"] for one in _rows_of(table))


def _rows_of(table: dict[str, Any]) -> Iterator[InferenceRow]:
    group = groups()[table["group"]]
    parts = {name: group[name] for name in ("machine", "overheads", "formats")}
    options = {"tp": table["tp"], "embeddings": True}
    deployment = load_deployment({"model": table["model"], "options": options, **parts})
    about = table["group"], table["model"], deployment, table.get("fitted", False)
    for phase in PHASES:
        for size, measured_ms in table.get(f"{phase}_ms", ()):
            yield InferenceRow(*about, phase, size, measured_ms)


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
