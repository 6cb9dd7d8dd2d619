"""A transport's bare name suits any rate: its last flow is within 5 % of the best preset's."""

from __future__ import annotations

import numpy as np
import pytest
from experiment_text import load

from netsim.plugins import registry
from netsim.running.point import simulate

RATES = ("10Gbps", "100Gbps", "400Gbps", "800Gbps", "1.6Tbps")
NAMES = ("ndp", "smartt", "nscc", "roce", "rccc", "dcqcn", "dctcp", "pfabric", "swift")
PATTERNS = {"permutation": "", "incast": "fan_in = 32"}
SHORT = "500KB"
"""Size of a message whose first window holds it all at 800 Gbps."""

CONTENT = """
name = "bare"
transport = "{transport}"
[topology]
kind = "fat_tree"
hosts_per_leaf = 8
leaves = {leaves}
spines = 8
host_rate = "{rate}"
[traffic]
kind = "{pattern}"
{more}
size = "{size}"
"""


def last_flow_us(tmp_path, transport, rate, pattern, leaves=8, seeds="1..2", size="2MB"):
    """Return the mean over seeds of the last completion time."""
    content = CONTENT.format(
        transport=transport,
        leaves=leaves,
        rate=rate,
        pattern=pattern,
        more=PATTERNS[pattern],
        size=size,
    )
    points = load(tmp_path, content, f"seed={seeds}").points()
    return np.mean([simulate(p, threads=1).flows["fct_ps"].max() for p in points]) / 1e6


def excess(tmp_path, name, rate, pattern, **more):
    """Return how much later the last flow is than with the best preset."""
    presets = registry.find("transport", name).presets
    best = min(last_flow_us(tmp_path, f"{name}:{p}", rate, pattern, **more) for p in presets)
    return last_flow_us(tmp_path, name, rate, pattern, **more) / best - 1


@pytest.mark.parametrize("name", ["ndp", "roce"])
def test_bare_name_at_800g_is_within_5_percent_of_the_best_preset(tmp_path, name):
    assert excess(tmp_path, name, "800Gbps", "permutation", leaves=4, seeds="1") < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_bare_name_is_within_5_percent_of_the_best_preset_at_any_rate(tmp_path, name):
    found = {
        (rate, pattern): excess(tmp_path, name, rate, pattern)
        for rate in RATES
        for pattern in PATTERNS
    }
    found["800Gbps", SHORT] = excess(tmp_path, name, "800Gbps", "incast", size=SHORT)
    assert max(found.values()) < 0.05, {k: f"{v:.1%}" for k, v in found.items() if v >= 0.05}
