"""Small experiments, and a fixture that runs commands on them as plain Python."""

from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result

from netsim.cli import app


def fat_tree(transport: str = "ndp", rate: str = "100Gbps", size: str = "40KB") -> str:
    """Return an experiment in which six hosts send to each other."""
    return f"""
name = "small"
transport = "{transport}"
[topology]
kind = "fat_tree"
hosts_per_leaf = 2
leaves = 3
host_rate = "{rate}"
[traffic]
kind = "permutation"
size = "{size}"
"""


SERVED = """
name = "served"
transport = "ndp"
[topology]
kind = "fat_tree"
hosts_per_leaf = 2
leaves = 2
host_rate = "400Gbps"
[packets]
payload_bytes = "8192B"
[traffic]
kind = "serving"
prefill_instances = 1
decode_instances = 1
arrival_process = "trace"
trace = "trace.csv"
length_distribution = "trace"
slo_ttft = "1ms"
slo_tbt = "100us"
[traffic.deployment]
machine = "h100_80gb"
[traffic.deployment.model]
hidden = 512
feed_forward = 1024
sequence = 512
layers = 4
heads = 4
kv_heads = 1
vocabulary = 1000
[traffic.deployment.options]
tp = 2
"""
"""A prefill and a decode instance of two hosts each; the requests are in trace.csv."""

Netsim = Callable[..., Result]


@pytest.fixture
def netsim(tmp_path, monkeypatch) -> Netsim:
    """Run `netsim …` as plain Python in an empty directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    return lambda *arguments: CliRunner().invoke(app, list(arguments))
