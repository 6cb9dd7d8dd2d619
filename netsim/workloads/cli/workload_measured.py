"""`netsim workload --validate` of inference: measured times, and formulas of others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from netsim.terminal import Column, Wide
from netsim.workloads.cli.workload_tables import percent

if TYPE_CHECKING:
    from rich.table import Table


def inference_validation() -> Iterator[Table | Wide | str]:
    """A table for each machine, one of other forms of the model, and one of others' formulas."""
    from netsim.workloads.inference.validation import groups

    for group, source in groups().items():
        yield measured_table(group, source["title"])
        yield told_errors(group) + "\n"
    yield form_table()
    yield formula_table()


def told_errors(group: str) -> str:
    """Mean and largest error of what was not fitted, in words."""
    from netsim.workloads.inference.validation import LARGE, errors, predicted

    told = "not fitted: mean error {:.1f} %, largest {:.1f} %"
    found = told.format(*(100 * one for one in errors(predicted(group))))
    if rows := predicted(group, large=True):
        beyond = "; with more than {:,} tokens of prompts {:.1f} % and {:.1f} %"
        found += beyond.format(LARGE, *(100 * one for one in errors(rows)))
    return found


def measured_table(group: str, title: str = "") -> Wide:
    """Measured times of one machine, ours, and those of the roofline alone."""
    from netsim.workloads.inference.validation import rows

    found = [row for row in rows() if row.group == group]
    sizes = {
        "prefill": "prompt of {:,}",
        "prefills": "{} prompts of 512",
        "decode": "{} decoding",
    }
    return Wide(
        [
            Column("model", [row.model for row in found], left=True),
            Column("GPUs", [str(row.deployment.tp) for row in found]),
            Column("what", [sizes[row.phase].format(row.size) for row in found], left=True),
            Column("measured ms", [f"{row.measured_ms:.1f}" for row in found]),
            Column("ours ms", [f"{row.ms:.1f}" for row in found]),
            Column("error", [percent(row.error) for row in found]),
            Column("roofline alone", [percent(row.bare_error) for row in found]),
            Column("", ["fitted" if row.fitted else "" for row in found], left=True),
        ],
        title=title,
    )


def form_table() -> Wide:
    """What stands fixed changed one by one, with as many numbers fitted; largest errors."""
    from netsim.workloads.inference.fit import FORMS, fitted_overheads
    from netsim.workloads.inference.validation import errors, fitted_groups, predicted, rows

    columns = [Column("form", list(FORMS), left=True)]
    for group in fitted_groups():
        overheads = [fitted_overheads(group, form) for form in FORMS]
        shares = [f"{one.prefill_efficiency:.3f}" for one in overheads]
        columns.append(Column(f"{group}: share of peak", shares))
        columns += [
            Column(f"{name} us", [f"{getattr(one, key) / 1e6:.1f}" for one in overheads], rank=1)
            for name, key in (
                ("layer", "layer_overhead"),
                ("sequence", "sequence_overhead"),
                ("floor", "prefill_floor"),
            )
        ]
        fitted = [row for row in rows() if row.group == group and row.fitted]
        for chosen, name in ((fitted, "fitted"), (predicted(group), "not fitted")):
            largest = [errors([row.with_overheads(one) for row in chosen])[1] for one in overheads]
            columns.append(Column(name, [f"{100 * value:.1f} %" for value in largest]))
    title = "What stands fixed, changed and fitted anew: largest errors"
    return Wide(columns, title=title, elsewhere="--json has all")


def formula_table() -> Wide:
    """What formulas of others give for a prompt of 512 tokens, and ours."""
    from netsim.workloads.inference.validation import formulas

    found = formulas()
    return Wide(
        [
            Column("llm-analysis", [one.name for one in found], left=True),
            Column("what", [one.phase for one in found], left=True),
            Column("theirs ms", [f"{one.stated_ms:.2f}" for one in found]),
            Column("ours ms", [f"{one.ms:.2f}" for one in found]),
            Column("error", [percent(one.error) for one in found]),
        ],
        title="What formulas of others give",
    )


def inference_figures() -> dict[str, Any]:
    """The same as plain figures."""
    from netsim.workloads.inference.fit import FORMS, fitted_overheads
    from netsim.workloads.inference.validation import (
        errors,
        fitted_groups,
        formulas,
        groups,
        predicted,
        rows,
    )

    forms = []
    for group in fitted_groups():
        for form in FORMS:
            overheads = fitted_overheads(group, form)
            told: dict[str, Any] = {"group": group, "form": form, "overheads": asdict(overheads)}
            fitted = [row for row in rows() if row.group == group and row.fitted]
            for chosen, name in ((fitted, "fitted"), (predicted(group), "not_fitted")):
                found = errors([row.with_overheads(overheads) for row in chosen])
                told[name] = dict(zip(("mean", "largest"), found, strict=True))
            forms.append(told)
    return {
        "times": [
            {
                "source": groups()[row.group]["title"],
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
            for row in rows()
        ],
        "forms": forms,
        "formulas": [
            {
                "name": one.name,
                "phase": one.phase,
                "stated_ms": one.stated_ms,
                "ours_ms": one.ms,
                "error": one.error,
            }
            for one in formulas()
        ],
    }
