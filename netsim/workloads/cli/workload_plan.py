"""`netsim workload plan`: what a budget buys, and the training job that it comes to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from netsim.terminal import plain_table
from netsim.units import format_bytes, format_number

if TYPE_CHECKING:
    from rich.table import Table

    from netsim.workloads.job.plan import JobPlan

STAGES = (
    ("forward_s", "forward pass of a layer"),
    ("tp_s", "tensor parallelism, a pass"),
    ("pp_s", "transfer to the next layer"),
    ("s1_s", "S1, in the rack"),
    ("s2_s", "S2, over racks"),
    ("s4_s", "S4, over racks"),
    ("s5_s", "S5, in the rack"),
)


def plan_tables(plan: JobPlan) -> Iterator[Table | str]:
    """The site, the model, its layout, and the stages of a step."""
    yield _site(plan)
    yield _model(plan)
    yield _stages(plan)
    yield (
        "Exposed: 2 TP + 2 PP + what S1, S2 or the wide area take beyond the backward pass, to all "
        "of it and three forward passes. POST-HOC: the formula that fits the paper best."
    )


def plan_figures(plan: JobPlan) -> dict[str, Any]:
    """The same as plain figures."""
    from netsim.workloads.job.model import parameters
    from netsim.workloads.job.paper import stage_seconds

    site = plan.site
    return {
        "site": asdict(site),
        "plan": asdict(plan.target),
        "racks": site.racks,
        "gpus": site.gpus,
        "flops": site.flops,
        "compute_watts": site.compute_watts,
        "it_watts": site.it_watts,
        "total_watts": site.total_watts,
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
    table = plain_table("", "", title="What the budget buys")
    table.show_header = False
    table.add_row("budget", f"{format_number(site.budget_usd / 1e9)} G USD")
    table.add_row("racks", f"{site.racks:,.0f}, cut off to {site.stated_racks:,}")
    table.add_row("GPUs", f"{site.gpus:,}")
    table.add_row("rate", f"{format_number(site.flops / 1e18)} EFLOP/s")
    table.add_row("power of racks", _watts(site.compute_watts))
    table.add_row("of all IT", _watts(site.it_watts))
    table.add_row("of all", f"{_watts(low)} to {_watts(high)}")
    return table


def _watts(watts: float) -> str:
    return f"{format_number(watts / 1e6)} MW"


def _model(plan: JobPlan) -> Table:
    from netsim.workloads.cli.workload_tables import count_of
    from netsim.workloads.job.model import parameters

    job, wish = plan.job, plan.target
    years = f"{format_number(wish.years)} year{'s' * (wish.years != 1)}"
    table = plain_table("", "", title=f"The model of {years}")
    table.show_header = False
    for law, n in plan.by_law.items():
        chosen = " (chosen)" if law == wish.law and not wish.parameters else ""
        table.add_row(f"parameters by {law}", f"{count_of(n)}{chosen}")
    counted = parameters(job.model).total
    table.add_row("shape", f"{job.model.layers} layers, {job.model.hidden:,} wide")
    table.add_row("parameters", count_of(counted))
    table.add_row("tp", f"{job.layout.tp} GPUs, of {format_bytes(job.machine.memory)} each")
    rack, racks, sites = job.layout.dp_levels or (1, 1, 1)
    table.add_row(
        "replicas", f"{rack} in a rack x {racks:,} racks of a layer x {sites:,} datacenters"
    )
    table.add_row("GPUs at work", f"{job.layout.gpus:,}")
    return table


def _stages(plan: JobPlan) -> Table:
    from netsim.workloads.cli.workload_tables import duration
    from netsim.workloads.job.paper import stage_seconds

    stages = stage_seconds(plan.job)
    table = plain_table("", "", title="Stages of one layer")
    table.show_header = False
    table.add_row("accounting", plan.target.accounting)
    for name, text in STAGES:
        table.add_row(text, duration(1e12 * getattr(stages, name)))
    table.add_row("S3, to the other datacenter", format_bytes(round(stages.wan_bytes), 4))
    table.add_row("exposed", f"{100 * plan.exposed:.2f} %")
    return table
