"""Tables of training jobs: `netsim workload show`, `search`, `plan` and `paper`."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.common.terminal import UNITS, Column, Wide, common_unit, pairs_table, rows_table
from netsim.errors import InputError
from netsim.units import format_bytes, format_number, written
from netsim.workloads.job.job import Job, parameters
from netsim.workloads.job.machine import Estimate
from netsim.workloads.job.messages import group_sizes, messages, networks_of_kinds
from netsim.workloads.job.paper import Figure, JobPlan, stage_seconds
from netsim.workloads.job.step import AXES, LayoutRow, LayoutSearch, layout_keys, step_time
from netsim.workloads.job.work import stage_memory, stage_times

if TYPE_CHECKING:
    from rich.table import Table


STEP_PARTS = ("compute", "recompute", "bubble", "optimizer")  # besides exposed communication
SEED = 1  # seed of a random placement; the default seed of experiments

STAGES = (
    ("forward_s", "forward pass of a layer"),
    ("tp_s", "tensor parallelism per pass"),
    ("pp_s", "transfer to the next layer"),
    ("s1_s", "S1, in the rack"),
    ("s2_s", "S2, across racks"),
    ("s4_s", "S4, across racks"),
    ("s5_s", "S5, in the rack"),
)


def job_tables(job: Job) -> Iterator[Table | Wide | str]:
    """Yield a job's parameters, memory, compute times, messages, and step time."""
    yield _job_summary(job)
    yield _memory(job)
    yield _times(job)
    yield _messages(job)
    yield _step(job)


def job_json(job: Job) -> dict[str, Any]:
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
        "messages": [
            asdict(one) | dict(zip(TIMES, one.estimate(job), strict=False)) for one in messages(job)
        ],
        "step": asdict(step_time(job)),
    }


TIMES = ("time_ps", "low_ps", "high_ps")
"""A message's time and the ends of its interval, None if it has none."""

SITE = ("racks", "gpus", "flops", "compute_watts", "it_watts", "total_watts")
"""Sizes of a site that follow from its keys."""


def _job_summary(job: Job) -> Table:
    model, layout, counted = job.model, job.layout, parameters(job.model)
    active = f", {count_text(counted.active)} active" if counted.active != counted.total else ""
    experts = f", {model.experts} experts" if model.experts else ""
    micro = f"{layout.micro_batches:,} micro-batch{'es' * (layout.micro_batches > 1)}"
    rows = {
        "parameters": f"{count_text(counted.total)}{active}",
        "model": f"{model.layers} layers, hidden size {model.hidden:,}{experts}",
        "GPUs": f"{layout.gpus:,}: {_layout(job)}",
        "step": f"{layout.global_batch:,} sequences of {model.sequence:,} tokens, {micro} of "
        f"{layout.micro_batch} per replica, {layout.schedule}",
        "source of the model": model.source,
        "source of the machine": job.machine.source,
    }
    return pairs_table(job.name, rows.items())


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
    """Memory of the first, the last and the fullest stage."""
    last = job.layout.pp - 1
    held = [stage_memory(job, stage) for stage in range(last + 1)]
    fullest = max(range(last + 1), key=lambda stage: held[stage].total)
    chosen = sorted({0, fullest, last})
    columns = [Column("memory per GPU", [f"stage {stage}" for stage in chosen], left=True)]
    for name in ("weights", "gradients", "optimizer", "activations", "working", "total"):
        cells = [format_bytes(round(getattr(held[stage], name)), 4) for stage in chosen]
        columns.append(Column(name, cells))
    return Wide(columns)


def _times(job: Job) -> Wide:
    """Compute times of a layer and of virtual stages per micro-batch."""
    times = stage_times(job)
    layers = {"layer": times.layer}
    if job.model.experts:
        layers = {"dense layer": times.layer, "MoE layer": times.moe_layer}
    rows = {
        **layers,
        "embedding": times.embedding,
        "head": times.head,
        "first virtual stage": times.virtual_stages[0],
        "last virtual stage": times.virtual_stages[-1],
    }
    columns = [Column("compute per micro-batch", list(rows), left=True)]
    titles = {
        "forward_ps": "forward\n",
        "recompute_ps": "recompute\n",
        "backward_input_ps": "backward,\nactivations",
        "backward_weight_ps": "backward,\nweights",
    }
    unit, scale = common_unit([getattr(one, name) for one in rows.values() for name in titles])
    for name, title in titles.items():
        cells = [format_number(getattr(one, name) / scale) for one in rows.values()]
        columns.append(Column(f"{title}\n{unit}", cells))
    return Wide(columns)


