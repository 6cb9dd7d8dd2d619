"""Lite-GPUs against H100: tokens per second and multiprocessor, prefill and decode, three models.

The claim, of the talk on "Good things come in small packages: Should we build AI clusters with
Lite-GPUs?" (HotOS 2025), is that a cluster of Lite-GPUs matches or outperforms one of H100. It
says so of GPT3-175B and Llama3-405B, and of Lite+NetBW+FLOPS for prefill alone; the list of the
claim has these. Drawn, besides, are Llama3-70B and Lite+NetBW+FLOPS in decode: each variant under
every combination of the three assumptions that decide it, and under all of them with one roofline
of a whole layer, and with what software was measured to cost on an H100. The table of GPUs is from
memory of the paper. Nothing is simulated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from netsim.inference.limits import PHASES
from netsim.inference.lite import (
    ALL,
    ASSUMPTIONS,
    MEASURED,
    MODELS,
    ONE_ROOFLINE,
    REFERENCE,
    VARIANTS,
    Assumption,
    LiteRow,
    lite_table,
    measured,
)
from netsim.plots import style
from netsim.plots.reproduced import AT_LEAST, UNVERIFIED, Reproduced, Sweep, Value
from netsim.plots.sweeps import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from netsim.results import Result

SWEEPS: tuple[Sweep, ...] = ()

SECTION = "slides"

MODEL_NAMES = {
    "llama3_70b": "Llama3-70B",
    "gpt3_175b": "GPT3-175B",
    "llama3_405b": "Llama3-405B",
}
VARIANT_NAMES = {
    "lite": "Lite",
    "lite_netbw": "Lite+NetBW",
    "lite_membw": "Lite+MemBW",
    "lite_membw_netbw": "Lite+MemBW+NetBW",
    "lite_netbw_flops": "Lite+NetBW+FLOPS",
}
CLAIMED_MODELS = ("gpt3_175b", "llama3_405b")
NOT_CLAIMED = (("decode", "lite_netbw_flops"),)
"""What the talk says something of: these models, but for variants of a phase."""

THREE = {"overlap": "overlap", "kv_shared": "KV shared", "tp_searched": "tp searched"}
"""Fields of an assumption, and their names."""

WIDTH = 0.76
"""Of the markers of one variant, in variants."""


def make(_: Sequence[Result]) -> Reproduced:
    """The figure, with the claim held against every variant, phase and model that it is of."""
    least_first = sorted(ASSUMPTIONS, key=lambda one: len(_made(one)))
    assumptions = (*least_first, ONE_ROOFLINE, measured())
    rows = lite_table(assumptions=assumptions)
    figure, panels = style.new_figure(len(MODELS), len(PHASES))
    for axes, (phase, model) in zip(panels, product(PHASES, MODELS), strict=True):
        here = [row for row in rows if (row.phase, row.model) == (phase, model)]
        _draw(axes, here, assumptions)
        axes.set_title(f"{phase}, {MODEL_NAMES[model]}", fontsize="medium")
    for first in range(0, len(panels), len(MODELS)):
        row_of_panels = panels[first : first + len(MODELS)]
        highest = max(axes.get_ylim()[1] for axes in row_of_panels)
        for axes in row_of_panels:
            axes.set_ylim(0, highest)
        row_of_panels[0].set_ylabel("tokens/s/SM, over H100's")
    about = "tokens per second and SM of Lite-GPUs over those of H100, at the best batch"
    figure.suptitle(f"{about[0].upper()}{about[1:]}", fontsize="medium")
    caption = "filled: matches H100 or outperforms it; no marker: no request keeps to the objective"
    style.legend(figure, panels[0], style.OUTSIDE, caption)
    return Reproduced(figure, _values(rows), _drawn(rows), about, _notes(rows), _options(rows))


def _draw(axes: Axes, rows: Sequence[LiteRow], assumptions: Sequence[Assumption]) -> None:
    """A marker for each variant and assumption; none where no request keeps to the objective."""
    axes.axhline(1, color=style.IDEAL, linewidth=1.2, zorder=1)
    for number, assumption in enumerate(assumptions):
        look: dict[str, Any] = {
            "marker": ("o", "s", "^", "D", "v", "<", ">", "P", "*", "X")[number],
            "edgecolors": style.colour(number),
            "linewidths": 1.1,
            "s": 26,
            "zorder": 2,
        }
        offset = WIDTH * (number / (len(assumptions) - 1) - 0.5)
        name = assumption.name if assumption != ASSUMPTIONS[0] else "none of the three"
        for row in rows:
            if row.assumption == assumption and row.machine != REFERENCE and row.ratio:
                filled = style.colour(number) if row.matches else "none"
                at = VARIANTS.index(row.machine) + offset
                axes.scatter(at, row.ratio, facecolors=filled, **look)
        axes.scatter([], [], facecolors="none", label=name, **look)
    for edge in range(1, len(VARIANTS)):
        axes.axvline(edge - 0.5, color=style.IDEAL, linewidth=0.4, zorder=1)
    axes.set_xticks(
        range(len(VARIANTS)), [VARIANT_NAMES[one].replace("+", "\n+") for one in VARIANTS]
    )
    axes.tick_params("x", length=0, labelsize="small")
    axes.grid(visible=False, axis="x")
    axes.set_xlim(-0.5, len(VARIANTS) - 0.5)


def _values(rows: Sequence[LiteRow]) -> list[Value]:
    """The claim, and what is found under all three assumptions."""
    return [
        Value(
            f"{row.phase}, {MODEL_NAMES[row.model]}, {VARIANT_NAMES[row.machine]}",
            1.0,
            round(row.ratio or 0.0, 2),
            "",
            SECTION,
            AT_LEAST,
            UNVERIFIED,
        )
        for row in rows
        if row.assumption == ALL and claimed(row)
    ]


def claimed(row: LiteRow) -> bool:
    """Whether the claim is of this variant, phase and model."""
    if row.machine == REFERENCE or row.model not in CLAIMED_MODELS:
        return False
    return (row.phase, row.machine) not in NOT_CLAIMED


def _options(rows: Sequence[LiteRow]) -> Table:
    """By variant and phase: the fewest assumptions under which it matches H100, for each model."""
    lines = []
    for phase, variant in product(PHASES, VARIANTS):
        cells = []
        for model in MODELS:
            held = [
                _made(row.assumption)
                for row in rows
                if (row.model, row.phase, row.machine) == (model, phase, variant)
                if row.matches and row.assumption in ASSUMPTIONS
            ]
            cells.append(_fewest(held))
        lines.append((f"{phase}, {VARIANT_NAMES[variant]}", *cells))
    return Table(("matches with", *MODEL_NAMES.values()), lines)


def _made(assumption: Assumption) -> frozenset[str]:
    """Which of the three are assumed."""
    return frozenset(text for name, text in THREE.items() if getattr(assumption, name))


def _fewest(held: Sequence[frozenset[str]]) -> str:
    """Those sets of assumptions that hold and are enough, in words."""
    least = [one for one in held if not any(other < one for other in held)]
    texts = [" + ".join(text for text in THREE.values() if text in one) for one in least]
    return " or ".join(text or "none needed" for text in texts) or "never"


def _notes(rows: Sequence[LiteRow]) -> list[str]:
    def count(chosen: Iterable[LiteRow]) -> str:
        these = [row for row in chosen if claimed(row)]
        return f"{sum(row.matches for row in these)} of {len(these)}"

    by_phase = {
        (phase, assumption): count(
            row for row in rows if (row.phase, row.assumption) == (phase, assumption)
        )
        for phase, assumption in product(PHASES, (ASSUMPTIONS[0], ALL, ONE_ROOFLINE, measured()))
    }
    notes = [
        "the claim holds, by variant and model, for "
        + " and ".join(f"{by_phase[phase, assumption]} ({phase})" for phase in PHASES)
        + f" {text}"
        for assumption, text in (
            (ASSUMPTIONS[0], "with none of the three assumptions"),
            (ALL, "with all of them"),
            (ONE_ROOFLINE, "with all of them and one roofline of a whole layer"),
            (measured(), f"with all of them and the costs of software of {MEASURED}"),
        )
    ]
    return [
        *notes,
        "the claim is of GPT3-175B and Llama3-405B, and of Lite+NetBW+FLOPS for prefill alone: "
        "Llama3-70B and that variant's decoding are drawn besides",
        "overlap: all-reduces go beside everything else; KV shared: not copied where GPUs are more "
        "than its heads; tp searched: the best number of GPUs to a copy, not all",
        f"{UNVERIFIED}: the table of GPUs is from memory of the paper; ours are rooflines "
        "(netsim/inference/README.md)",
    ]


def _drawn(rows: Sequence[LiteRow]) -> dict[str, list[object]]:
    header = (
        *(
            "model",
            "phase",
            "machine",
            *THREE,
            "roofline",
            "costs",
            "tokens_per_s_sm",
            "ratio_to_h100",
        ),
        *("matches", "tp", "batch", "limit"),
    )
    table = [
        (
            *(row.model, row.phase, row.machine),
            *(getattr(row.assumption, name) for name in THREE),
            row.assumption.roofline or "parts",
            MEASURED if row.assumption.costs else "",
            row.best.tokens_per_s_sm if row.best else 0.0,
            "" if row.ratio is None else row.ratio,
            row.matches,
            *((row.best.deployment.tp, row.best.batch, row.best.limit) if row.best else [""] * 3),
        )
        for row in rows
    ]
    return {
        name: list(column) for name, column in zip(header, zip(*table, strict=True), strict=True)
    }
