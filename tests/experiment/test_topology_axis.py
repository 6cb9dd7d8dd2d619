"""An axis of [[topology]] tables: points, labels, overrides and errors."""

from __future__ import annotations

from textwrap import dedent

import pytest
from experiment_text import load
from raises_input import mentions

from netsim.errors import InputError
from netsim.experiment.scenario import prepare

REST = """
transport = "ndp"
[traffic]
kind = "permutation"
"""


def experiment(*tables: str, rest: str = REST) -> str:
    return rest + "".join(f"[[topology]]\n{dedent(table)}\n" for table in tables)


TREE = 'kind = "fat_tree"\nhosts_per_leaf = 4\nleaves = 4\n'
PLANE_BALANCING = TREE + "planes = 4\n"
DUMBBELL = 'kind = "dumbbell"\nhosts = 4\n'


def labels(tmp_path, *tables: str) -> list[str]:
    return [point.axes["topology"] for point in load(tmp_path, experiment(*tables)).points()]


def test_each_topology_is_a_point_with_its_own_network(tmp_path):
    points = load(tmp_path, experiment(TREE, DUMBBELL + 'label = "two switches"')).points()
    assert [point.name for point in points] == ["topology=fat_tree", "topology=two-switches"]
    assert points[1].axes == {"topology": "two switches"}
    assert "label" not in points[1].resolved["topology"]
    scenarios = [prepare(point) for point in points]
    assert [one.network.n_hosts for one in scenarios] == [16, 8]
    assert [len(one.flows) for one in scenarios] == [16, 8]


def test_tables_of_one_kind_are_labeled_by_their_differences(tmp_path):
    assert labels(tmp_path, TREE, PLANE_BALANCING, DUMBBELL) == [
        "fat_tree",
        "fat_tree planes=4",
        "dumbbell",
    ]
    slow, fast = TREE + 'host_rate = "100Gbps"', TREE + 'host_rate = "800Gbps"'
    assert labels(tmp_path, slow, fast) == [
        "fat_tree host_rate=100Gbps",
        "fat_tree host_rate=800Gbps",
    ]


def test_overrides_set_a_value_in_every_table(tmp_path):
    points = load(tmp_path, experiment(TREE, PLANE_BALANCING), "topology.leaves=2").points()
    assert [point.topology.params["leaves"] for point in points] == [2, 2]


def test_fault_on_the_wrong_topology_is_rejected(tmp_path):
    rest = REST + '[faults.worn]\nlinks = "leaf0 - spine0"\nloss_rate = 0.1\n'
    tree, dumbbell = load(tmp_path, experiment(TREE, DUMBBELL, rest=rest)).points()
    assert prepare(tree).faults is not None
    with pytest.raises(InputError) as caught:
        prepare(dumbbell)
    message = str(caught.value).replace(f"{tmp_path}/", "")
    assert mentions(message, "e.toml", "faults.worn.links", "leaf0", "spine0", "dumbbell")
