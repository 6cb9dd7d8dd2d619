"""An axis of [[faults]] or [[fabric]] tables: points, labels, overrides and errors."""

from textwrap import dedent

import numpy as np
import pytest
from experiment_text import load
from raises_input import raises_input

from netsim.errors import InputError
from netsim.experiment.scenario import prepare

REST = """
transport = "ndp"
[topology]
kind = "fat_tree"
hosts_per_leaf = 4
leaves = 4
[traffic]
kind = "permutation"
[routing]
convergence_delay = "10us"
"""

NONE = 'label = "none"'
SPINE = """
label = "a spine"
[faults.broken]
node = "spine0"
down = "5us"
up = "20us"
"""
HOST = """
[faults.broken]
links = "h1 - *"
down = "5us"
[faults.worn]
links = "all"
loss_rate = 0.1
"""


def experiment(*tables: str, rest: str = REST) -> str:
    return rest + "".join(f"[[faults]]\n{dedent(table)}\n" for table in tables)


def test_each_faults_table_is_a_point(tmp_path):
    none, spine, host = load(tmp_path, experiment(NONE, SPINE, HOST)).points()
    assert [point.axes for point in (none, spine, host)] == [
        {"faults": "none"},
        {"faults": "a spine"},
        {"faults": "broken, worn"},
    ]
    assert "faults" not in none.resolved
    assert list(spine.resolved["faults"]) == ["broken"]
    assert prepare(none).faults is None
    down = prepare(spine).faults
    assert down is not None
    assert len(down.outages_ps) == 2 * 4
    assert down.routes is not None
    assert len(host.faults) == 2


def test_overrides_apply_to_tables_with_the_section(tmp_path):
    text = experiment(NONE, SPINE, HOST)
    ends = [
        [fault.outages_ps for fault in point.faults.values()]
        for point in load(tmp_path, text, "faults.broken.up=40us").points()
    ]
    assert ends == [[], [((5_000_000, 40_000_000),)], [((5_000_000, 40_000_000),), ()]]
    added = load(tmp_path, text, 'faults.more={links="all", loss_rate=0.5}').points()
    assert [len(point.faults) for point in added] == [1, 2, 3]


def test_faults_none_runs_the_network_without_faults(tmp_path):
    broken = REST + SPINE.replace('label = "a spine"', "")
    (point,) = load(tmp_path, broken, "faults=none").points()
    assert not {"faults", "routing"} & point.resolved.keys()
    assert prepare(point).faults is None
    points = load(
        tmp_path, broken, 'faults=["none", {label="all", x={links="all", loss_rate=0.1}}]'
    )
    assert [len(one.faults) for one in points.points()] == [0, 1]
    # A key that is changed on the same line is meant.
    (point,) = load(tmp_path, broken, "faults=none", "routing.convergence_delay=1us").points()
    with raises_input("routing.convergence_delay", 'faults = "none"'):
        prepare(point)


def test_resize_queues_scales_queues_with_link_rate(tmp_path):
    slow = """
[fabric]
queue_bytes = "1bdp"
[faults.slow]
links = "spine0 -> leaf*"
rate = "25Gbps"
"""
    rest = REST.split("[routing]", maxsplit=1)[0] + slow
    scenario = prepare(load(tmp_path, rest + "resize_queues = true").points()[0])
    network, sizes = scenario.network, scenario.sizes
    assert sizes is not None
    rate = np.array(sizes.rate_bps)[sizes.kind[network.n_host_ports :]]
    of_spine = network.port_node[network.n_host_ports :] == network.n_hosts + 4
    assert (rate == np.where(of_spine, 25 * 10**9, network.port_rate_bps[0])).all()
    small, large = (int(one.queue.params["queue_bytes"]) for one in sizes.fabrics)
    assert small == pytest.approx(large * 25e9 / network.port_rate_bps[0], abs=1)
    for wrong in (rest.replace('rate = "25Gbps"', ""), rest + 'at = "1us"\n'):
        with pytest.raises(InputError, match="resize_queues"):
            load(tmp_path, wrong + "resize_queues = true").points()


def test_each_fabric_table_is_a_point_with_linked_keys(tmp_path):
    tables = """
    [[fabric]]
    label = "small"
    queue_bytes = "8pkt"
    xoff_bytes = "8pkt"
    xon_bytes = "7pkt"
    [[fabric]]
    queue_discipline = "drop_tail"
    queue_bytes = ["9pkt", "10pkt"]
    """
    text = REST.split("[routing]", maxsplit=1)[0] + dedent(tables)
    text = text.replace('"ndp"', '["ndp", "roce"]')
    points = load(tmp_path, text).points()
    named = "queue_discipline=drop_tail, queue_bytes=['9pkt', '10pkt']"
    assert [point.axes["fabric"] for point in points] == ["small", named, named] * 2
    assert [point.axes.get("fabric.queue_bytes") for point in points[:3]] == [None, "9pkt", "10pkt"]
    disciplines = [point.fabric.queue_discipline for point in points]
    assert disciplines == ["trim", *["drop_tail"] * 2, "lossless", *["drop_tail"] * 2]
    marked = load(tmp_path, text, "fabric.ecn={kmin_bytes='1pkt', kmax_bytes='2pkt'}").points()
    assert all(point.fabric.ecn for point in marked)
    for wrong, key in (("fabric=[]", "fabric"), ("fabric=[3]", "fabric"), ("fabric=3", "fabric")):
        with raises_input(key):
            load(tmp_path, text, wrong)
    with raises_input("fabric.xon_bytes", 'fabric "small"'):
        prepare(load(tmp_path, text, "fabric.xon_bytes=1bdp").points()[3])
