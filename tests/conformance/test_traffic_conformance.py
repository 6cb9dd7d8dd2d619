"""Every traffic pattern passes the suite; a broken one fails with the reason."""

from pathlib import Path

from raises_input import mentions, raises_input

from netsim.conformance import CASES, TrafficTestbed, check, failures, templates
from netsim.conformance.networks import star

TEMPLATE = Path(templates.__path__[0], "my_traffic.py")
NAMES = [case.name for case in CASES["traffic"]]
OPEN = {"sizes": "4096B", "load": 0.5, "n_flows": 5000}

PATTERN = """
import numpy as np
from netsim.errors import InputError
from netsim.flows import FlowTable
from netsim.params import Param

PARAMS = [Param("load", "ratio", 0.5, "load"), Param("steps", "count", 1, "steps", minimum=1)]

def flows(params, network, rng, context):
    n = network.n_hosts
    gap_ps = 4160 * 8 * 10**12 / context.host_rate_bps / max(params["load"], 0.01)
    end_ps = context.end_ps or 10**9
    count = max(1, int(end_ps / gap_ps))
    context.reserve(count * n * params["steps"])
    src = np.tile(np.arange(n), count)
    start_ps = np.repeat((np.arange(count) * gap_ps).astype(int), n)
    {change}
    return FlowTable(src, (src + 1) % n, 4096, start_ps)
"""


def test_built_in_patterns_pass() -> None:
    for traffic, params in [
        (TEMPLATE, {}),
        ("poisson", OPEN),
        ("poisson", {**OPEN, "arrival_process": "even", "pattern": "stencil", "shape": "2"}),
        ("pattern", {"steps": 3}),
        ("permutation", {}),
        ("all_to_all", {}),
        ("incast", {"fan_in": 1}),
        ("batch_server", {}),
        ("halving_doubling", {}),
        ("collective", {"algorithm": "ring"}),
        ("pipeline_1f1b", {}),
    ]:
        findings = check(traffic, "traffic", settings=params)
        assert [finding.case for finding in findings] == NAMES
        assert not failures(findings), traffic
        assert (findings[2].status == "pass") == ("load" in params or traffic == TEMPLATE)


def failure_detail(tmp_path: Path, change: str, case: str) -> str:
    """Run one case, which the pattern must fail, and return the reason."""
    path = tmp_path / "mine.py"
    path.write_text(PATTERN.format(change=change))
    (finding,) = check(path, "traffic", cases=[case])
    assert finding.failed, (change, finding)
    return finding.detail


def test_broken_pattern_fails_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(PATTERN.format(change="pass"))
    assert not failures(check(path, "traffic"))
    for change, case, words in [
        ("return None", "flows", "NoneType"),
        ("src[0] = n", "flows", ("source", "does not exist")),
        ("raise InputError('no', key='traffic')", "flows", ("every network is refused", "no")),
        ("src = np.random.permutation(src)", "seed", ("flows.src", "rng")),
        ("params['load'] = 2", "flows", "parameters"),
        ("start_ps *= 2", "load", ("0.25", "0.5")),
        ("start_ps //= 1 + 9 * bool(context.end_ps); start_ps = start_ps[start_ps < 10**8]; "
         "src = src[:start_ps.size]", "measured", "0.5"),
        ("1 // (params['steps'] - 2)", "parameters", ("steps = 2", "ZeroDivision", "line 17")),
        ("if n == 9: raise InputError('nine')", "flows", ("nine", "key")),
        ("np.ones(1 << 28)", "scale", "context.reserve"),
        ("np.ones(10**9 * (params['steps'] > 5))", "parameters", "context.reserve"),
    ]:  # fmt: skip
        assert mentions(failure_detail(tmp_path, change, case), words), change


def test_testbed_returns_flows_and_rejects_unknown_values() -> None:
    testbed = TrafficTestbed.of("pattern", settings={"pattern": "bit_complement"})
    assert testbed.flows(star(4)).dst.tolist() == [3, 2, 1, 0]
    for traffic, params, words in [
        ("patern", {}, "pattern"),
        ("pattern", {"size": "x"}, "traffic.size"),
        ("pattern", {"sise": "1MB"}, "size"),
    ]:
        with raises_input(words):
            TrafficTestbed.of(traffic, settings=params)
