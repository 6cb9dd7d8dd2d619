"""Lite-GPUs against H100: tokens per second per SM, in prefill and decode, for three models.

`docs/lite-gpu.md` has the claim and the assumptions. The claim covers GPT3-175B and Llama3-405B,
with Lite+NetBW+FLOPS for prefill only; the comparison lists these. The figure adds Llama3-70B and
Lite+NetBW+FLOPS in decode. Nothing is simulated.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from netsim.plots import style
from netsim.plots.sweeps import Table
from netsim.workloads.inference import limits
from netsim.workloads.inference.limits import (
    ALL,
    ASSUMPTIONS,
    MODELS,
    PHASES,
    VARIANTS,
    Assumption,
    LiteRow,
)
from netsim.workloads.plots import paper_figures as paper

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from netsim.results import Result

SWEEPS: dict[str, tuple[paper.Sweep, ...]] = {}

SECTION = "slides"

MODEL_NAMES = {"llama3_70b": "Llama3-70B", "gpt3_175b": "GPT3-175B", "llama3_405b": "Llama3-405B"}
VARIANT_NAMES = {
    "lite": "Lite",
    "lite_netbw": "Lite+NetBW",
    "lite_membw": "Lite+MemBW",
    "lite_membw_netbw": "Lite+MemBW+NetBW",
    "lite_netbw_flops": "Lite+NetBW+FLOPS",
}
CLAIMED_MODELS = ("gpt3_175b", "llama3_405b")
NOT_CLAIMED = (("decode", "lite_netbw_flops"),)
"""Scope of the claim: these models, except for some variants of a phase."""

THREE = {"overlap": "overlap", "kv_shared": "KV shared", "tp_searched": "tp searched"}
"""Fields of an assumption, and their names."""

MIN_RATIO, MAX_RATIO = 0.0, 2.0  # range of the color scale, which is white at 1
PALE = 0.55  # ratios closer to 1 than this get dark text, others white text

CELL_IN, MARGINS_IN = (0.56, 0.24), (3.4, 1.9)
"""Width and height of a cell, and margins around the panels, in inches."""


def lite(_: Sequence[Result]) -> paper.PaperFigure:
    """Draw the figure, testing the claim for every variant, phase and model."""
    least_first = sorted(ASSUMPTIONS, key=lambda one: len(_made(one)))
    assumptions = (*least_first, limits.ONE_ROOFLINE, limits.measured())
    rows = limits.lite_table(limits.comparison(), assumptions)
    figure, panels = style.new_figure(len(PHASES))
    lines = len(MODELS) * len(VARIANTS)
    wide, high = (
        cell * count + margin
        for cell, count, margin in zip(
            CELL_IN, (len(PHASES) * len(assumptions), lines), MARGINS_IN, strict=True
        )
    )
    figure.set_size_inches(wide, high)
    for axes, phase in zip(panels, PHASES, strict=True):
        _draw(axes, [row for row in rows if row.phase == phase], assumptions)
        axes.set_title(phase, fontsize="medium")
    _name_lines(panels[0])
    for axes in panels[1:]:
        axes.set_yticks([])
    scale = figure.colorbar(panels[0].images[0], ax=panels, pad=0.01, aspect=40)
    scale.outline.set_visible(False)
    about = "tokens per second and SM, Lite-GPU over H100, at the best batch"
    figure.suptitle(f"{about[0].upper()}{about[1:]}", fontsize="medium")
    caption = (
        "columns: assumptions for all GPUs; bold: matches or outperforms H100; "
        "-: no request meets the SLO"
    )
    figure.supxlabel(caption, fontsize="small", color=style.CAPTION)
    return paper.PaperFigure(
        figure, _values(rows), _drawn(rows), about, _notes(rows), _options(rows)
    )


def _draw(axes: Axes, rows: Sequence[LiteRow], assumptions: Sequence[Assumption]) -> None:
    """Draw a cell per model and variant (rows) and set of assumptions (columns)."""
    import numpy as np

    placed = {(row.model, row.machine, row.assumption): row for row in rows}
    lines = [
        [placed[model, machine, one] for one in assumptions]
        for model, machine in product(MODELS, VARIANTS)
    ]
    # If no request meets the SLO, there is no ratio and no color.
    ratios = np.array([[row.ratio or np.nan for row in line] for line in lines])
    axes.imshow(ratios, cmap="PuOr", vmin=MIN_RATIO, vmax=MAX_RATIO, aspect="auto")
    for (y, x), ratio in np.ndenumerate(ratios):
        options: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": "small"}
        options["fontweight"] = "bold" if lines[y][x].matches else "normal"
        options["color"] = "white" if abs(ratio - 1) > PALE else "black"
        axes.text(x, y, "-" if np.isnan(ratio) else f"{ratio:.2f}", **options)
    for edge in range(len(VARIANTS), len(lines), len(VARIANTS)):
        axes.axhline(edge - 0.5, color="black", linewidth=1)
    axes.axvline(len(ASSUMPTIONS) - 0.5, color="black", linewidth=1)
    axes.set_xticks(range(len(assumptions)), [_short(one) for one in assumptions])
    axes.tick_params(length=0, labelsize="x-small")
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)


def _short(assumption: Assumption) -> str:
    made = [text for name, text in THREE.items() if getattr(assumption, name)]
    if len(made) == len(THREE):
        made = ["all three"]
    if assumption.roofline is not None:
        made.append("and one\nroofline\nper layer")
    if assumption.overheads is not None:
        made.append("and\nmeasured\noverheads")
    return "\n".join(made).replace("tp searched", "tp\nsearched") or "none"


def _name_lines(axes: Axes) -> None:
    """Label rows with variants, and groups of rows with their model."""
    names = [VARIANT_NAMES[variant] for _ in MODELS for variant in VARIANTS]
    axes.set_yticks(range(len(names)), names, fontsize="small")
    for place, model in enumerate(MODELS):
        middle = (place + 0.5) * len(VARIANTS) - 0.5
        axes.annotate(
            MODEL_NAMES[model], (0, middle), (-128, 0), xycoords=("axes fraction", "data"),
            textcoords="offset points", rotation=90, va="center", ha="center",
            fontweight="bold" if model in CLAIMED_MODELS else "normal",
        )  # fmt: skip


def _values(rows: Sequence[LiteRow]) -> list[paper.Value]:
    """Return the claim and our values under all three assumptions."""
    return [
        paper.Value(
            f"{row.phase}, {MODEL_NAMES[row.model]}, {VARIANT_NAMES[row.machine]}",
            *(1.0, round(row.ratio or 0.0, 2), "", SECTION, paper.AT_LEAST, paper.UNVERIFIED),
        )
        for row in rows
        if row.assumption == ALL and claimed(row)
    ]


def claimed(row: LiteRow) -> bool:
    if row.machine == limits.REFERENCE or row.model not in CLAIMED_MODELS:
        return False
    return (row.phase, row.machine) not in NOT_CLAIMED


def _options(rows: Sequence[LiteRow]) -> Table:
    """Return, by variant and phase, the minimal assumptions under which each model matches H100."""
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
    return frozenset(text for name, text in THREE.items() if getattr(assumption, name))


def _fewest(held: Sequence[frozenset[str]]) -> str:
    """Return the minimal sufficient sets of assumptions in words."""
    least = [one for one in held if not any(other < one for other in held)]
    texts = [" + ".join(text for text in THREE.values() if text in one) for one in least]
    return " or ".join(text or "none needed" for text in texts) or "never"


def _notes(rows: Sequence[LiteRow]) -> list[str]:
    def holds(assumption: Assumption) -> str:
        told = []
        for phase in PHASES:
            of_phase = (row for row in rows if (row.phase, row.assumption) == (phase, assumption))
            these = [row.matches for row in of_phase if claimed(row)]
            told.append(f"{sum(these)} of {len(these)} ({phase})")
        return " and ".join(told)

    notes = [
        f"the claim holds, by variant and model, for {holds(assumption)} {text}"
        for assumption, text in (
            (ASSUMPTIONS[0], "with none of the three assumptions"),
            (ALL, "with all of them"),
            (limits.ONE_ROOFLINE, "with all of them and one roofline per layer"),
            (
                limits.measured(),
                f"with all of them and the software overheads of {limits.MEASURED}",
            ),
        )
    ]
    return [
        *notes,
        "the claim covers GPT3-175B and Llama3-405B, with Lite+NetBW+FLOPS for prefill only; "
        "Llama3-70B and that variant's decode are shown in addition",
        "overlap: all-reduces overlap with all else; KV shared: split beyond the number of KV "
        "heads, not copied; tp searched: the best number of GPUs per copy, not all",
        f"{paper.UNVERIFIED}: the table of GPUs is from memory of the paper; ours are rooflines "
        "(netsim/workloads/inference/README.md)",
    ]


def _drawn(rows: Sequence[LiteRow]) -> dict[str, list[object]]:
    header = [*["model", "phase", "machine"], *THREE, *["roofline", "overheads"]]
    header += ["tokens_per_s_sm", "ratio_to_h100", "matches", "tp", "batch", "limit"]
    table = [
        (
            *(row.model, row.phase, row.machine),
            *(getattr(row.assumption, name) for name in THREE),
            row.assumption.roofline or "parts",
            limits.MEASURED if row.assumption.overheads else "",
            row.best.tokens_per_s_sm if row.best else 0.0,
            "" if row.ratio is None else row.ratio,
            row.matches,
            *((row.best.deployment.tp, row.best.batch, row.best.limit) if row.best else [""] * 3),
        )
        for row in rows
    ]
    return paper.columns(header, table)
