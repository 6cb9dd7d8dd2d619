"""The page of jobs: its tables are those of the code."""

from dataclasses import MISSING, fields, replace
from pathlib import Path

import pytest
from marked import values

import netsim.workloads.job
from netsim.units import format_rate, format_time
from netsim.workloads.cli.workload_tables import (
    memory_table,
    parts_table,
    step_table,
    trace_table,
)
from netsim.workloads.job import messages
from netsim.workloads.job.keys import keys_of
from netsim.workloads.job.layout import Layout, Optimizer, Overlap, Precision
from netsim.workloads.job.load import presets
from netsim.workloads.job.machine import Link, Machine, Unit
from netsim.workloads.job.model import Model
from netsim.workloads.job.paper import Infrastructure
from netsim.workloads.job.plan import Wish
from netsim.workloads.job.step import step_time
from netsim.workloads.job.tables import Efficiency
from netsim.workloads.job.validation import errors, groups, rows

PAGE = (Path(netsim.workloads.job.__file__).parent / "README.md").read_text("utf-8")


def rows_of(wide):
    """A table as lines of the page."""
    lines = [[column.name for column in wide.columns]]
    lines += [list(row) for row in zip(*(column.cells for column in wide.columns), strict=True)]
    return [f"| {' | '.join(line)} |" for line in lines]


@pytest.mark.parametrize("table", ["megatron", "mtnlg", "vtrain", "parts", "trace", "memory"])
def test_the_tables_of_published_figures_are_what_the_code_gives(table):
    made = {"parts": parts_table, "trace": trace_table, "memory": memory_table}.get(table)
    wide = made() if made else step_table(table)
    assert [line for line in rows_of(wide) if line not in PAGE] == []


def default_of(field):
    value = field.default
    if value is MISSING:
        return "must be given"
    if field.name in ("launch", "step_latency", "wan_delay"):
        return f'"{format_time(value)}"'
    if field.name == "wan_rate":
        return f'"{format_rate(value)}"'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, Efficiency):
        return "1"
    if field.name == "rack_flops":
        return f'"{value / 1e15:g}PFLOP/s"'
    if value in (None, ()):
        return "none"
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"


@pytest.mark.parametrize(
    "part",
    [Model, Layout, Precision, Optimizer, Overlap, Machine, Unit, Link, Infrastructure, Wish],
)
def test_every_key_has_its_line(part):
    known = keys_of(part)
    lines = [
        f"| `{one.name}` | {known[one.name].unit} | {default_of(one)} | {known[one.name].doc} |"
        for one in fields(part)
    ]
    assert [line for line in lines if line not in PAGE] == []


@pytest.mark.parametrize("kind", ["jobs", "models", "machines"])
def test_every_preset_is_named(kind):
    assert [name for name in presets(kind) if f"`{name}`" not in PAGE] == []


def test_what_the_text_says_of_rows():
    found = rows()
    part = {}
    for row in (*found[:2], found[7]):
        light = replace(row.job, machine=replace(row.job.machine, memory_rate=None))
        part[row.number] = 1 - step_time(light).total_ps / row.step.total_ps
    made = {f"memory-row-{row}": f"{100 * share:.0f}" for row, share in part.items()}
    for row in found[19:]:
        out = replace(row.job.machine.scale_out, in_network_reduction=False)
        job = replace(row.job, machine=replace(row.job.machine, scale_out=out))
        off = 100 * (step_time(job).total_ps / 1e12 / row.measured_s - 1)
        made[f"rings-{row.number}"] = f"{off:+.0f}"
    gradients = sum(
        one.size_bytes * (30 if one.per == "dense_layer" else 1)
        for one in messages(found[11].job)
        if one.kind == "dp"
    )
    made["gradients"] = f"{gradients / 1000000000.0:.1f}"
    made["counted"] = f"{found[11].step.exposed['dp'] / 1e12:.2f}"
    made["rings"] = f"{2 * 63 / 64 * gradients * 8 / (100e9 * 0.9):.1f}"
    made["missing"] = f"{found[11].measured_s - found[11].seconds:.1f}"
    for row, bubble in ((found[4], 34 / 3), (found[8], 34)):
        each = row.measured_s / (row.job.layout.micro_batches + bubble)
        made[f"row-{row.number}"] = f"{each:.3f}"
    for group in groups():
        average, worst = errors(group)
        made |= {f"{group}-mean": f"{100 * average:.1f}", f"{group}-largest": f"{100 * worst:.1f}"}
    assert values(PAGE) == made