def _messages(job: Job) -> Wide:
    found = messages(job)
    times = [one.estimate(job) for one in found]
    columns = [
        Column("kind", [one.kind for one in found], left=True),
        Column("operation", [one.what for one in found], left=True),
        Column("ranks", [f"{one.n:,}" for one in found]),
        Column("network", [one.network for one in found], rank=2, left=True),
        Column("pass", [one.when for one in found], left=True),
        Column("per", [one.per for one in found], left=True),
        Column("times", [str(one.times) for one in found], rank=1),
        Column("bytes", [format_bytes(one.size_bytes, 4) for one in found]),
        Column("ideal time", [duration(one.time_ps) for one in times]),
    ]
    if any(one.spread for one in times):
        columns.append(Column("90 % interval", [_interval(one) for one in times]))
    return Wide(columns, elsewhere="--json has all")


def _interval(one: Estimate) -> str:
    if one.low_ps is None or one.high_ps is None:
        return "-"
    return f"{duration(one.low_ps)} to {duration(one.high_ps)}"


def _step(job: Job) -> Wide:
    step = step_time(job)
    times = [(name, getattr(step, f"{name}_ps")) for name in STEP_PARTS]
    networks = networks_of_kinds(job)
    exposed = [
        (f"exposed {networks[kind]} {kind}", time) for kind, time in sorted(step.exposed.items())
    ]
    rows = [
        (name, duration(time), f"{100 * time / step.total_ps:.1f} %")
        for name, time in (*times[:2], *exposed, *times[2:], ("total", step.total_ps))
        if time > 0
    ]
    rate = f"{format_number(step.model_flops / job.layout.gpus / step.total_ps)}T"
    rows.append(
        ("model FLOP/s per GPU", rate, f"{100 * step.mfu:.1f} % MFU, {job.precision.compute}")
    )
    return rows_table(("step by formula", "", ""), rows)


