"""Models of jobs and deployments against what machines took."""

from __future__ import annotations

from netsim.validation.laws import Measured
from netsim.workloads.inference import validation as served
from netsim.workloads.job import validation as trained

LARGE = (
    "beyond 2,048 prompt tokens in an iteration, on four and eight GPUs: probably memory that the "
    "server allocates again (netsim/workloads/inference/README.md)"
)


def steps(group: str) -> Measured:
    """Predict the step times of one source."""
    for row in trained.rows():
        if row.group == group:
            yield {
                "title": f"{row.name}: step on {row.job.layout.gpus:,} GPUs (row {row.number})",
                "ours": row.seconds,
                "theirs": row.measured_s,
                "source": trained.groups()[group],
                "why": row.why,
            }


def memory() -> Measured:
    """Predict memory, of which the first source has figures."""
    source = next(iter(trained.groups().values()))
    for row in trained.memory_rows():
        title = f"{row.model}: {row.what}"
        yield {"title": title, "ours": row.gib, "theirs": row.published_gib, "source": source}


def iterations(group: str, machine: str) -> Measured:
    """Predict iterations of one source that nothing was fitted to."""
    counted = {"prefill": "prompt tokens", "prefills": "prompts", "decode": "sequences"}
    about = served.groups()[group]
    for row in served.rows():
        if row.group == group and not row.fitted:
            tp = row.deployment.tp
            yield {
                "title": f"{row.model} on {tp} {machine}: {row.size:,} {counted[row.phase]}",
                "ours": row.ms,
                "theirs": row.measured_ms,
                "source": about["title"],
                "why": LARGE if row.large and tp > 2 else about.get("why", ""),
            }


def formulas() -> Measured:
    """Predict iterations of which llm-analysis has formulas."""
    for row in served.formulas():
        yield {"title": f"{row.name}: {row.phase}", "ours": row.ms, "theirs": row.stated_ms}
