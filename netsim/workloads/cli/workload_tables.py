"""The tables of `netsim workload`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from netsim.terminal import UNITS, Column, Wide, common_unit, plain_table
from netsim.units import format_bytes, format_number

if TYPE_CHECKING:
    from rich.table import Table

    from netsim.workloads.job.job import Job
    from netsim.workloads.job.metrics import Figure
    from netsim.workloads.job.validation import TrainingRow

PS_PER_S = 1e12
GIB = 2**30

PARTS = ("compute", "recompute", "bubble", "optimizer")
"""Parts of a step, beside what communication shows."""


def job_tables(job: Job) -> Iterator[Table | Wide | str]:
    """What a job is, what it holds, how long it computes, what it sends, and its step."""
    yield _shape(job)
    yield _memory(job)
    yield _times(job)
    yield _messages(job)
    yield _step(job)


def job_metrics(job: Job) -> dict[str, Any]:
    """The same as plain figures: bytes, picoseconds, operations."""
    from netsim.workloads.job import group_sizes, messages, stage_memory, stage_times
    from netsim.workloads.job.model import parameters
    from netsim.workloads.job.step import step_time

    layout = job.layout
    memory = [stage_memory(job, stage) for stage in range(layout.pp)]
    return {
        **asdict(job),
        "gpus": layout.gpus,
        "micro_batches": layout.micro_batches,
        "parameters": asdict(parameters(job.model)),
        "groups": group_sizes(job),
        "memory_bytes": [asdict(one) | {"total": one.total} for one in memory],
        "times": asdict(stage_times(job)),
        "messages": [asdict(one) | {"time_ps": one.time_ps(job)} for one in messages(job)],
        "step": asdict(step_time(job)),
    }


def _shape(job: Job) -> Table:
    from netsim.workloads.job.model import parameters

    model, layout, counted = job.model, job.layout, parameters(job.model)
    table = plain_table("", "", title=job.name)
    table.show_header = False
    active = f", {count_of(counted.active)} active" if counted.active != counted.total else ""
    table.add_row("parameters", f"{count_of(counted.total)}{active}")
    experts = f", {model.experts} experts" if model.experts else ""
    table.add_row("model", f"{model.layers} layers, {model.hidden:,} wide{experts}")
    table.add_row("GPUs", f"{layout.gpus:,}: {_layout(job)}")
    table.add_row(
        "a step",
        f"{layout.global_batch:,} sequences of {model.sequence:,} tokens, {layout.micro_batches:,} "
        f"micro-batch{'es' * (layout.micro_batches > 1)} of {layout.micro_batch} at a replica, "
        f"{layout.schedule}",
    )
    table.add_row("figures of the model", model.source)
    table.add_row("figures of the machine", job.machine.source)
    return table


def _layout(job: Job) -> str:
    layout = job.layout
    found = [f"tp {layout.tp}" + " with sp" * layout.sp, f"pp {layout.pp}"]
    if layout.dp_levels:
        levels = " x ".join(f"{one:,}" for one in layout.dp_levels)
        found.append(f"dp {layout.replicas:,} ({levels})")
    else:
        found.append(f"dp {layout.replicas:,}" + f" with ZeRO {layout.zero}" * (layout.zero > 0))
    found += [f"{name} {n}" for name, n in (("cp", layout.cp), ("ep", layout.ep)) if n > 1]
    return ", ".join(found)


def _memory(job: Job) -> Wide:
    """The first and the last stage, and the one that holds most."""
    from netsim.workloads.job import stage_memory

    last = job.layout.pp - 1
    held = [stage_memory(job, stage) for stage in range(last + 1)]
    fullest = max(range(last + 1), key=lambda stage: held[stage].total)
    chosen = sorted({0, fullest, last})
    columns = [Column("memory of a GPU", [f"stage {stage}" for stage in chosen], left=True)]
    for name in ("weights", "gradients", "optimizer", "activations", "working", "total"):
        cells = [format_bytes(round(getattr(held[stage], name)), 4) for stage in chosen]
        columns.append(Column(name, cells))
    return Wide(columns)


def _times(job: Job) -> Wide:
    """Of a layer and of the slowest stage, for a micro-batch."""
    from netsim.workloads.job import stage_times

    times = stage_times(job)
    rows = {"a layer": times.layer, "embedding": times.embedding, "head": times.head}
    if job.model.experts:
        rows = {"a layer without experts": times.layer, "one with": times.moe_layer} | {
            name: rows[name] for name in ("embedding", "head")
        }
    last = len(times.virtual_stages) - 1
    rows["the first virtual stage"] = times.virtual_stages[0]
    rows["the last"] = times.virtual_stages[last]
    columns = [Column("compute of a micro-batch", list(rows), left=True)]
    parts = ("forward_ps", "recompute_ps", "backward_input_ps", "backward_weight_ps")
    unit, scale = common_unit([getattr(one, name) for one in rows.values() for name in parts])
    titles = ("forward", "again", "backward,\nactivations", "backward,\nweights")
    for name, title in zip(parts, titles, strict=True):
        cells = [format_number(getattr(one, name) / scale) for one in rows.values()]
        columns.append(Column(f"{title}\n{unit}" if "\n" in title else f"{title}\n\n{unit}", cells))
    return Wide(columns)


def _messages(job: Job) -> Wide:
    """Who sends what to whom, when; times are those of one alone on its network."""
    from netsim.workloads.job import messages

    found = messages(job)
    columns = [
        Column("kind", [one.kind for one in found], left=True),
        Column("what", [one.what for one in found], left=True),
        Column("among", [f"{one.n:,}" for one in found]),
        Column("network", [one.network for one in found], rank=2, left=True),
        Column("in", [one.when for one in found], left=True),
        Column("of each", [one.per for one in found], left=True),
        Column("times", [str(one.times) for one in found], rank=1),
        Column("bytes", [format_bytes(one.size_bytes, 4) for one in found]),
        Column("alone", [duration(one.time_ps(job)) for one in found]),
    ]
    return Wide(columns, elsewhere="--json has all")


def _step(job: Job) -> Table:
    from netsim.workloads.job.step import step_time

    step = step_time(job)
    table = plain_table("the step, by formula", "", "")
    table.columns[1].justify = table.columns[2].justify = "right"
    for name in PARTS[:2]:
        _add(table, name, getattr(step, f"{name}_ps"), step.total_ps)
    for kind, time in sorted(step.exposed.items()):
        _add(table, f"{kind}, not hidden", time, step.total_ps)
    for name in PARTS[2:]:
        _add(table, name, getattr(step, f"{name}_ps"), step.total_ps)
    _add(table, "all", step.total_ps, step.total_ps)
    rate = step.model_flops / job.layout.gpus / step.total_ps
    table.add_row("model FLOP/s of a GPU", f"{format_number(rate)}T", f"{100 * step.mfu:.1f} % MFU")
    return table


def _add(table: Table, name: str, time: float, total: float) -> None:
    if time > 0:
        table.add_row(name, duration(time), f"{100 * time / total:.1f} %")


def duration(time_ps: float) -> str:
    """A time with four digits; above a second in seconds."""
    unit, scale = common_unit([time_ps])
    return f"{format_number(time_ps / scale)}{unit}" if time_ps else f"0{UNITS[-1][0]}"


def count_of(n: float) -> str:
    """A number with four digits, in millions and more."""
    for scale, letter in ((1e15, "P"), (1e12, "T"), (1e9, "B"), (1e6, "M")):
        if n >= scale:
            return f"{format_number(n / scale)} {letter}"
    return f"{n:,.0f}"


def validation() -> Iterator[Table | Wide | str]:
    """A table of step times for each source, one of their parts, and one of memory."""
    from netsim.workloads.job.validation import errors, groups

    for group, title in groups().items():
        yield step_table(group, title)
        average, worst = errors(group)
        yield f"mean error {100 * average:.1f} %, largest {100 * worst:.1f} %\n"
    yield parts_table()
    yield trace_table()
    yield memory_table()


def step_table(group: str, title: str = "") -> Wide:
    """Measured steps of one source, and ours."""
    from netsim.workloads.job.validation import rows

    found = [row for row in rows() if row.group == group]
    return Wide(
        [
            *_named(found),
            Column("GPUs", [f"{row.job.layout.gpus:,}" for row in found]),
            Column("t, p, d", [_three(row) for row in found]),
            Column("batch", [f"{row.job.layout.global_batch:,}" for row in found], rank=2),
            Column("measured s", [f"{row.measured_s:.2f}" for row in found]),
            Column("ours s", [f"{row.seconds:.2f}" for row in found]),
            Column("error", [percent(row.error) for row in found]),
            Column("MFU", [f"{100 * row.measured_mfu:.1f} %" for row in found], rank=1),
            Column("ours", [f"{100 * row.step.mfu:.1f} %" for row in found], rank=1),
        ],
        title=title,
    )


def _three(row: TrainingRow) -> str:
    layout = row.job.layout
    return f"{layout.tp}, {layout.pp}, {layout.replicas}"


def _named(found: Sequence[TrainingRow]) -> list[Column]:
    return [
        Column("row", [str(row.number) for row in found]),
        Column("model", [row.name for row in found], left=True),
    ]


def parts_table() -> Wide:
    """What our steps are made of, in seconds."""
    from netsim.workloads.job.validation import rows

    columns = _named(rows())
    for name in PARTS[:2]:
        columns.append(Column(name, [_part(getattr(row.step, f"{name}_ps")) for row in rows()]))
    for kind in ("tp", "pp", "dp"):
        columns.append(Column(kind, [_part(row.step.exposed.get(kind, 0)) for row in rows()]))
    for name in PARTS[2:]:
        columns.append(Column(name, [_part(getattr(row.step, f"{name}_ps")) for row in rows()]))
    return Wide(columns, title="Seconds of our steps; tp, pp and dp: what is not hidden of them")


def trace_table() -> Wide:
    """One row with one assumption after the other changed."""
    from netsim.workloads.job.validation import TRACED, rows, trace

    row, found = rows()[TRACED - 1], trace()
    columns = [
        Column(f"row {row.number}, {row.name}", [what for what, _ in found], left=True),
        Column("ours s", [f"{seconds:.2f}" for _, seconds in found]),
        Column("change", [percent(seconds / row.seconds - 1) for _, seconds in found]),
        Column("error", [percent(seconds / row.measured_s - 1) for _, seconds in found]),
    ]
    return Wide(columns, title="One row, with one assumption after the other changed")


def _part(time_ps: float) -> str:
    return f"{time_ps / PS_PER_S:.2f}" if time_ps else "-"


def memory_table() -> Wide:
    """Published memory of a GPU, and ours."""
    from netsim.workloads.job.validation import memory_rows

    found = memory_rows()
    return Wide(
        [
            Column("model", [row.model for row in found], left=True),
            Column("of a GPU", [row.what for row in found], left=True),
            Column("published GiB", [f"{row.published_gib:.2f}" for row in found]),
            Column("ours GiB", [f"{row.gib:.2f}" for row in found]),
            Column("error", [percent(row.error, 2) for row in found]),
        ],
        title="Memory of the models of the first table",
    )


def percent(share: float, digits: int = 1) -> str:
    """A share with its sign."""
    rounded = round(100 * share, digits)
    return f"{rounded:+.{digits}f} %" if rounded else f"{0:.{digits}f} %"


def validation_figures() -> dict[str, Any]:
    """Measured steps and memory, and ours, as plain figures."""
    from netsim.workloads.job.validation import errors, groups, memory_rows, rows

    return {
        "steps": [
            {
                "row": row.number,
                "source": groups()[row.group],
                "name": row.name,
                "layout": asdict(row.job.layout),
                "measured_s": row.measured_s,
                "ours_s": row.seconds,
                "error": row.error,
                "step": asdict(row.step),
            }
            for row in rows()
        ],
        "memory": [asdict(row) | {"error": row.error} for row in memory_rows()],
        "errors": {
            title: dict(zip(("mean", "largest"), errors(group), strict=True))
            for group, title in groups().items()
        },
    }


MARKS = {
    "yes": "to the digits that are printed",
    "approx": "near, or an input was chosen for it",
    "no": "not reproduced",
    "derived": "not printed in the paper",
    "input": "given",
}


def paper() -> Iterator[Table | Wide | str]:
    """The paper's figures, and ours."""
    from netsim.workloads.job.metrics import figures

    found = figures()
    yield Wide(
        [
            Column("figure", [one.name for one in found], left=True),
            Column("section", [one.section for one in found], rank=2),
            Column("paper", [_stated(one) for one in found]),
            Column("ours", [format_number(one.ours, 5) for one in found]),
            Column("unit", [one.unit for one in found], left=True),
            Column("difference", [_difference(one) for one in found]),
            Column("reproduced", [one.agreement for one in found], left=True),
            Column("", ["POST-HOC" if one.post_hoc else "" for one in found], left=True),
            Column("note", [_note(one) for one in found], rank=1, left=True),
        ],
        elsewhere="--json has all",
    )
    counts = {mark: sum(one.agreement == mark for one in found) for mark in MARKS}
    yield "; ".join(f"{mark} ({counts[mark]}): {text}" for mark, text in MARKS.items()) + "."
    yield (
        "POST-HOC: an input or a formula was chosen so that the figure comes out; it validates "
        "nothing."
    )


def paper_figures() -> list[Mapping[str, Any]]:
    """The same as plain figures."""
    from netsim.workloads.job.metrics import figures

    return [
        asdict(one) | {"difference": one.difference, "post_hoc": one.post_hoc} for one in figures()
    ]


def _stated(one: Figure) -> str:
    if one.number is None:
        return "-"
    bound = one.stated[0] if one.stated[0] in "<>" else ""
    return bound + (one.stated.strip("<>") if "e" not in one.stated else f"{one.number:,.0f}")


def _difference(one: Figure) -> str:
    if one.difference is None or one.stated[0] in "<>":
        return "-"
    return percent(one.difference, 2)


def _note(one: Figure) -> str:
    return one.note.removeprefix("POST-HOC: ")
