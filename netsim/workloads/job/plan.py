"""From a budget to a training job: racks, model size, shape and layout.

For any budget, the method of "I've Got 99 Problems But FLOPS Ain't One" (HotNets 2024), sections 2
to 4: racks and their compute, model size by a scaling law, layers and width, the fewest GPUs that
hold a layer, and replicas for all racks.

The scaling laws give the model size for a compute budget:

| law | parameters for C FLOP | source |
|---|---|---|
| kaplan | 1.3e9 (C / PF-day)^0.73 | Kaplan et al. 2020 (arXiv 2001.08361), N_opt(C_min) |
| hoffmann1 | 67e9 (C / 5.76e23)^0.50 | Hoffmann et al. 2022 (arXiv 2203.15556), approach 1 |
| hoffmann2 | 63e9 (C / 5.76e23)^0.49 | the same, approach 2 |
| hoffmann3 | G (C / 6)^0.452, G = (aA / bB)^(1 / (a + b)) | the same, approach 3 |

Approach 3 minimizes its loss A / N^a + B / D^b with C = 6 N D; its exponent is b / (a + b). The
constants of the first three laws, at 5.76e23 FLOP (Gopher's budget), and those of `width` are as
commonly quoted, not checked against the papers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from netsim.common.inputs import read_toml
from netsim.errors import InputError
from netsim.params import NUMBER, key, read_each, read_table, unknown_keys
from netsim.workloads.job.job import Job
from netsim.workloads.job.layout import ACCOUNTINGS
from netsim.workloads.job.load import job_from, presets
from netsim.workloads.job.paper import (
    Infrastructure,
    exposed_fraction,
    stage_seconds,
    tensor_parallelism,
)

LAWS = ("kaplan", "hoffmann1", "hoffmann2", "hoffmann3")

PF_DAY = 1e15 * 86_400
GOPHER = 5.76e23
"""FLOP of training Gopher."""

YEAR_S = 365 * 86_400

POWER = {"hoffmann1": (67e9, 0.50), "hoffmann2": (63e9, 0.49)}
"""Parameters at Gopher's budget, and the exponent."""

LOSS_A, LOSS_B, LOSS_ALPHA, LOSS_BETA = 406.4, 410.7, 0.34, 0.28
"""Hoffmann et al. 2022, equation 10."""

WIDTH_AT_NONE, WIDTH_PER_LAYER = 5.039, 0.0555
"""ln(hidden) = 5.039 + 0.0555 layers: the fit of Levine et al. 2020 (arXiv 2006.12467)."""

HIDDEN_STEP = 256


def optimal_parameters(law: str, flops: float) -> float:
    """Return the parameters that minimize loss for a training budget in FLOP, by a law in LAWS."""
    if law == "kaplan":
        return float(1.3e9 * (flops / PF_DAY) ** 0.73)
    if law == "hoffmann3":
        total = LOSS_ALPHA + LOSS_BETA
        scale = (LOSS_ALPHA * LOSS_A / (LOSS_BETA * LOSS_B)) ** (1 / total)
        return float(scale * (flops / 6) ** (LOSS_BETA / total))
    anchor, exponent = POWER[law]
    return float(anchor * (flops / GOPHER) ** exponent)


def width(layers: float) -> float:
    """Return the hidden size for a number of layers."""
    return math.exp(WIDTH_AT_NONE + WIDTH_PER_LAYER * layers)


def ideal_layers(n_parameters: float) -> float:
    """Return the layers, a fraction, of a model with 12 hidden^2 parameters per layer."""
    low, high = 0.01, 1000.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _size(middle) < n_parameters else (low, middle)
    return low


def _size(layers: float) -> float:
    return 12 * layers * width(layers) ** 2


def shape(n_parameters: float) -> tuple[int, int]:
    """Return layers (rounded, then up to even) and hidden size (rounded to 256)."""
    layers = ideal_layers(n_parameters)
    even = 2 * math.ceil(round(layers) / 2)
    return even, HIDDEN_STEP * round(width(layers) / HIDDEN_STEP)


BASE_JOB = "dense"
"""Job that provides machine, formats and overlaps to files without a machine."""

PARTS = ("machine", "precision", "optimizer", "overlap")
HEADS = 256


