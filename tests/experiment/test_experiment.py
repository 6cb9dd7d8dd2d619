"""Experiment files: defaults, sweeps, overrides, the fabric, and the resolved point."""

import json
from pathlib import Path
from textwrap import dedent

import pytest
from experiment_text import TRANSPORT, load, messages, text
from raises_input import mentions, raises_input

from netsim.experiment import Experiment, built_in, locate
from netsim.model.fabric import (
    CircuitRules,
    Ecn,
    Fabric,
    PacketFormat,
    pfc_headroom_bytes,
    queue_spec,
    routing_spec,
)


def test_minimal_file_gets_the_defaults(tmp_path):
    experiment = load(tmp_path, text())
    (point,) = experiment.points()
    assert (experiment.name, experiment.axes, experiment.description) == ("e", {}, "")
    assert (point.index, point.name, point.seed, point.axes) == (0, "e", 1, {})
    assert point.topology.params["host_rate"] == 800 * 10**9
    assert point.transport.name == "ndp"
    assert point.traffic.params["size"] == 2 * 10**6
    assert point.packets == PacketFormat(4096, 64, 64)
    assert point.fabric.queue_discipline == "trim"
    assert point.stop.max_time is None
    assert point.outputs.directory == "results/e"
    assert point.directory == tmp_path


@pytest.mark.parametrize("measured", [False, True])
def test_resolved_point_loads_as_the_same_point(tmp_path, measured):
    content = text(
        "seed = 7",
        transport='kind = "roce"\nrto = "123us"',
        fabric="""
        shared_buffer_bytes = "32MB"
        alpha = 0.25
        ecn.kmin_bytes = "20pkt"
        ecn.pmax = 0.2
        """,
        stop='max_time = "1.25ms"',
        top="",
    )
    if measured:
        content = content.replace("[stop]\nmax_time", "[measure]\nwarmup = '1us'\nwindow")
    (point,) = load(tmp_path, content).points()
    (again,) = load(tmp_path, as_toml(point.resolved)).points()
    assert again.resolved == point.resolved
    for part in ("seed", "packets", "fabric", "stop", "measure", "outputs"):
        assert getattr(again, part) == getattr(point, part)
    for part in ("topology", "transport", "traffic"):
        assert getattr(again, part).params == getattr(point, part).params


def as_toml(resolved: dict) -> str:
    """Return a resolved point as TOML, whose scalars and lists are written as in JSON."""
    top = {key: value for key, value in resolved.items() if not isinstance(value, dict)}
    lines = [f"{key} = {json.dumps(value)}" for key, value in top.items()]
    for section, table in resolved.items():
        if isinstance(table, dict):
            lines.append(f"[{section}]")
            for key, value in table.items():
                nested = value.items() if isinstance(value, dict) else ()
                lines += [f"{key}.{name} = {json.dumps(inner)}" for name, inner in nested]
                if not nested:
                    lines.append(f"{key} = {json.dumps(value)}")
    return "\n".join(lines)


# --- sweeps ---------------------------------------------------------------------------------------


def test_axes_multiply_in_file_order_with_seed_innermost(tmp_path):
    content = text(
        'seed = "1..2"',
        top='transport = ["roce", "ndp"]',
        traffic='kind = "permutation"\nload = [0.5, 1.0]',
    )
    experiment = load(tmp_path, content)
    assert experiment.axes == {
        "transport": ("roce", "ndp"),
        "traffic.load": (0.5, 1.0),
        "seed": (1, 2),
    }
    points = experiment.points()
    assert [point.index for point in points] == list(range(8))
    assert [tuple(point.axes.values()) for point in points] == [
        (transport, load, seed)
        for transport in ("roce", "ndp")
        for load in (0.5, 1.0)
        for seed in (1, 2)
    ]
    assert points[5].name == "transport=ndp,load=0.5,seed=2"
    assert points[5].seed == 2
    assert points[5].transport.plugin.name == "ndp"
    assert points[5].traffic.params["load"] == 0.5
    assert (points[0].fabric.queue_discipline, points[5].fabric.queue_discipline) == (
        "lossless",
        "trim",
    )