def placement_tables(job: Job, placement: str, out: Path | None) -> Iterator[Wide | str]:
    from netsim.workloads.job.messages import Ranks, describe, place

    layout, rack_hosts = job.layout, job.machine.domain_gpus
    ranks = Ranks(layout.tp, layout.cp, layout.replicas, layout.pp, layout.dp_levels, layout.ep)
    # Racks may stay partly empty: with this many hosts, every stage can start in a new rack.
    n_hosts = rack_hosts * len(ranks)
    if placement == "random":
        n_hosts = -(-len(ranks) // rack_hosts) * rack_hosts
    hosts = place(placement, ranks, rack_hosts, n_hosts, np.random.default_rng(SEED))
    rows, more = describe(ranks, hosts, rack_hosts)
    yield f"{job.name}: {placement}, racks of {rack_hosts} GPUs"
    gap = [("...", *[""] * (len(rows[0]) - 1))] if more else []
    yield rows_table(rows[0], [*rows[1:-1], *gap, rows[-1]], left=len(rows[0]))
    if more:
        yield f"{more:,} more racks"
    if out is not None:
        from netsim.plots import save
        from netsim.workloads.plots import jobs

        yield str(save(jobs.placement(ranks, hosts, rack_hosts, f"{job.name}: {placement}"), out))


def plan_tables(plan: JobPlan) -> Iterator[Table | str]:
    """Yield the site, the model and its layout, and the stages of a step."""
    yield _site(plan)
    yield _model(plan)
    yield _stages(plan)
    yield (
        "Exposed: 2 TP + 2 PP + the part of S1, S2 or the wide area beyond the backward pass, as a "
        "share of this plus three forward passes. POST-HOC: this formula fits the paper best."
    )


def plan_json(plan: JobPlan) -> dict[str, Any]:
    site = plan.site
    return {
        "site": asdict(site),
        "plan": asdict(plan.target),
        **{name: getattr(site, name) for name in SITE},
        "parameters_by_law": plan.by_law,
        "model": asdict(plan.job.model),
        "parameters": asdict(parameters(plan.job.model)),
        "racks_of_layer": plan.racks_of_layer,
        "layout": asdict(plan.job.layout),
        "stages": asdict(stage_seconds(plan.job)),
        "exposed": plan.exposed,
    }


def _site(plan: JobPlan) -> Table:
    site, (low, high) = plan.site, plan.site.total_watts
    rows = {
        "budget": f"{format_number(site.budget_usd / 1e9)} G USD",
        "racks": f"{site.racks:,.0f}, truncated to {site.stated_racks:,}",
        "GPUs": f"{site.gpus:,}",
        "rate": f"{format_number(site.flops / 1e18)} EFLOP/s",
        "power of racks": _watts(site.compute_watts),
        "power of all IT": _watts(site.it_watts),
        "total power": f"{_watts(low)} to {_watts(high)}",
    }
    return pairs_table("What the budget buys", rows.items())


def _watts(watts: float) -> str:
    return f"{format_number(watts / 1e6)} MW"


def _model(plan: JobPlan) -> Table:
    job, target = plan.job, plan.target
    years = f"{format_number(target.years)} year{'s' * (target.years != 1)}"
    rows = {}
    for law, n in plan.by_law.items():
        chosen = " (chosen)" if law == target.law and not target.parameters else ""
        rows[f"parameters by {law}"] = f"{count_text(n)}{chosen}"
    rack, racks, sites = job.layout.dp_levels or (1, 1, 1)
    rows |= {
        "shape": f"{job.model.layers} layers, hidden size {job.model.hidden:,}",
        "parameters": count_text(parameters(job.model).total),
        "tp": f"{job.layout.tp} GPUs of {format_bytes(job.machine.memory)}",
        "replicas": f"{rack} per rack x {racks:,} racks per layer x {sites:,} datacenters",
        "GPUs used": f"{job.layout.gpus:,}",
    }
    return pairs_table(f"Model for {years} of training", rows.items())


def _stages(plan: JobPlan) -> Table:
    stages = stage_seconds(plan.job)
    rows = {"accounting": plan.target.accounting}
    rows |= {text: duration(1e12 * getattr(stages, name)) for name, text in STAGES}
    rows["S3, to the other datacenter"] = format_bytes(round(stages.wan_bytes), 4)
    rows["exposed"] = f"{100 * plan.exposed:.2f} %"
    return pairs_table("Stages of one layer", rows.items())


def paper_tables(found: Sequence[Figure]) -> Iterator[Table | Wide | str]:
    from netsim.workloads.job.paper import AGREEMENTS

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
            Column("note", [one.note.removeprefix("POST-HOC: ") for one in found], 1, left=True),
        ],
        elsewhere="--json has all",
    )
    counts = Counter(one.agreement for one in found)
    yield "; ".join(f"{name} ({counts[name]}): {text}" for name, text in AGREEMENTS.items()) + "."
    yield "POST-HOC: an input or a formula was chosen to match the paper; it validates nothing."


def paper_json(found: Sequence[Figure]) -> list[dict[str, Any]]:
    return [asdict(one) | {"difference": one.difference, "post_hoc": one.post_hoc} for one in found]


def _stated(one: Figure) -> str:
    if one.number is None:
        return "-"
    bound = one.stated[0] if one.stated[0] in "<>" else ""
    return bound + (one.stated.strip("<>") if "e" not in one.stated else f"{one.number:,.0f}")


def _difference(one: Figure) -> str:
    if one.difference is None or one.stated[0] in "<>":
        return "-"
    return percent(one.difference, 2)


def duration(time_ps: float) -> str:
    """A time with four digits, in seconds or a smaller unit."""
    unit, scale = common_unit([time_ps])
    return f"{format_number(time_ps / scale)}{unit}" if time_ps else f"0{UNITS[-1][0]}"


def count_text(n: float) -> str:
    """A number with four digits and a letter from a million up."""
    for scale, letter in ((1e15, "P"), (1e12, "T"), (1e9, "B"), (1e6, "M")):
        if n >= scale:
            return f"{format_number(n / scale)} {letter}"
    return f"{n:,.0f}"


def percent(share: float, digits: int = 1) -> str:
    rounded = round(100 * share, digits)
    return f"{rounded:+.{digits}f} %" if rounded else f"{0:.{digits}f} %"


EXPOSED = ("exposed_scale_up", "exposed_scale_out")

MAX_COUNT = 1_000_000

MAX_REASON = 90  # maximum printed length of the reason why a layout does not work


