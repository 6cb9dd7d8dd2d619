"""netsim handles a fixed set of the fuzzer's cases (fuzz/README.md) without a finding."""

import pytest
from fuzz import jobs, workers

COUNTS = {"experiments": 60, "files": 40, "hostile": 25} | {
    "results": 15,
    "runs": 6,
}
"""Cases of each kind, from 0; `python -m fuzz` does more."""


@pytest.mark.parametrize("kind", COUNTS)
def test_fixed_cases_have_no_findings(kind):
    numbers = range(COUNTS[kind])
    job, wall_s = jobs.JOBS[kind].job, jobs.JOBS[kind].wall_s
    done = list(workers.do(job, numbers, workers=1, wall_s=wall_s))
    findings = {one.number: one.findings for one in done if one.findings}
    assert not findings, "\n".join(f"{number}: {found}" for number, found in findings.items())
    assert len(done) == len(numbers)
    assert len({one.verdict for one in done}) > 1  # some were accepted, some rejected


@pytest.mark.parametrize("kind", jobs.JOBS)
def test_case_depends_only_on_its_number(kind):
    show = jobs.JOBS[kind].show
    assert show(3) == show(3)
    assert show(3) != show(4)
