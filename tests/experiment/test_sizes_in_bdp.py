"""Queue sizes that an experiment gives in bandwidth-delay products (bdp)."""

from __future__ import annotations

from fractions import Fraction

import pytest
from experiment_text import load, text
from raises_input import mentions, raises_input

from netsim.errors import InputError
from netsim.experiment.resolve_fabric import size_values
from netsim.experiment.scenario import prepare
from netsim.units import Bdp, parse_port_size

MIXED = """
kind = "fat_tree"
hosts_per_leaf = 4
leaves = 4
host_rate = "100Gbps"
fabric_rate = "400Gbps"
spines = 1
"""


def point_of(tmp_path, *, transport="ndp", topology=MIXED, **sections):
    content = text(top=f'transport = "{transport}"', topology=topology, **sections)
    (point,) = load(tmp_path, content).points()
    return point


def test_bdp_sizes_stay_unresolved_until_the_network_exists(tmp_path):
    fabric = 'queue_bytes = "1.50bdp"\necn.kmin_bytes = "0.2bdp"'
    point = point_of(tmp_path, fabric=fabric)
    values = size_values(point.fabric)
    assert values["queue_bytes"] == Bdp(Fraction(3, 2))
    assert values["ecn.kmin_bytes"] == values["ecn.kmax_bytes"] == Bdp(Fraction(1, 5))
    assert point.resolved["fabric"]["queue_bytes"] == "1.5bdp"
    assert point.resolved["fabric"]["ecn"]["kmax_bytes"] == "0.2bdp"
    assert point.resolved["fabric"]["header_queue_bytes"] == "8bdp+1MB"


def test_bdp_size_is_resolved_per_port_rate(tmp_path):
    scenario = prepare(point_of(tmp_path, fabric='queue_bytes = "1bdp"'))
    assert scenario.sizes is not None
    assert [one.queue.params["queue_bytes"] for one in scenario.sizes.fabrics] == [110_560, 442_240]


def test_bdp_sizes_are_checked_per_port_rate(tmp_path):
    point = point_of(tmp_path, fabric='queue_bytes = "0.02bdp"')
    with pytest.raises(InputError) as caught:
        prepare(point)
    message = str(caught.value).replace(f"{tmp_path}/", "")
    assert mentions(
        message, "e.toml", "fabric.queue_bytes", "2.212KB", "100Gbps", "8.8448us", "4.16KB"
    )
    point = point_of(tmp_path, fabric='ecn.kmin_bytes = "0.5bdp"\necn.kmax_bytes = "100KB"')
    with raises_input("221.12KB", "400Gbps", key="fabric.ecn.kmin_bytes"):
        prepare(point)


def test_sums_of_products_and_packets_are_read_and_written():
    size = parse_port_size("0.5bdp + 8pkt", 4160)
    assert (size, str(size)) == (Bdp(Fraction(1, 2), 33280), "0.5bdp+33.28KB")
    assert size.at(800 * 10**9, 8_000_000) == 400_000 + 33280
    for wrong in ("1bdp+", "1bdp+1bdp", "1bdp+fast"):
        with pytest.raises(InputError):
            parse_port_size(wrong, 4160)


FOLLOWING = ("ndp", "smartt", "nscc", "rccc", "roce", "dcqcn", "dctcp", "pfabric")


@pytest.mark.parametrize("transport", FOLLOWING)
def test_bare_transports_state_sizes_that_follow_the_rate(tmp_path, transport):
    queues = {}
    for rate in ("10Gbps", "1.6Tbps"):
        topology = f'kind = "fat_tree"\nhosts_per_leaf = 4\nleaves = 4\nhost_rate = "{rate}"'
        point = point_of(tmp_path, transport=transport, topology=topology)
        scenario = prepare(point)
        assert scenario.far == ()
        fabric = scenario.fabric if scenario.sizes is None else scenario.sizes.fabrics[0]
        following = [k for k, v in size_values(point.fabric).items() if isinstance(v, Bdp)]
        queues[rate] = [size_values(fabric)[key] for key in following]
    assert all(b > 3 * a for a, b in zip(queues["10Gbps"], queues["1.6Tbps"], strict=True))
    assert queues["10Gbps"]


@pytest.mark.parametrize(
    ("transport", "fabric", "key"),
    [
        ("ndp:htsim", "", "fabric.queue_bytes = 33.28KB is 0.039 times ndp's"),
        ("dcqcn:paper-40g", "", "fabric.ecn.kmin_bytes = 5KB"),
        ("nscc:100g", "", "fabric.queue_bytes = 120.64KB"),
        ("roce", 'xoff_bytes = "15pkt"\nxon_bytes = "12pkt"', "fabric.xoff_bytes = 62.4KB"),
        ('{kind = "ndp", initial_window = 5}', "", "transport.initial_window = 20.8KB"),
        ("ndp:800g", "", None),
        ("dcqcn:800g", "", None),
        ("roce:800g", "", None),
    ],
)
def test_sizes_for_another_rate_are_named_with_a_remedy(tmp_path, transport, fabric, key):
    topology = 'kind = "fat_tree"\nhosts_per_leaf = 4\nleaves = 4\nhost_rate = "800Gbps"'
    top = f"transport = {transport}" if transport[0] == "{" else f'transport = "{transport}"'
    (point,) = load(tmp_path, text(top=top, topology=topology, fabric=fabric)).points()
    far = prepare(point).far
    if key is None:
        assert far == ()
        return
    assert far[0].startswith(key)
    mentions(far[0], "800Gbps", "8.169us", "; write ")