def varied(texts: Sequence[str]) -> dict[str, list[Any]]:
    """Return the axes that `--vary KEY=[VALUES]` gives. Raises InputError."""
    from netsim.experiment.document import apply_overrides

    tree: dict[str, Any] = {}
    apply_overrides(tree, texts)
    tree = tree.get("layout", {}) | {key: one for key, one in tree.items() if key != "layout"}
    found = {}
    for name, value in tree.items():
        found[name] = value if isinstance(value, list) else [value]
        is_name, low = name in ("schedule", "recompute"), int(name != "zero")
        for one in found[name]:
            is_count = type(one) is int and low <= one <= MAX_COUNT
            if not (isinstance(one, str) if is_name else is_count):
                what = "a name" if is_name else "a count"
                hint = f"--vary {name}=[...] with one of {', '.join(AXES)}"
                raise InputError(f"{written(one)} is not {what}", key=f"--vary {name}", hint=hint)
    return found


def search_rows(found: LayoutSearch, usd_per_gpu_hour: float | None) -> list[dict[str, Any]]:
    """Return a dictionary per layout, by step time: its keys, memory, step, MFU and cost."""
    rows = []
    for one in found.rows:
        hours = 1e9 * one.gpu_hours_per_token
        rows.append(
            {
                "gpus": one.job.layout.gpus,
                **layout_keys(one.job.layout),
                "memory_bytes": round(one.memory_bytes),
                "step_ps": round(one.step.total_ps),
                "mfu": one.step.mfu,
                **_exposed(one),
                "bubble": one.step.bubble_ps / one.step.total_ps,
                "gpu_hours_per_billion_tokens": hours,
                "usd_per_billion_tokens": None
                if usd_per_gpu_hour is None
                else hours * usd_per_gpu_hour,
            }
        )
    return rows


def _exposed(one: LayoutRow) -> dict[str, float]:
    """Return the shares of the step with exposed communication, by network."""
    networks, found = networks_of_kinds(one.job), dict.fromkeys(EXPOSED, 0.0)
    for kind, time_ps in one.step.exposed.items():
        found[f"exposed_{networks[kind].replace('-', '_')}"] += time_ps / one.step.total_ps
    return found


def search_tables(
    found: LayoutSearch, top: int, usd_per_gpu_hour: float | None
) -> Iterator[Wide | str]:
    """Yield the fastest layouts, and how many others do not work, by reason."""
    rows = search_rows(found, usd_per_gpu_hour)[:top]
    if rows:
        yield _table(rows, found.rows[0])
    more = len(found.rows) - len(rows)
    if more:
        yield f"{more:,} slower layouts: --top, --csv or --json"
    for (key, reason), n in found.refused.items():
        short = reason if len(reason) <= MAX_REASON else f"{reason[: MAX_REASON - 3]}..."
        yield f"{n:,} layouts do not work: {key}" + (f" (the first: {short})" if short else "")


def _table(rows: Sequence[dict[str, Any]], first: LayoutRow) -> Wide:
    """Return a line per layout; keys that all share are in the title."""
    columns, shared = [], []
    names = [name for name in ("gpus", *layout_keys(first.job.layout)) if name != "sp"]
    for name in names:
        cells = [str(row[name]).lower() for row in rows]
        if name in ("tp", "pp", "dp") or len(set(cells)) > 1:
            left = isinstance(rows[0][name], str)
            columns.append(Column(name.replace("_", "\n"), cells, rank=0, left=left))
        else:
            shared.append(f"{name} {cells[0]}")
    unit, scale = common_unit([row["step_ps"] for row in rows])
    columns.append(Column("memory", [format_bytes(row["memory_bytes"], 3) for row in rows]))
    columns.append(Column(f"step\n{unit}", [format_number(row["step_ps"] / scale) for row in rows]))
    percents = (
        ("MFU\n%", "mfu", 0),
        ("exposed\nscale-up\n%", "exposed_scale_up", 2),
        ("exposed\nscale-out\n%", "exposed_scale_out", 2),
        ("bubble\n%", "bubble", 3),
    )
    for title, name, rank in percents:
        columns.append(Column(title, [f"{100 * row[name]:.1f}" for row in rows], rank))
    for title, name, rank in (("GPU-hours", "gpu_hours", 1), ("USD", "usd", 0)):
        cost = f"{name}_per_billion_tokens"
        if rows[0][cost] is not None:
            cells = [format_number(row[cost]) for row in rows]
            columns.append(Column(f"{title}\nper\nG tokens", cells, rank))
    title = f"{first.job.name} by formula, fastest first; all with {', '.join(shared)}"
    return Wide(columns, title=title, elsewhere="--csv and --json have all")


def search_csv(found: LayoutSearch, usd_per_gpu_hour: float | None) -> str:
    rows, text = search_rows(found, usd_per_gpu_hour), io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