@dataclass(frozen=True, kw_only=True)
class TrainingTarget:
    """Model size and training time to plan for."""

    years: float = key(
        NUMBER, 4.0, "years of training at the racks' full rate", above=0, maximum=1000
    )
    law: str = key("choice", "hoffmann2", "scaling law for the model size", choices=LAWS)
    parameters: float = key(
        NUMBER, 0.0, "parameters of the model; 0: by the scaling law", maximum=1e18
    )
    sequence: int = key("count", 32_000, "tokens per sequence", minimum=1)
    vocabulary: int = key("count", 256_000, "size of the vocabulary", minimum=1)
    accounting: str = key(
        "choice", "paper", "accounting of S1 to S5, as in [layout]", choices=ACCOUNTINGS
    )


MIN_PARAMETERS = 1e8
"""Fewest parameters; the fit of widths is for large models."""


@dataclass(frozen=True)
class JobPlan:
    """The job that a budget buys."""

    site: Infrastructure
    target: TrainingTarget
    by_law: dict[str, float]
    """Parameters by scaling law."""
    job: Job
    racks_of_layer: int

    @property
    def exposed(self) -> float:
        """Exposed share of a step (POST-HOC formula)."""
        return exposed_fraction(stage_seconds(self.job))


def is_plan(tree: Mapping[str, Any]) -> bool:
    """Return whether a table is a plan, not a job."""
    return "site" in tree or "plan" in tree


def make_plan(tree: Mapping[str, Any], name: str, directory: Path) -> JobPlan:
    """Return the plan of a table with [site], [plan], and optional tables of a job.

    Raises InputError, without a file, with all errors.
    """
    known = ("site", "plan", *PARTS, "name", "description")
    reads: dict[str, Callable[[], Any]] = {
        "site": partial(read_table, Infrastructure, tree.get("site", {})),
        "plan": partial(read_table, TrainingTarget, tree.get("plan", {})),
    }
    site, target = read_each(reads, unknown_keys(tree, known)).values()
    flops = site.flops * target.years * YEAR_S
    by_law = {law: optimal_parameters(law, flops) for law in LAWS}
    n_parameters = target.parameters or by_law[target.law]
    if n_parameters < MIN_PARAMETERS:
        message = f"a model of {n_parameters:,.0f} parameters is too small for the shape fit"
        raise InputError(message, key="plan.parameters", hint=f"at least {MIN_PARAMETERS:,.0f}")
    layers, hidden = shape(n_parameters)
    racks = site.racks_of_layer(layers)
    if racks < site.datacenters:
        message = f"{site.racks:,.0f} racks are too few for {layers} layers with a rack in each of "
        message += f"{site.datacenters} datacenters"
        hint = "use a smaller model, or site.datacenters = 1"
        raise InputError(message, key="plan.parameters", hint=hint)
    model = {
        "preset": "paper_dense",
        "layers": layers,
        "hidden": hidden,
        "heads": HEADS,
        "head_size": hidden // HEADS,
        "sequence": target.sequence,
        "vocabulary": target.vocabulary,
        "source": "shape by scaling law and width; FLOP as in paper_dense",
    }
    base = {} if "machine" in tree else read_toml(presets()[BASE_JOB])
    parts = {part: tree.get(part, base.get(part, {})) for part in PARTS}

    def with_tp(tp: int) -> Job:
        peers = racks // site.datacenters
        levels = [site.rack_gpus // tp, peers, site.datacenters]
        layout = {
            "tp": tp,
            "sp": tp > 1,
            "regather": False,
            "uneven": True,
            "pp": layers,
            "dp_levels": levels,
            "accounting": target.accounting,
            "global_batch": levels[0] * levels[1] * levels[2],
        }
        whole = {**parts, "machine": _machine(parts["machine"], site), "model": model}
        return job_from(whole | {"layout": layout}, name, directory, fits=False)

    tp = tensor_parallelism(with_tp(site.rack_gpus), site.rack_gpus)
    return JobPlan(site, target, by_law, with_tp(tp), racks)


def _machine(table: Any, site: Infrastructure) -> Any:
    """Return a machine whose scale-up domain is a rack of the site."""
    if isinstance(table, str):
        table = {"preset": table}
    return {**table, "domain_gpus": site.rack_gpus} if isinstance(table, Mapping) else table
