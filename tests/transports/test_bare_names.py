"""A transport's bare name suits any rate: its last flow is within 5 % of the best preset's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from experiment_text import load

from netsim.plugins import registry
from netsim.running.point import simulate

RATES = ("10Gbps", "100Gbps", "400Gbps", "800Gbps", "1.6Tbps")
NAMES = [
    plugin.name
    for plugin in registry.all("transport")
    if plugin.presets and plugin.name != "wan_fec"  # its presets are for links that lose packets
]
INCAST = 'kind = "incast"\nfan_in = 32'
LOADS = {
    "permutation": 'kind = "permutation"\nsize = "2MB"',
    "incast": f'{INCAST}\nsize = "2MB"',
    "short incast": f'{INCAST}\nsize = "500KB"',  # a first window at 800 Gbps
}

CONTENT = """
name = "bare"
transport = "{transport}"
[topology]
kind = "fat_tree"
hosts_per_leaf = 8
leaves = {leaves}
host_rate = "{rate}"
[traffic]
{traffic}
"""


def last_flow_us(
    tmp_path: Path, transport: str, rate: str, load_name: str, leaves: int, seeds: str
) -> float:
    """Return the mean over seeds of the last completion time."""
    traffic = LOADS[load_name]
    content = CONTENT.format(transport=transport, leaves=leaves, rate=rate, traffic=traffic)
    points = load(tmp_path, content, f"seed={seeds}").points()
    return float(np.mean([simulate(p, threads=1).flows["fct_ps"].max() for p in points])) / 1e6


def excess(
    tmp_path: Path, name: str, rate: str, load_name: str, leaves: int = 5, seeds: str = "1..4"
) -> float:
    """Return how much later the last flow is than with the best preset."""
    bare, *presets = (
        last_flow_us(tmp_path, transport, rate, load_name, leaves, seeds)
        for transport in (name, *(f"{name}:{p}" for p in registry.find("transport", name).presets))
    )
    return bare / min(presets) - 1


@pytest.mark.parametrize("name", ["ndp", "roce"])
def test_bare_name_at_800g_is_within_5_percent_of_the_best_preset(
    tmp_path: Path, name: str
) -> None:
    assert excess(tmp_path, name, "800Gbps", "permutation", leaves=4, seeds="1") < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("name", NAMES)
def test_bare_name_is_within_5_percent_of_the_best_preset(
    tmp_path: Path, name: str, rate: str
) -> None:
    found = {load_name: excess(tmp_path, name, rate, load_name) for load_name in LOADS}
    assert max(found.values()) < 0.05, found
