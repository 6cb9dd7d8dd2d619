"""`netsim workload validate`: the models against published measurements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from netsim.terminal import Column, Wide
from netsim.workloads.cli.workload_job import STEP_PARTS, percent
from netsim.workloads.inference import validation as served
from netsim.workloads.inference.fit import FORMS, fitted_overheads
from netsim.workloads.job import validation as trained

if TYPE_CHECKING:
    from rich.table import Table

    from netsim.workloads.job.validation import TrainingRow

PS_PER_S = 1e12


def validation_tables() -> Iterator[Table | Wide | str]:
    """Yield tables of training steps and memory, then of inference iterations."""
    for group, title in trained.groups().items():
        yield step_table(group, title)
        average, worst = trained.errors(group)
        yield f"mean error {100 * average:.1f} %, largest {100 * worst:.1f} %\n"
    yield parts_table()
    yield sensitivity_table()
    yield memory_table()
    for group, source in served.groups().items():
        yield measured_table(group, source["title"])
        yield error_text(group) + "\n"
    yield form_table()
    yield formula_table()


def validation_json() -> dict[str, Any]:
    """Return the same for --json."""
    titles = trained.groups()
    return {
        "steps": [
            {
                "row": row.number,
                "source": titles[row.group],
                "name": row.name,
                "layout": asdict(row.job.layout),
                "measured_s": row.measured_s,
                "ours_s": row.seconds,
                "error": row.error,
                "step": asdict(row.step),
            }
            for row in trained.rows()
        ],
        "memory": [asdict(row) | {"error": row.error} for row in trained.memory_rows()],
        "errors": {
            title: dict(zip(("mean", "largest"), trained.errors(group), strict=True))
            for group, title in titles.items()
        },
        "inference": {
            "times": [
                {
                    "source": served.groups()[row.group]["title"],
                    "model": row.model,
                    "tp": row.deployment.tp,
                    "phase": row.phase,
                    "size": row.size,
                    "fitted": row.fitted,
                    "large": row.large,
                    "measured_ms": row.measured_ms,
                    "ours_ms": row.ms,
                    "error": row.error,
                    "roofline_error": row.bare_error,
                }
                for row in served.rows()
            ],
            "forms": [
                _form_json(group, form) for group in served.fitted_groups() for form in FORMS
            ],
            "formulas": [
                {
                    "name": one.name,
                    "phase": one.phase,
                    "stated_ms": one.stated_ms,
                    "ours_ms": one.ms,
                    "error": one.error,
                }
                for one in served.formulas()
            ],
        },
    }


def _form_json(group: str, form: str) -> dict[str, Any]:
    overheads = fitted_overheads(group, form)
    found: dict[str, Any] = {"group": group, "form": form, "overheads": asdict(overheads)}
    for rows, name in zip(_fitted_and_predicted(group), ("fitted", "not_fitted"), strict=True):
        errors = served.errors([row.with_overheads(overheads) for row in rows])
        found[name] = dict(zip(("mean", "largest"), errors, strict=True))
    return found


def _fitted_and_predicted(group: str) -> tuple[list[served.InferenceRow], ...]:
    fitted = [row for row in served.rows() if row.group == group and row.fitted]
    return fitted, served.predicted(group)


def step_table(group: str, title: str = "") -> Wide:
    """Measured and computed steps of one source."""
    rows = [row for row in trained.rows() if row.group == group]
    layouts = [row.job.layout for row in rows]
    return Wide(
        [
            *_row_names(rows),
            Column("GPUs", [f"{one.gpus:,}" for one in layouts]),
            Column("t, p, d", [f"{one.tp}, {one.pp}, {one.replicas}" for one in layouts]),
            Column("batch", [f"{one.global_batch:,}" for one in layouts], rank=2),
            Column("measured s", [f"{row.measured_s:.2f}" for row in rows]),
            Column("ours s", [f"{row.seconds:.2f}" for row in rows]),
            Column("error", [percent(row.error) for row in rows]),
            Column("MFU", [f"{100 * row.measured_mfu:.1f} %" for row in rows], rank=1),
            Column("ours", [f"{100 * row.step.mfu:.1f} %" for row in rows], rank=1),
        ],
        title=title,
    )


def _row_names(rows: Sequence[TrainingRow]) -> list[Column]:
    return [
        Column("row", [str(row.number) for row in rows]),
        Column("model", [row.name for row in rows], left=True),
    ]


def parts_table() -> Wide:
    """Parts of the computed steps in seconds."""
    rows = trained.rows()

    def column(name: str, times: Sequence[float]) -> Column:
        return Column(name, [f"{time / PS_PER_S:.2f}" if time else "-" for time in times])

    parts = [column(name, [getattr(row.step, f"{name}_ps") for row in rows]) for name in STEP_PARTS]
    sent = [column(k, [row.step.exposed.get(k, 0) for row in rows]) for k in ("tp", "pp", "dp")]
    columns = [*_row_names(rows), *parts[:2], *sent, *parts[2:]]
    return Wide(columns, title="Our step times by part, in seconds; tp, pp and dp: exposed")


def sensitivity_table() -> Wide:
    """One row with one assumption changed at a time."""
    row, found = trained.rows()[trained.TRACED - 1], trained.trace()
    columns = [
        Column(f"row {row.number}, {row.name}", [what for what, _ in found], left=True),
        Column("ours s", [f"{seconds:.2f}" for _, seconds in found]),
        Column("change", [percent(seconds / row.seconds - 1) for _, seconds in found]),
        Column("error", [percent(seconds / row.measured_s - 1) for _, seconds in found]),
    ]
    return Wide(columns, title="Sensitivity: one assumption changed at a time")


def memory_table() -> Wide:
    """Published and computed memory per GPU."""
    rows = trained.memory_rows()
    return Wide(
        [
            Column("model", [row.model for row in rows], left=True),
            Column("per GPU", [row.what for row in rows], left=True),
            Column("published GiB", [f"{row.published_gib:.2f}" for row in rows]),
            Column("ours GiB", [f"{row.gib:.2f}" for row in rows]),
            Column("error", [percent(row.error, 2) for row in rows]),
        ],
        title="Memory of the models in the first table",
    )


def error_text(group: str) -> str:
    """Mean and largest error of the rows that are not fitted."""
    text = "not fitted: mean error {:.1f} %, largest {:.1f} %"
    found = text.format(*(100 * one for one in served.errors(served.predicted(group))))
    if rows := served.predicted(group, large=True):
        beyond = "; with more than {:,} prompt tokens {:.1f} % and {:.1f} %"
        found += beyond.format(served.LARGE, *(100 * one for one in served.errors(rows)))
    return found


def measured_table(group: str, title: str = "") -> Wide:
    """Measured times of one machine, ours, and those of the roofline alone."""
    rows = [row for row in served.rows() if row.group == group]
    sizes = {"prefill": "prompt of {:,}", "prefills": "{} prompts of 512", "decode": "{} decoding"}
    return Wide(
        [
            Column("model", [row.model for row in rows], left=True),
            Column("GPUs", [str(row.deployment.tp) for row in rows]),
            Column("iteration", [sizes[row.phase].format(row.size) for row in rows], left=True),
            Column("measured ms", [f"{row.measured_ms:.1f}" for row in rows]),
            Column("ours ms", [f"{row.ms:.1f}" for row in rows]),
            Column("error", [percent(row.error) for row in rows]),
            Column("roofline alone", [percent(row.bare_error) for row in rows]),
            Column("", ["fitted" if row.fitted else "" for row in rows], left=True),
        ],
        title=title,
    )


def form_table() -> Wide:
    """Largest errors of each variant of the model, each with the same four numbers fitted."""
    columns = [Column("variant", list(FORMS), left=True)]
    for group in served.fitted_groups():
        fits = [fitted_overheads(group, form) for form in FORMS]
        shares = [f"{one.prefill_efficiency:.3f}" for one in fits]
        columns.append(Column(f"{group}: share of peak", shares))
        columns += [
            Column(f"{name} us", [f"{getattr(one, key) / 1e6:.1f}" for one in fits], rank=1)
            for name, key in (
                ("layer", "layer_overhead"),
                ("sequence", "sequence_overhead"),
                ("floor", "prefill_floor"),
            )
        ]
        for rows, name in zip(_fitted_and_predicted(group), ("fitted", "not fitted"), strict=True):
            largest = [served.errors([row.with_overheads(one) for row in rows])[1] for one in fits]
            columns.append(Column(name, [f"{100 * value:.1f} %" for value in largest]))
    title = "Model variants, each fitted again: largest errors"
    return Wide(columns, title=title, elsewhere="--json has all")


def formula_table() -> Wide:
    """Times by llm-analysis for a prompt of 512 tokens, and ours."""
    found = served.formulas()
    return Wide(
        [
            Column("llm-analysis", [one.name for one in found], left=True),
            Column("phase", [one.phase for one in found], left=True),
            Column("theirs ms", [f"{one.stated_ms:.2f}" for one in found]),
            Column("ours ms", [f"{one.ms:.2f}" for one in found]),
            Column("error", [percent(one.error) for one in found]),
        ],
        title="Other models' formulas",
    )
