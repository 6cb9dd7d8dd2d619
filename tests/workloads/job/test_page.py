"""The page of jobs: its tables are those of the code."""

from dataclasses import replace
from pathlib import Path

from marked import values

from netsim.workloads.cli.workload_validation import sensitivity_table
from netsim.workloads.job import messages
from netsim.workloads.job.load import presets
from netsim.workloads.job.step import step_time
from netsim.workloads.job.validation import errors, groups, rows

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "netsim" / "workloads" / "job" / "README.md").read_text("utf-8")
VALIDATION = (ROOT / "docs" / "training-validation.md").read_text("utf-8")


def test_changed_assumptions_are_what_the_code_gives():
    rows = zip(*(column.cells for column in sensitivity_table().columns), strict=True)
    lines = [f"| {' | '.join(row)} |" for row in rows]
    assert [line for line in lines if line not in VALIDATION] == []


def test_every_preset_is_named():
    for kind in ["jobs", "models", "machines"]:
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
    assert values(VALIDATION) == made
    assert values(PAGE).items() <= made.items()
