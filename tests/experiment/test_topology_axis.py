"""Axes of topologies and faults, kinds of flows, values by part, starts, sizes in BDP."""

from fractions import Fraction
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from engine_runs import TRIM, build, run
from experiment_text import load, text
from raises_input import mentions, raises_input

from netsim.errors import InputError
from netsim.experiment.resolve_fabric import size_values
from netsim.experiment.scenario import prepare
from netsim.reports.flows import class_metrics
from netsim.units import Bdp, parse_port_size

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


def test_an_override_with_labels_keeps_these_tables(tmp_path):
    text = experiment(*(f'label = "{name}"\n{TREE}' for name in ("a", "b", "c")))
    for given, kept in (("b", ["b"]), ('["c", "a"]', ["c", "a"])):
        points = load(tmp_path, text, f"topology={given}").points()
        assert [point.axes["topology"] for point in points] == kept
    with raises_input(file="--set", key="topology", code="unknown_value"):
        load(tmp_path, text, "topology=d").points()


JOB = '''
"""A job of sixteen ranks: all-reduces of pairs, then messages."""

from netsim.workloads.operations import Operations

PARAMS = []


def flows(params, network, rng, context):
    ops = Operations(16)
    pairs = [[2 * k, 2 * k + 1] for k in range(8)]
    reduced = ops.collective("all_reduce", pairs, 100_000, "ring", kind="tp")
    sent, _ = ops.send(range(8), range(8, 16), 50_000, kind="pp")
    ops.after(reduced.reshape(-1)[:8], sent)
    return ops.lower(range(16))
'''
OWN = {"traffic": 'kind = "./job.py"', "flow_classes.up": 'transport = "roce"\nkinds = ["tp"]'}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "job.py").write_text(JOB)
    return tmp_path


def test_flows_of_a_kind_use_their_class(folder: Path) -> None:
    extra = {
        "flow_classes.wan.transport": 'kind = "roce"',
        "flow_classes.wan.traffic": 'kind = "incast"\nfan_in = 3',
    }
    (point,) = load(folder, text(**OWN, **extra)).points()
    scenario = prepare(point)
    flows = scenario.flows
    assert flows.kind is not None
    names = [flows.kinds[k] for k in flows.kind]
    expected = {"tp": 1, "pp": 0, "": 2}
    assert scenario.class_of_flow.tolist() == [expected[name] for name in names]
    assert names.count("tp") == 8 * 4
    assert point.resolved["flow_classes"]["up"]["kinds"] == ["tp"]
    assert "traffic" not in point.resolved["flow_classes"]["up"]
    assert len(point.uses) == len([use for use in point.uses if use is not None])


def test_run_has_metrics_per_flow_class(folder: Path) -> None:
    (point,) = load(folder, text(**OWN)).points()
    scenario = prepare(point)
    engine = run(
        build(
            scenario.network,
            scenario.flows,
            "ndp",
            TRIM,
            beside=[point.classes[0].transport],
            transport_of_flow=scenario.class_of_flow,
            tasks=scenario.load.tasks,
            jit=False,
        )
    )
    done = engine.flow_states().done_ps
    assert (done > 0).all()
    table = {"flow_class": np.where(scenario.class_of_flow == 1, "up", ""), "fct_ps": done}
    table |= dict.fromkeys(("slowdown", "ideal_ps", "retransmits"), done)
    table["size_bytes"] = scenario.flows.size_bytes
    own, up = class_metrics(point, table)["flow_classes"]
    assert (up["flow_class"], up["transport"], up["flows_finished"]) == ("up", "roce", 32)
    assert own["bytes"] == 8 * 50_000


def test_kind_missing_from_the_traffic_is_rejected(folder: Path) -> None:
    sections = {**OWN, "flow_classes.up": 'transport = "roce"\nkinds = ["tq"]'}
    (point,) = load(folder, text(**sections)).points()
    with raises_input("tq", key="flow_classes.up.kinds"):
        prepare(point)
    (point,) = load(folder, text(**{"flow_classes.up": OWN["flow_classes.up"]})).points()
    with raises_input("kind", key="flow_classes.up.kinds"):
        prepare(point)


TEXT = """
seed = 1
transport = "datagram"
[topology]
kind = "fat_tree"
radix = 4
[traffic]
kind = {kind}
"""
INCAST = '"incast"\nfan_in = 7\nsize = "20KB"\n'
JITTER_PS = 50_000


def starts(tmp_path, keys="", kind=INCAST):
    (point,) = load(tmp_path, TEXT.format(kind=kind + keys)).points()
    return prepare(point).flows.start_ps


def test_flows_start_later_by_a_draw_of_their_own(tmp_path):
    assert (starts(tmp_path) == 0).all()
    assert (starts(tmp_path, 'start = "1us"') == 1_000_000).all()
    drawn = starts(tmp_path, 'start = "1us"\nstart_jitter = "50ns"') - 1_000_000
    assert len(set(drawn.tolist())) > 4
    assert drawn.min() >= 0
    assert drawn.max() < JITTER_PS
    again = starts(tmp_path, 'start_jitter = "50ns"')
    assert np.array_equal(again, drawn)


def test_flows_that_wait_for_others_keep_their_delay(tmp_path):
    one_by_one = '"all_to_all"\nsize = "20KB"\none_by_one = true\n'
    drawn = starts(tmp_path, 'start_jitter = "50ns"', one_by_one)
    assert 0 < np.count_nonzero(drawn) <= 8


def test_traffic_of_tasks_refuses_a_jitter(tmp_path):
    ring = '"collective"\nwhat = "all_reduce"\nsize = "64KB"\n'
    with raises_input("start_jitter", key="traffic.start_jitter"):
        starts(tmp_path, 'start_jitter = "50ns"', ring)


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
