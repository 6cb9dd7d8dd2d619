"""Plans that derive a job from a budget: the paper's and others."""

from pathlib import Path

from netsim.workloads.job.paper import paper_job, stage_seconds
from netsim.workloads.job.plan import make_plan

HERE = Path()


def plan(**tree):
    return make_plan(tree, "plan", HERE)


def test_paper_budget_and_size_yield_the_paper_job():
    """The size 95 T was chosen to yield the paper's shape (POST-HOC)."""
    found = plan(plan={"parameters": 95e12})
    paper = paper_job("dense")
    assert found.job.layout == paper.layout
    assert found.job.machine == paper.machine
    assert stage_seconds(found.job) == stage_seconds(paper)
    assert found.site.gpus == 1_677_600


def test_plan_uses_formats_and_domain_of_the_machine():
    found = plan(
        machine="h100_80gb",
        site={"rack_gpus": 8, "rack_usd": 300e3, "rack_flops": "7.9PFLOP/s", "datacenters": 1},
        plan={"parameters": 1e12, "vocabulary": 128_000, "sequence": 8192},
    )
    assert found.job.precision.compute == "bf16"
    assert found.job.machine.domain_gpus == 8
    assert 8 % found.job.layout.tp == 0
    assert 0 < found.exposed < 1