def test_listed_transports_have_their_own_parameters(tmp_path):
    content = text(top="") + dedent(
        """
        [[transport]]
        kind = "roce"
        rto = ["1ms", "2ms"]
        [[transport]]
        kind = "ndp"
        initial_window = "3..4"
        """
    )
    points = load(tmp_path, content).points()
    assert [point.name for point in points] == [
        "transport=roce,rto=1ms",
        "transport=roce,rto=2ms",
        "transport=ndp,initial_window=3",
        "transport=ndp,initial_window=4",
    ]
    assert points[1].transport.params["rto"] == 2 * 10**9
    assert points[3].transport.params["initial_window"] == 4


def test_fabric_and_packet_keys_can_be_axes(tmp_path):
    content = text(
        packets='payload_bytes = ["1KiB", "4KiB"]',
        fabric='queue_bytes = ["8pkt", "64KB"]\necn.kmin_bytes = ["2pkt", "4pkt"]',
    )
    points = load(tmp_path, content).points()
    assert len(points) == 8
    assert points[0].fabric.queue.params["queue_bytes"] == 8 * (1024 + 64)
    assert points[7].fabric.queue.params["queue_bytes"] == 64_000
    assert points[7].fabric.ecn == Ecn(4 * 4160, 4 * 4160)
    assert list(points[0].axes) == [
        "packets.payload_bytes",
        "fabric.queue_bytes",
        "fabric.ecn.kmin_bytes",
    ]


def test_override_may_disable_file_keys_but_needs_an_effect(tmp_path):
    content = text(top='transport = ["ndp", "roce"]', fabric='xoff_bytes = "20pkt"')
    assert len(load(tmp_path, content, "transport=ndp").points()) == 1
    assert mentions(
        messages(tmp_path, text(), "fabric.xoff_bytes=20pkt"),
        "--set",
        "fabric.xoff_bytes",
        "queue_discipline",
        "trim",
        "lossless",
    )


# --- overrides ------------------------------------------------------------------------------------


def test_overrides_set_values_and_axes(tmp_path):
    overrides = [
        "seed=1..3",
        "transport=roce",
        "transport.rto=2ms",
        "topology.host_rate=100Gbps",
        "traffic.load=[0.5, 1.0]",
        "fabric.ecn.kmin_bytes=5pkt",
        'outputs.directory="a b"',
        "name=other",
    ]
    experiment = load(tmp_path, text(), *overrides)
    assert list(experiment.axes) == ["traffic.load", "seed"]
    assert experiment.name == "other"
    point = experiment.points()[0]
    assert point.transport.name == "roce"
    assert point.transport.params["rto"] == 2 * 10**9
    assert point.topology.params["host_rate"] == 10**11
    assert point.fabric.ecn == Ecn(5 * 4160, 5 * 4160)
    assert point.outputs.directory == "a b"
    words = load(tmp_path, text(), "transport=[ndp, roce]", 'fabric.queue_bytes=[1MB,"2 MB"]')
    assert dict(words.axes) == {"transport": ("ndp", "roce"), "fabric.queue_bytes": ("1MB", "2 MB")}


OWN = '''"""One flow."""
from netsim.model.flows import FlowTable
from netsim.params import Param

PARAMS = [Param("file", "file", None, "any")]

def flows(params, network, rng, context):
    return FlowTable([0], [1], 1000)
'''


def test_resolved_override_paths_load_from_any_directory(tmp_path, monkeypatch):
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    (point,) = Experiment.load(locate("p2p_512"), ["traffic=./own.py", "transport=ndp"]).points()
    monkeypatch.chdir("/")
    again = Experiment.from_tree(point.resolved, "experiment.json", point.directory)
    (second,) = again.points()
    assert second.traffic.plugin.path == tmp_path / "own.py"
    assert second.resolved == point.resolved


# --- the fabric -----------------------------------------------------------------------------------


def test_experiment_overrides_single_keys_of_the_transports_fabric(tmp_path):
    (point,) = load(tmp_path, text(fabric='routing = "ecmp"')).points()
    default = load(tmp_path, text()).points()[0].fabric
    assert point.fabric == Fabric(**{**vars(default), "routing": routing_spec("ecmp")})
    assert default.routing.name != "ecmp"


