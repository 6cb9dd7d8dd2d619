"""Models of jobs and deployments against what machines took."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from netsim.accuracy.cases import Case, Row, Tolerance
from netsim.workloads.accuracy import measured_collectives
from netsim.workloads.inference import validation as served
from netsim.workloads.job import validation as trained

STEPS = Tolerance(0.10, "kernels and overlap are efficiencies; nothing is fitted to these rows")
MEMORY = Tolerance(0.001, "the same accounting; the figures are rounded")
ITERATIONS = Tolerance(0.10, "overheads are fitted to ten times of one deployment")
FORMULAS = Tolerance(0.10, "another model of the same iteration, with other details")

MACHINES = {"h100": "H100", "a100": "A100", "other": "A100, FasterTransformer"}
LARGE = (
    "beyond 2,048 prompt tokens in an iteration, on four and eight GPUs: probably memory that the "
    "server allocates again (netsim/workloads/inference/README.md)"
)

KNOWN = {"llama2_70b on 4 A100: 4 prompts": "450 to 587 ms; one of as many tokens took 403"}


def steps(group: str) -> Iterator[Row]:
    """Compare step times of one source."""
    for row in trained.rows():
        if row.group == group:
            layout = row.job.layout
            name = f"{row.name}: step on {layout.gpus:,} GPUs (row {row.number})"
            source = trained.groups()[group]
            yield Row(name, row.seconds, row.measured_s, "s", STEPS, source, row.why)


def memory() -> Iterator[Row]:
    """Compare memory with the figures of the first source."""
    source = next(iter(trained.groups().values()))
    for row in trained.memory_rows():
        name = f"{row.model}: {row.what}"
        yield Row(name, row.gib, row.published_gib, "GiB", MEMORY, source)


def iterations(group: str) -> Iterator[Row]:
    """Compare iterations of one source that nothing was fitted to."""
    for row in served.rows():
        if row.group == group and not row.fitted:
            what = {"prefill": "prompt tokens", "prefills": "prompts", "decode": "sequences"}
            gpus = f"{row.deployment.tp} {MACHINES[group]}"
            name = f"{row.model} on {gpus}: {row.size:,} {what[row.phase]}"
            about = served.groups()[group]
            why = LARGE if row.large and row.deployment.tp > 2 else about.get("why", "")
            why = KNOWN.get(name, why)
            yield Row(name, row.ms, row.measured_ms, "ms", ITERATIONS, about["title"], why)


def formulas() -> Iterator[Row]:
    """Compare iterations with llm-analysis."""
    for row in served.formulas():
        name = f"{row.name}: {row.phase}"
        yield Row(name, row.ms, row.stated_ms, "ms", FORMULAS, "llm-analysis")


def cases() -> Iterator[Case]:
    yield from measured_collectives.cases()
    for group in trained.groups():
        yield Case(f"steps_{group}", partial(steps, group), 2, quick=group == "megatron")
    yield Case("memory", memory, 1, quick=True)
    for group in served.groups():
        yield Case(f"iterations_{group}", partial(iterations, group), 1)
    yield Case("llm_analysis", formulas, 1)
