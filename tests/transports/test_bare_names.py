"""A transport's bare name suits any rate: its last flow is within 5 % of the best preset's."""

from pathlib import Path

import numpy as np
import pytest
from experiment_text import load

from netsim.plugins import registry
from netsim.running.point import simulate
from netsim.units import parse_port_size

RATES = ("10Gbps", "100Gbps", "400Gbps", "800Gbps", "1.6Tbps")
NAMES = [
    plugin.name
    for plugin in registry.plugins("transport")
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
    """Return how much later the last flow is than with the best preset for the same routing."""
    plugin = registry.find("transport", name)
    fabrics = getattr(plugin.module, "PRESET_FABRIC", {})
    same = [p for p in plugin.presets if "routing" not in fabrics.get(p, {})]
    bare, *presets = (
        last_flow_us(tmp_path, transport, rate, load_name, leaves, seeds)
        for transport in (name, *(f"{name}:{p}" for p in same))
    )
    return bare / min(presets) - 1


@pytest.mark.parametrize(
    ("name", "key", "packet_bytes", "n_senders"),
    [("ndp", "header_queue_bytes", 64, 300), ("homa", "queue_bytes", 4160, 133)],
)
def test_queue_holds_the_first_windows_of_an_incast(
    name: str, key: str, packet_bytes: int, n_senders: int
) -> None:
    """With a shorter queue, 127 senders at 800 Gbps lost 13,025 headers and waited for timeouts."""
    size = parse_port_size(registry.find("transport", name).module.FABRIC[key], packet_bytes)
    for gbps in (10, 100, 400, 800, 1600):
        window_packets = 1.5 * gbps * 1000 * 8.1 / 8 / 4160
        assert size.at(gbps * 10**9, 8_100_000) > n_senders * window_packets * packet_bytes


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
