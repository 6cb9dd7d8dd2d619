"""Experiment files: what is refused and how, sweeps, overrides, and the resolved point."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsim.errors import InputError
from netsim.experiment import Experiment, built_in, locate
from netsim.fabric import Ecn, Fabric, PacketFormat, pfc_headroom_bytes

GOOD = {
    "top": 'transport = "ndp"',
    "topology": 'kind = "fat_tree"\nhosts_per_leaf = 4\nleaves = 4',
    "traffic": 'kind = "permutation"',
}


def text(extra: str = "", /, **sections: str) -> str:
    """A small valid experiment, with lines added to its sections or whole sections replaced."""
    parts = {**GOOD, **sections}
    lines = [parts.pop("top"), dedent(extra)]
    for name, body in parts.items():
        lines += [f"[{name}]", dedent(body)]
    return "\n".join(lines)


def load(tmp_path: Path, content: str, *overrides: str) -> Experiment:
    path = tmp_path / "e.toml"
    path.write_text(content)
    return Experiment.load(path, overrides)


def messages(tmp_path: Path, content: str, *overrides: str) -> list[str]:
    """The lines of the error that loading gives, without the directory of the file."""
    with pytest.raises(InputError) as caught:
        load(tmp_path, content, *overrides)
    return [line.replace(f"{tmp_path}/", "") for line in str(caught.value).splitlines()]


def test_a_minimal_file_is_complete(tmp_path):
    experiment = load(tmp_path, text())
    (point,) = experiment.points()
    assert (experiment.name, experiment.axes, experiment.description) == ("e", {}, "")
    assert (point.index, point.name, point.seed, point.axes) == (0, "e", 1, {})
    assert point.topology.params["host_rate"] == 800 * 10**9
    assert point.transport.name == "ndp"
    assert point.traffic.params["size"] == 2 * 10**6
    assert point.packets == PacketFormat(4096, 64, 64)
    assert point.fabric.model == "trim"
    assert point.stop.time_ps is None
    assert point.outputs.directory == "results/e"
    assert point.directory == tmp_path


def test_the_resolved_point_is_an_experiment_that_gives_itself(tmp_path):
    content = text(
        "seed = 7",
        transport='kind = "roce"\nrto = "123us"',
        fabric="""
        shared_buffer_bytes = "32MB"
        alpha = 0.25
        ecn.kmin_bytes = "20pkt"
        ecn.pmax = 0.2
        """,
        stop='time = "1.25ms"',
        top="",
    )
    (point,) = load(tmp_path, content).points()
    (again,) = load(tmp_path, as_toml(point.resolved)).points()
    assert again.resolved == point.resolved
    for part in ("seed", "packets", "fabric", "stop", "outputs"):
        assert getattr(again, part) == getattr(point, part)
    for part in ("topology", "transport", "traffic"):
        assert getattr(again, part).params == getattr(point, part).params


def as_toml(resolved: dict) -> str:
    """A resolved point as TOML: JSON's scalars and lists are TOML's."""
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


BAD = {
    "syntax": (
        "seed = = 3",
        ["e.toml: is not valid TOML: Invalid value (at line 1, column 8)"],
    ),
    "empty": (
        "",
        [
            'e.toml: topology: missing (such as [topology] with kind = "fat_tree")',
            'e.toml: transport: missing (such as transport = "ndp")',
            'e.toml: traffic: missing (such as [traffic] with kind = "permutation")',
        ],
    ),
    "unknown key": (text("sede = 3"), ['e.toml: sede: unknown key (did you mean "seed"?)']),
    "unknown section": (
        text(fabrik=""),
        ['e.toml: fabrik: unknown key (did you mean "fabric"?)'],
    ),
    "section is no table": (
        text("packets = 4"),
        ["e.toml: packets: 4 is not a table ([packets] and its keys below it)"],
    ),
    "name": (
        text('name = "a/b"'),
        [
            'e.toml: name: "a/b" cannot name an experiment (letters, digits and . _ + - in quotes)',
        ],
    ),
    "names cannot be swept": (
        text('name = ["a", "b"]'),
        [
            'e.toml: name: ["a", "b"] cannot name an experiment '
            "(letters, digits and . _ + - in quotes)",
        ],
    ),
    "seed": (
        text("seed = 1.5"),
        ['e.toml: seed: 1.5 is not a seed (a whole number, a list of them, or "1..10")'],
    ),
    "seed range": (
        text("seed = [-1, 4294967296]"),
        [
            "e.toml: seed: -1 is out of range (0 to 4294967295)",
            "e.toml: seed: 4294967296 is out of range (0 to 4294967295)",
        ],
    ),
    "seed below a table": (
        text(traffic='kind = "permutation"\nseed = 3'),
        ["e.toml: traffic.seed: unknown parameter (write seed above the first [table])"],
    ),
    "empty range": (text('seed = "3..1"'), ['e.toml: seed: "3..1" is empty (write "1..3")']),
    "empty axis": (
        text(traffic='kind = "permutation"\nload = []'),
        ["e.toml: traffic.load: an empty list (an axis needs a value)"],
    ),
    "repeated value": (
        text(traffic='kind = "permutation"\nload = [0.5, 1.0, 0.5]'),
        ["e.toml: traffic.load: 0.5 stands twice (each value once)"],
    ),
    "too many points": (
        text('seed = "1..90000"', traffic='kind = "permutation"\nload = [0.5, 1.0]'),
        ["e.toml: the axes make 180000 points (at most 100000)"],
    ),
    "unknown transport": (
        text(top='transport = ["ndp", "rocee"]'),
        ['e.toml: transport: unknown transport "rocee" (did you mean "roce"?)'],
    ),
    "unknown preset": (
        text(top='transport = "ndp:fast"'),
        ['e.toml: transport: unknown preset "fast" (there are none)'],
    ),
    "transport is a number": (
        text(top="transport = 3"),
        ["e.toml: transport: 3 is neither a name nor a table"],
    ),
    "no kind": (
        text(topology="leaves = 4"),
        ["e.toml: topology.kind: missing (there are: {topologies})"],
    ),
    "kind is a number": (
        text(topology="kind = 4"),
        ["e.toml: topology.kind: 4 is not a name ({topologies})"],
    ),
    "parameters": (
        text(
            topology='kind = "fat_tree"\nhosts_per_leaf = 4.0\nleave = 4\nhost_rate = "0Gbps"',
            traffic='kind = "permutation"\nsize = 2000\nload = [0.5, 1.5]',
        ),
        [
            'e.toml: topology.leave: unknown parameter (did you mean "leaves"?)',
            "e.toml: topology.hosts_per_leaf: 4.0 is not a whole number (write it like 15)",
            'e.toml: topology.host_rate: a rate of zero carries nothing (write it like "800Gbps")',
            'e.toml: traffic.size: 2000 has no unit (write it like "64KB")',
            "e.toml: traffic.load: 1.5 is not a fraction (between 0 and 1)",
        ],
    ),
    "missing parameter": (
        text(traffic='kind = "incast"'),
        ["e.toml: traffic.fan_in: missing (senders for each receiver, such as fan_in = 8)"],
    ),
    "packets": (
        text(packets='payload_bytes = "0B"\nheader_bytes = 64\ncontrol = "64B"'),
        [
            'e.toml: packets.payload_bytes: "0B" is too small (at least 1B)',
            'e.toml: packets.header_bytes: 64 has no unit (write it like "64KB")',
            'e.toml: packets.control: unknown key (did you mean "control_bytes"?)',
        ],
    ),
    "fabric": (
        text(
            fabric="""
            model = "trimm"
            load_balancing = ["ecmp", "spry_rr"]
            n_classes = 9
            queue_bytes = 35
            ecn.kmin = "5pkt"
            ecn.at = "arrival"
            """
        ),
        [
            'e.toml: fabric.model: "trimm" is not a choice (did you mean "trim"?)',
            "e.toml: fabric.n_classes: 9 is too large (at most 8)",
            'e.toml: fabric.queue_bytes: 35 has no unit (write it like "64KB" or "35pkt")',
            'e.toml: fabric.ecn.kmin_bytes: missing (such as kmin_bytes = "64KB")',
            'e.toml: fabric.ecn.at: "arrival" is not a choice (there are: enqueue, dequeue)',
            'e.toml: fabric.ecn.kmin: unknown key (did you mean "kmin_bytes"?)',
            'e.toml: fabric.load_balancing: "spry_rr" is not a choice (did you mean "spray_rr"?)',
        ],
    ),
    "ecn is no table": (
        text(fabric='ecn = "yes"'),
        ['e.toml: fabric.ecn: "yes" is not a table ([fabric.ecn] and its keys below it)'],
    ),
    "kmin above kmax": (
        text(fabric='ecn.kmin_bytes = "20pkt"\necn.kmax_bytes = "10pkt"'),
        ["e.toml: fabric.ecn.kmin_bytes: 83.2KB is more than kmax (at most kmax_bytes, 41.6KB)"],
    ),
    "xon above xoff": (
        text(top='transport = "roce"', fabric='xoff_bytes = "10pkt"'),
        ["e.toml: fabric.xon_bytes: 49.92KB is more than XOFF (at most xoff_bytes, 41.6KB)"],
    ),
    "xon of zero": (
        text(top='transport = "roce"', fabric='xon_bytes = "0pkt"'),
        ["e.toml: fabric.xon_bytes: a pause would never end (at least one byte)"],
    ),
    "trim with three classes": (
        text(fabric="n_classes = 3\necn_from_class = 3\necn.kmin_bytes = '1pkt'"),
        [
            'e.toml: fabric.n_classes: 3 with model "trim" (headers and data: exactly 2)',
            "e.toml: fabric.ecn_from_class: there is no class 3 (classes are numbered 0 to 2)",
        ],
    ),
    "queues too small": (
        text(fabric='queue_bytes = "4KB"\nheader_queue_bytes = "63B"'),
        [
            "e.toml: fabric.queue_bytes: 4KB does not hold one packet (at least 4.16KB)",
            "e.toml: fabric.header_queue_bytes: 63B does not hold one packet (at least 64B)",
        ],
    ),
    "header larger than a packet": (
        text(packets='header_bytes = "40B"'),
        [
            "e.toml: packets.control_bytes: a trimmed header of 64B is larger than a packet "
            "of one byte, 41B (at most header_bytes + 1B)",
        ],
    ),
    "too few classes for the transport": (
        text(fabric='model = "drop_tail"\nn_classes = 1'),
        ["e.toml: fabric.n_classes: 1 traffic class(es) for ndp (at least 2)"],
    ),
    "no such class": (
        text(transport='kind = "roce"\ndata_class = 1', top=""),
        [
            "e.toml: transport.data_class: there is no class 1 (fabric.n_classes is 1, so 0 to 0)",
        ],
    ),
    "keys without effect": (
        text(fabric='xoff_bytes = "5pkt"\nalpha = 0.5\necn_from_class = 1'),
        [
            'e.toml: fabric.xoff_bytes: has no effect with model "trim" (it belongs to "lossless")',
            'e.toml: fabric.alpha: has no effect with model "trim" (it belongs to "lossless")',
            "e.toml: fabric.ecn_from_class: has no effect without ECN "
            "(remove it, or add [fabric.ecn])",
        ],
    ),
    "keys without effect, lossless": (
        text(top='transport = "roce"', fabric="alpha = 0.5\nqueue_bytes = '5pkt'"),
        [
            "e.toml: fabric.alpha: has no effect without a shared buffer "
            "(remove it, or set shared_buffer_bytes)",
            'e.toml: fabric.queue_bytes: has no effect with model "lossless" '
            '(it belongs to "drop_tail" and "trim")',
        ],
    ),
    "stop and outputs": (
        text(stop='time = 10\ndrain = "no"', outputs='link = true\ndirectory = ["a", "b"]'),
        [
            'e.toml: stop.time: 10 has no unit (write it like "1.5us")',
            'e.toml: stop.drain: "no" is neither true nor false (without quotes)',
            'e.toml: outputs.directory: ["a", "b"] is not text (write it in quotes, like "name")',
            'e.toml: outputs.link: unknown key (did you mean "links"?)',
        ],
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files(tmp_path, name):
    from netsim import registry

    content, expected = BAD[name]
    topologies = ", ".join(registry.names("topology"))
    assert messages(tmp_path, content) == [
        line.replace("{topologies}", topologies) for line in expected
    ]


def test_unreadable_files(tmp_path):
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    for name, reason in [
        ("no.toml", "cannot be read: No such file or directory"),
        (".", "cannot be read: Is a directory"),
        ("latin.toml", "is not UTF-8 text"),
    ]:
        with pytest.raises(InputError) as caught:
            Experiment.load(tmp_path / name)
        assert str(caught.value) == f"{tmp_path / name}: {reason}"


def test_a_transports_own_fabric_is_checked_and_blamed(tmp_path):
    transport = tmp_path / "mine.py"
    transport.write_text('"""Mine."""\nPARAMS = []\nFABRIC = {"model": "trim", "n_class": 2}\n')
    assert messages(tmp_path, text(top='transport = "mine.py"')) == [
        'mine.py: FABRIC.n_class: unknown key (did you mean "n_classes"?)'
    ]


# --- sweeps ---------------------------------------------------------------------------------------


def test_axes_multiply_in_the_order_of_the_file_and_the_seed_is_innermost(tmp_path):
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
    assert (points[0].fabric.model, points[5].fabric.model) == ("lossless", "trim")


def test_transports_with_parameters_of_their_own(tmp_path):
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


def test_one_transport_with_several_settings(tmp_path):
    content = text(top='transport = [{kind = "roce"}, {kind = "roce", rto = "1ms", ack_every = 4}]')
    assert [point.axes["transport"] for point in load(tmp_path, content).points()] == [
        "roce",
        "roce rto=1ms ack_every=4",
    ]


def test_fabric_and_packets_are_axes_too(tmp_path):
    content = text(
        packets='payload_bytes = ["1KiB", "4KiB"]',
        fabric='queue_bytes = ["8pkt", "64KB"]\necn.kmin_bytes = ["2pkt", "4pkt"]',
    )
    points = load(tmp_path, content).points()
    assert len(points) == 8
    assert points[0].fabric.queue_bytes == 8 * (1024 + 64)
    assert points[7].fabric.queue_bytes == 64_000
    assert points[7].fabric.ecn == Ecn(4 * 4160, 4 * 4160)
    assert list(points[0].axes) == [
        "packets.payload_bytes",
        "fabric.queue_bytes",
        "fabric.ecn.kmin_bytes",
    ]


def test_a_distribution_of_sizes_is_one_value(tmp_path):
    one = '[["1KB", 0.5], ["1MB", 1.0]]'
    poisson = 'kind = "poisson"\nload = 0.5\nduration = "1ms"\nsizes = '
    assert len(load(tmp_path, text(traffic=poisson + one)).points()) == 1
    points = load(tmp_path, text(traffic=f'{poisson}["2MB", "web_search", {one}]')).points()
    assert [point.traffic.params["sizes"] for point in points] == [
        ((2_000_000, 1.0),),
        "web_search",
        ((1000, 0.5), (1_000_000, 1.0)),
    ]


def test_a_fabric_key_must_matter_to_some_point_only(tmp_path):
    content = text(top='transport = ["ndp", "roce"]', fabric='xoff_bytes = "20pkt"')
    ndp, roce = load(tmp_path, content).points()
    assert roce.fabric.xoff_bytes == 20 * 4160
    assert "xoff_bytes" not in ndp.resolved["fabric"]


def test_an_override_may_leave_keys_of_the_file_without_effect_but_not_its_own(tmp_path):
    content = text(top='transport = ["ndp", "roce"]', fabric='xoff_bytes = "20pkt"')
    assert len(load(tmp_path, content, "transport=ndp").points()) == 1
    assert messages(tmp_path, text(), "fabric.xoff_bytes=20pkt") == [
        '--set: fabric.xoff_bytes: has no effect with model "trim" (it belongs to "lossless")'
    ]


# --- overrides ------------------------------------------------------------------------------------


def test_overrides(tmp_path):
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


def test_an_override_reaches_every_transport_of_a_list(tmp_path):
    content = text(top='transport = ["ndp", "roce"]')
    points = load(tmp_path, content, "transport.rto=3us").points()
    assert [point.transport.params["rto"] for point in points] == [3 * 10**6] * 2
    assert [point.axes["transport"] for point in points] == ["ndp", "roce"]


def test_errors_of_overrides_name_them(tmp_path):
    content = text(stop="time = 3")
    assert messages(tmp_path, content, "traffic.size=5", "topology.leaf=1") == [
        '--set: topology.leaf: unknown parameter (did you mean "leaves"?)',
        '--set: traffic.size: 5 has no unit (write it like "64KB")',
        'e.toml: stop.time: 3 has no unit (write it like "1.5us")',
    ]
    assert messages(tmp_path, content, "seed", "=3", "seed.x=1", "traffic.load.x=1") == [
        '--set: "seed" is not path=value (such as seed=3)',
        '--set: "=3" is not path=value (such as seed=3)',
    ]
    assert messages(tmp_path, text("seed = 3"), "seed.x=1") == [
        "--set: seed: is not a table, so nothing can be set in it"
    ]


PATHS = st.sampled_from(
    [
        *("name", "description", "seed", "topology", "transport", "traffic", "packets", "fabric"),
        *("stop", "outputs", "nothing", "topology.kind", "topology.leaves", "topology.host_rate"),
        *("transport.kind", "transport.rto", "transport.initial_window", "traffic.kind"),
        *("traffic.size", "traffic.load", "traffic.sizes", "packets.payload_bytes", "fabric.model"),
        *("fabric.n_classes", "fabric.queue_bytes", "fabric.ecn", "fabric.ecn.kmin_bytes"),
        *("fabric.alpha", "stop.time", "outputs.links", "outputs.directory", "a.b.c"),
    ]
)
SCALARS = st.one_of(
    st.sampled_from(["ndp", "ndp:x", "no.py", "./", "fat_tree", "poisson", "lossless", "1us"]),
    st.sampled_from(["3pkt", "64KB", "1..3", "3..1", "none", "", ":", "..", "100Gbps"]),
    st.integers(-2, 2**65),
    st.floats(),
    st.booleans(),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["kind", "rto", "load", "x"]), inner, max_size=2),
    ),
    max_leaves=5,
)


def toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return repr(value) if isinstance(value, float) else json.dumps(value)


@given(st.lists(st.tuples(PATHS, VALUES), min_size=1, max_size=4))
def test_whatever_is_written_is_a_point_or_an_input_error(tmp_path_factory, changes):
    overrides = [f"{path}={toml(value)}" for path, value in changes]
    try:
        experiment = load(tmp_path_factory.getbasetemp(), text(), *overrides)
    except InputError as error:
        for single in error.errors:
            assert single.file
            assert "\n" not in str(single)
        return
    for point in experiment.points():
        json.dumps(point.resolved)


# --- the fabric -----------------------------------------------------------------------------------


def test_the_experiment_overrides_the_transports_fabric_key_by_key(tmp_path):
    (point,) = load(tmp_path, text(fabric='load_balancing = "ecmp"')).points()
    default = load(tmp_path, text()).points()[0].fabric
    assert point.fabric == Fabric(**{**vars(default), "load_balancing": "ecmp"})
    assert default.load_balancing != "ecmp"


def test_without_any_word_on_the_fabric(tmp_path):
    (tmp_path / "mine.py").write_text('"""Mine."""\nPARAMS = []\n')
    (point,) = load(tmp_path, text(top='transport = "mine.py"')).points()
    assert point.fabric == Fabric()
    (point,) = load(tmp_path, text(top='transport = "mine.py"'), "fabric.model=trim").points()
    assert (point.fabric.n_classes, point.fabric.queue_bytes) == (2, 8 * 4160)


def test_ecn_can_be_switched_off(tmp_path):
    fabric = '{"ecn": {"kmin_bytes": "5pkt", "kmax_bytes": "9pkt"}}'
    (tmp_path / "mine.py").write_text(f'"""Mine."""\nPARAMS = []\nFABRIC = {fabric}\n')
    content = text(top='transport = "mine.py"')
    assert load(tmp_path, content).points()[0].fabric.ecn == Ecn(5 * 4160, 9 * 4160)
    changed = load(tmp_path, content, "fabric.ecn.pmax=0.5").points()[0].fabric.ecn
    assert changed == Ecn(5 * 4160, 9 * 4160, 0.5)
    for off in ("false", "none"):
        assert load(tmp_path, content, f"fabric.ecn={off}").points()[0].fabric.ecn is None


def test_headroom_is_what_the_longest_cable_needs(tmp_path):
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
    assert fabric.headroom_bytes == 300_000 + 3 * 4160 + 64  # 3 us there and back at 800 Gbps
    assert fabric.for_network(network, point.packets) is fabric
    (point,) = load(tmp_path, content, "fabric.headroom_bytes=5KB").points()
    assert point.fabric.headroom_bytes == 5000


def test_headroom_of_very_long_cables_does_not_overflow():
    assert pfc_headroom_bytes(800 * 10**9, 60 * 10**9, PacketFormat()) > 6 * 10**9


# --- files and the experiments that come with netsim ----------------------------------------------


def test_files_are_relative_to_the_experiment(tmp_path, monkeypatch):
    content = text(traffic='kind = "htsim_cm"\nfile = "flows.cm"')
    monkeypatch.chdir("/")
    (point,) = load(tmp_path, content).points()
    assert point.traffic.params["file"] == str(tmp_path / "flows.cm")
    assert point.resolved["traffic"]["file"] == "flows.cm"


@pytest.mark.parametrize("name", sorted(built_in()))
def test_built_in_experiments_are_valid(name):
    experiment = Experiment.load(locate(name))
    assert experiment.name == name
    assert experiment.description
    assert experiment.points()


def test_the_documented_file_says_the_defaults(tmp_path):
    page = (Path(__file__).parents[1] / "experiments" / "README.md").read_text()
    documented = page.split("```toml\n")[1].split("```")[0]
    (point,) = load(tmp_path, documented).points()
    bare = text('name = "mine"\ndescription = "one line"', top='transport = "datagram"')
    (plain,) = load(tmp_path, bare, "topology.hosts_per_leaf=8", "topology.leaves=16").points()
    queue = {"queue_bytes": "416KB"}  # datagram asks for more than the default that is shown
    assert point.resolved == {**plain.resolved, "fabric": {**plain.resolved["fabric"], **queue}}
    everything = re.sub(r"(?m)^#(?=[a-z\[])", "", documented)
    for model, n_classes in (("drop_tail", 1), ("lossless", 1), ("trim", 2)):
        changes = [f"fabric.model={model}", f"fabric.n_classes={n_classes}"]
        (point,) = load(tmp_path, everything, *changes).points()
        assert point.fabric == Fabric(
            model=model,
            n_classes=n_classes,
            shared_buffer_bytes=32_000_000,
            ecn=Ecn(20 * 4160, 80 * 4160),
        )


def test_reading_experiments_does_not_load_the_compiler():
    code = (
        "import sys; from netsim.experiment import Experiment, locate;"
        "Experiment.load(locate('p2p_8192')); print('numba' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "False"


def test_locate(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = list(built_in())
    (tmp_path / "own.toml").write_text("")
    assert locate("own.toml") == Path("own.toml")
    for name in names[:1]:
        for written in (name, f"{name}.toml", f"experiments/{name}.toml"):
            assert locate(written) == built_in()[name]
        with pytest.raises(InputError, match=f"elsewhere/{name}: there is no such experiment"):
            locate(f"elsewhere/{name}")
    with pytest.raises(InputError, match="is a directory"):
        locate(".")