def test_automatic_headroom_fits_the_longest_cable(tmp_path):
    content = text(
        top='transport = "roce"',
        topology="""
        kind = "fat_tree"
        hosts_per_leaf = 4
        leaves = 2
        host_rate = "800Gbps"
        host_link_latency = "10ns"
        link_latency = "1us"
        switch_latency = "500ns"
        """,
    )
    (point,) = load(tmp_path, content).points()
    assert point.resolved["fabric"]["headroom_bytes"] == "auto"
    network = point.topology.module.build(point.topology.params)
    fabric = point.fabric.for_network(network, point.packets)
    assert (
        fabric.queue.params["headroom_bytes"] == 300_000 + 3 * 4160 + 64
    )  # 3 us round trip at 800 Gbps
    assert fabric.for_network(network, point.packets) == fabric
    (point,) = load(tmp_path, content, "fabric.headroom_bytes=5KB").points()
    assert point.fabric.queue.params["headroom_bytes"] == 5000


def test_headroom_of_very_long_cables_does_not_overflow():
    assert pfc_headroom_bytes(800 * 10**9, 60 * 10**9, PacketFormat()) > 6 * 10**9


# --- files and built-in experiments ---------------------------------------------------------------


def test_built_in_experiments_are_valid():
    for name in sorted(built_in()):
        experiment = Experiment.load(locate(name))
        assert (experiment.name, experiment.description != "") == (name, True)
        assert experiment.points()


def test_documented_file_has_the_default_values(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "experiment-file.md").read_text()
    documented = page.split("```toml\n")[1].split("```")[0]
    (point,) = load(tmp_path, documented).points()
    bare = text('name = "mine"\ndescription = "one line"', top='transport = "datagram"')
    (plain,) = load(tmp_path, bare, "topology.hosts_per_leaf=8", "topology.leaves=16").points()
    assert point.resolved == plain.resolved
    (tmp_path / "mine.py").write_text(TRANSPORT)
    own = documented.replace('"datagram"', '"mine.py"')
    ecn = '[fabric.ecn]\nkmin_bytes = "20pkt"\nkmax_bytes = "80pkt"\n'
    everything = own + ecn + '[fabric.circuits]\nguard = "0ps"\n'
    for model, n_traffic_classes in (("drop_tail", 1), ("lossless", 1), ("trim", 2)):
        changes = [
            f"fabric.queue_discipline={model}",
            f"fabric.n_traffic_classes={n_traffic_classes}",
        ]
        (point,) = load(tmp_path, everything, *changes).points()
        assert point.fabric == Fabric(
            queue_spec(model),
            n_traffic_classes=n_traffic_classes,
            ecn=Ecn(20 * 4160, 80 * 4160),
            circuits=CircuitRules(),
        )


def test_locate_finds_local_and_built_in_experiments(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = next(iter(built_in()))
    (tmp_path / "own.toml").write_text("")
    assert locate("own.toml") == Path("own.toml")
    in_group = f"{built_in()[name].parent.name}/{name}.toml"
    for written in (name, f"{name}.toml", f"experiments/{name}.toml", in_group):
        assert locate(written) == built_in()[name]
    with raises_input(name):
        locate(f"elsewhere/{name}")
    with raises_input("directory"):
        locate(".")


def test_transport_preset_sets_its_fabric(tmp_path):
    (tmp_path / "mine.py").write_text(
        TRANSPORT + 'PRESETS = {"fast": {}}\n'
        'FABRIC = {"queue_bytes": "10pkt", "ecn": {"kmin_bytes": "1pkt", "kmax_bytes": "9pkt"}}\n'
        'PRESET_FABRIC = {"fast": {"queue_bytes": "70pkt", "ecn": {"kmax_bytes": "50pkt"}}}\n'
    )
    for preset, queue, kmax in (("", 10, 9), (":fast", 70, 50)):
        content = text(top=f'transport = "./mine.py{preset}"')
        (point,) = load(tmp_path, content).points()
        assert point.fabric.queue.params["queue_bytes"] == queue * 4160
        assert (point.fabric.ecn.kmin_bytes, point.fabric.ecn.kmax_bytes) == (4160, kmax * 4160)
    (point,) = load(tmp_path, content, "fabric.queue_bytes=20pkt").points()
    assert point.fabric.queue.params["queue_bytes"] == 20 * 4160
