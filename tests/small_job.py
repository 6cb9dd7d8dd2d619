"""A small training job with round times, on a fully specified machine."""

from typing import Any

from netsim.workloads.job.job import Job
from netsim.workloads.job.load import load_job

MACHINE: dict[str, Any] = {
    "memory": "100GB",
    "matrix": {"peak": {"bf16": "100TFLOP/s"}},
    "scale_up": {"rate": "800Gbps"},
    "scale_out": {"rate": "100Gbps"},
    "domain_gpus": 8,
}


def small_job(
    layout: dict[str, Any] | None = None,
    overlap: dict[str, Any] | None = None,
    machine: dict[str, Any] | None = None,
    **model: Any,
) -> Job:
    """Return a job with layers of 256 x 256 and 128-token sequences; arguments override keys."""
    sizes = {"layers": 8, "hidden": 256, "heads": 8, "sequence": 128, "vocabulary": 1024}
    return load_job(
        {
            "name": "small",
            "model": {**sizes, **model},
            "machine": {**MACHINE, **(machine or {})},
            "layout": {"global_batch": 8, **(layout or {})},
            "overlap": overlap or {},
        }
    )
