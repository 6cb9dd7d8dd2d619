"""Errors in experiment files: each reports file, key and code, on one line."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import pytest
from experiment_text import TRANSPORT, load, text
from raises_input import places, raises_input

from netsim.engine.simulation import FeatureSet
from netsim.errors import InputError
from netsim.experiment import Experiment, locate
from netsim.plugins import registry
from netsim.running.estimate import code_needed
from netsim.transports import datagram

BAD = {
    "syntax": (
        "seed = = 3",
        [(None, "unreadable")],
    ),
    "empty": (
        "",
        [("topology", "missing"), ("transport", "missing"), ("traffic", "missing")],
    ),
    "unknown key": (text("sede = 3"), [("sede", "unknown_key")]),
    "unknown section": (
        text(fabrik=""),
        [("fabrik", "unknown_key")],
    ),
    "section is no table": (
        text("packets = 4"),
        [("packets", "wrong_type")],
    ),
    "name": (
        text('name = "a/b"'),
        [("name", "invalid")],
    ),
    "seed": (
        text("seed = 1.5"),
        [("seed", "wrong_type")],
    ),
    "seed range": (
        text("seed = [-1, 4294967296]"),
        [("seed", "out_of_range"), ("seed", "out_of_range")],
    ),
    "seed below a table": (
        text(traffic='kind = "permutation"\nseed = 3'),
        [("traffic.seed", "unknown_key")],
    ),
    "empty range": (text('seed = "3..1"'), [("seed", "out_of_range")]),
    "empty axis": (
        text(traffic='kind = "permutation"\nload = []'),
        [("traffic.load", "invalid")],
    ),
    "repeated value": (
        text(traffic='kind = "permutation"\nload = [0.5, 1.0, 0.5]'),
        [("traffic.load", "duplicate")],
    ),
    "too many points": (
        text('seed = "1..9000"', traffic='kind = "permutation"\nload = [0.5, 1.0]'),
        [(None, "out_of_range")],
    ),
    "unknown transport": (
        text(top='transport = ["ndp", "rocee"]'),
        [("transport", "unknown_value")],
    ),
    "unknown preset": (
        text(top='transport = "datagram:fast"'),
        [("transport", "unknown_value")],
    ),
    "transport is a number": (
        text(top="transport = 3"),
        [("transport", "wrong_type")],
    ),
    "no kind": (
        text(topology="leaves = 4"),
        [("topology.kind", "missing")],
    ),
    "kind is a number": (
        text(topology="kind = 4"),
        [("topology.kind", "wrong_type")],
    ),
    "parameters": (
        text(
            topology='kind = "fat_tree"\nhosts_per_leaf = 4.0\nleave = 4\nhost_rate = "0Gbps"',
            traffic='kind = "permutation"\nsize = 2000\nload = [0.5, 1.5]',
        ),
        [
            ("topology.leave", "unknown_key"),
            ("topology.hosts_per_leaf", "wrong_type"),
            ("topology.host_rate", "out_of_range"),
            ("traffic.size", "wrong_type"),
            ("traffic.load", "out_of_range"),
        ],
    ),
    "missing parameter": (
        text(traffic='kind = "incast"'),
        [("traffic.fan_in", "missing")],
    ),
    "packets": (
        text(packets='payload_bytes = "0B"\nheader_bytes = 64\ncontrol = "64B"'),
        [
            ("packets.payload_bytes", "out_of_range"),
            ("packets.header_bytes", "wrong_type"),
            ("packets.control", "unknown_key"),
        ],
    ),
    "fabric": (
        text(
            fabric="""
            queue_discipline = "trimm"
            routing = ["ecmp", "spry_rr"]
            n_traffic_classes = 9
            ecn.kmin = "5pkt"
            ecn.at = "arrival"
            """
        ),
        [
            ("fabric.queue_discipline", "unknown_value"),
            ("fabric.n_traffic_classes", "out_of_range"),
            ("fabric.ecn.kmin_bytes", "missing"),
            ("fabric.ecn.at", "unknown_value"),
            ("fabric.ecn.kmin", "unknown_key"),
            ("fabric.routing", "unknown_value"),
        ],
    ),
    "a discipline's parameters": (
        text(fabric="n_traffic_classes = 9\nqueue_bytes = 35\nheader_ratio = 0\nheader_rato = 1"),
        [
            ("fabric.n_traffic_classes", "out_of_range"),
            ("fabric.queue_bytes", "wrong_type"),
            ("fabric.header_ratio", "out_of_range"),
        ],
    ),
    "unknown keys of a fabric": (
        text(fabric="header_rato = 1\nload = 2"),
        [("fabric.header_rato", "unknown_key"), ("fabric.load", "unknown_key")],
    ),
    "no name for a discipline": (
        text(fabric="queue_discipline = 3"),
        [("fabric.queue_discipline", "invalid")],
    ),
    "ecn is no table": (
        text(fabric='ecn = "yes"'),
        [("fabric.ecn", "wrong_type")],
    ),
    "kmin above kmax": (
        text(fabric='ecn.kmin_bytes = "20pkt"\necn.kmax_bytes = "10pkt"'),
        [("fabric.ecn.kmin_bytes", "invalid")],
    ),
    "xon above xoff": (
        text(top='transport = "roce:htsim"', fabric='xoff_bytes = "10pkt"'),
        [("fabric.xon_bytes", "invalid")],
    ),
    "xon of zero": (
        text(top='transport = "roce:htsim"', fabric='xon_bytes = "0pkt"'),
        [("fabric.xon_bytes", "invalid")],
    ),
    "trim with five classes": (
        text(fabric="n_traffic_classes = 5\necn_from_class = 5\necn.kmin_bytes = '1pkt'"),
        [("fabric.n_traffic_classes", "invalid"), ("fabric.ecn_from_class", "invalid")],
    ),
    "queues too small": (
        text(fabric='queue_bytes = "4KB"\nheader_queue_bytes = "63B"'),
        [("fabric.queue_bytes", "out_of_range"), ("fabric.header_queue_bytes", "out_of_range")],
    ),
    "header larger than a packet": (
        text(top='transport = "ndp:htsim"', packets='header_bytes = "40B"'),
        [("packets.control_bytes", "invalid")],
    ),
    "too few classes for the transport": (
        text(fabric='queue_discipline = "drop_tail"\nn_traffic_classes = 1'),
        [("fabric.n_traffic_classes", "invalid")],
    ),
    "no such class": (
        text(transport='kind = "roce"\ndata_class = 1', top=""),
        [("transport.data_class", "invalid")],
    ),
    "keys without effect": (
        text(fabric='xoff_bytes = "5pkt"\nalpha = 0.5\necn_from_class = 1'),
        [
            ("fabric.xoff_bytes", "no_effect"),
            ("fabric.alpha", "no_effect"),
            ("fabric.ecn_from_class", "no_effect"),
        ],
    ),
    "keys without effect, lossless": (
        text(top='transport = "roce"', fabric="alpha = 0.5\nqueue_bytes = '5pkt'"),
        [("fabric.alpha", "no_effect"), ("fabric.queue_bytes", "no_effect")],
    ),
    "stop and outputs": (
        text(stop='max_time = 10\ndrain = "no"', outputs='link = true\ndirectory = ["a", "b"]'),
        [
            ("stop.max_time", "wrong_type"),
            ("stop.drain", "wrong_type"),
            ("outputs.directory", "wrong_type"),
            ("outputs.link", "unknown_key"),
        ],
    ),
    "measure": (
        text(measure='warmup = "1us"\nwindows = "2us"\ndrain = 3'),
        [
            ("measure.window", "missing"),
            ("measure.drain", "wrong_type"),
            ("measure.windows", "unknown_key"),
        ],
    ),
    "delays of no switch": (
        text(routing="convergence_delay = {}"),
        [("routing.convergence_delay", "wrong_type")],
    ),
    "measure and stop": (
        text(stop="drain = true", measure='warmup = "1us"\nwindow = "2us"'),
        [("stop.drain", "conflict")],
    ),
    "measure for too long": (
        text(measure='warmup = "1us"\nwindow = "40000s"'),
        [("measure", "invalid")],
    ),
}


SNAPSHOT = Path(__file__).parents[1] / "data" / "error_messages.txt"
"""Messages of BAD, for proofreading. To regenerate: PYTHONPATH=tests python FILE (this file)."""


def errors_of(tmp_path: Path, content: str, *overrides: str) -> InputError:
    with pytest.raises(InputError) as caught:
        load(tmp_path, content, *overrides)
    return caught.value


def keys_and_codes(tmp_path, content, *overrides):
    return [place[1:] for place in places(errors_of(tmp_path, content, *overrides))]


def test_invalid_files_report_file_key_and_code(tmp_path):
    for name, (content, expected) in BAD.items():
        error = errors_of(tmp_path, content)
        found = places(error)
        assert found == [("e.toml", *place) for place in expected], name
        for line, (_, key, _) in zip(str(error).split("\n"), found, strict=True):
            assert line.startswith(f"{tmp_path}/e.toml: {key + ': ' if key else ''}"), line
            assert line.isprintable()


def test_misspelled_names_get_a_suggestion(tmp_path):
    for content, meant in [
        (text("sede = 3"), "seed"),
        (text(top='transport = ["ndp", "rocee"]'), "roce"),
        (text(fabric="header_rato = 1"), "header_ratio"),
        (text("size = 3"), "traffic.size"),
        (text("queue_bytes = 3"), "fabric.queue_bytes"),
        (text(fabric="kmax = 3"), "ecn.kmax_bytes"),
        (text(fabric='ecn.kmin = "5pkt"\necn.kmin_bytes = "5pkt"'), "kmin_bytes"),
        (text(topology="leaves = 4"), ", ".join(registry.names("topology"))),
    ]:
        assert meant in str(errors_of(tmp_path, content).errors[0].hint)


def test_unreadable_files_are_rejected(tmp_path):
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    os.mkfifo(tmp_path / "pipe.toml")
    for name in ("no.toml", ".", "pipe.toml", "latin.toml"):
        with raises_input(code="unreadable", file=(tmp_path / name).name):
            Experiment.load(tmp_path / name)


DEEP = "[" * 3000 + "]" * 3000

ODD = [
    ("seed = " + "9" * 5000, None, "unreadable"),
    ("seed = 0x" + "f" * 5000, "seed", "out_of_range"),
    (f"seed = [1, {2**63}]", "seed", "out_of_range"),
    (f"seed = {DEEP}", None, "unreadable"),
    ("seed = " + "[" * 30 + "]" * 30, "seed", "unreadable"),
    (".".join("a" * 25) + " = 1", ".".join("a" * 20), "unreadable"),
    ("seed = 2020-01-01", "seed", "wrong_type"),
    ("seed = 12:30:00", "seed", "wrong_type"),
    ('"a\\nb" = 1', "a\nb", "unknown_key"),
    ("seed = inf", "seed", "wrong_type"),
    ("seed = -0.0", "seed", "wrong_type"),
    ("seed = true", "seed", "wrong_type"),
    ('seed = "1..99999999999999999"', "seed", "invalid"),
    ('seed = "\u0661..3"', "seed", "wrong_type"),
    (f'name = "{"a" * 101}"', "name", "invalid"),
    ("[[packets]]", "packets", "wrong_type"),
]


def test_valid_toml_with_invalid_content_is_rejected(tmp_path):
    for line, key, code in ODD:
        top, table = ("", line) if line.startswith("[[") else (line, "")
        error = errors_of(tmp_path, text(top) + "\n" + table)
        assert places(error)[0][1:] == (key, code), line
        assert all(one.isprintable() and len(one) < 1000 for one in str(error).split("\n"))


OVERRIDES = [
    ("seed=" + "9" * 5000, None, "unreadable", ""),
    ("seed=0x" + "f" * 5000, "seed", "out_of_range", "20000"),
    (f"seed={DEEP}", None, "unreadable", ""),
    (".".join("a" * 5000) + "=1", None, "unreadable", "a." * 38 + "a..."),
    ("seed=[1979-05-27]", "seed", "wrong_type", "1979-05-27"),
    ("x" * 5000, None, "wrong_type", "x" * 77 + "..."),
    ('outputs.directory="a\\u0000b"', "outputs.directory", None, "NUL"),
    (f"outputs.directory='results/{'x' * 300}'", "outputs.directory", None, "225"),
    (f"topology.topo_file={'x' * 300}", None, None, "255"),
    ("topology.topo_file=~nosuchuser/x", None, None, "nosuchuser"),
    ('transport="a\\u0000.py"', "transport", None, "NUL"),
    (f"transport={'x' * 300}.py", "transport", None, "255"),
    ("traffic.load=\udcff", "traffic.load", "wrong_type", "\\udcff"),
]


def test_invalid_overrides_are_rejected(tmp_path):
    for override, key, code, value in OVERRIDES:
        with raises_input(value, key=key, code=code) as caught:
            load(tmp_path, text(), override)
        str(caught.value).encode()  # any terminal can show it
        assert "\n" not in str(caught.value)


def test_invalid_experiment_names_are_rejected():
    for name, value in [("x" * 300, "255"), ("/dev/zero", "/dev/zero"), ("a\0b", "NUL")]:
        with raises_input(value):
            locate(name)


def test_ten_thousand_points_are_read_in_seconds(tmp_path):
    """Takes half a second on an idle machine; the limit catches slow work for each point."""
    began = time.perf_counter()
    assert len(load(tmp_path, text('seed = "1..10000"')).points()) == 10_000
    assert time.perf_counter() - began < 8


def test_error_in_a_transports_fabric_names_its_file(tmp_path):
    transport = tmp_path / "mine.py"
    transport.write_text(TRANSPORT + 'FABRIC = {"queue_discipline": "trim", "n_class": 2}\n')
    error = errors_of(tmp_path, text(top='transport = "mine.py"'))
    assert places(error) == [("mine.py", "FABRIC.n_class", "unknown_key")]


def test_errors_in_overrides_name_the_set_option(tmp_path):
    content = text(stop="max_time = 3")
    error = errors_of(tmp_path, content, "traffic.size=5", "topology.leaf=1")
    assert places(error) == [
        ("--set", "topology.leaf", "unknown_key"),
        ("--set", "traffic.size", "wrong_type"),
        ("e.toml", "stop.max_time", "wrong_type"),
    ]
    error = errors_of(tmp_path, content, "seed", "=3", "seed.x=1", "traffic.load.x=1")
    assert places(error) == [("--set", None, "wrong_type")] * 2
    error = errors_of(tmp_path, text("seed = 3"), "seed.x=1")
    assert places(error) == [("--set", "seed", "wrong_type")]


def test_error_text_is_escaped_and_truncated():
    error = InputError('"a\x00\x1b[31mé" is wrong', file="e.toml", key="x\r", hint="y" * 5000)
    assert str(error).startswith(r'e.toml: x\r: "a\x00\x1b[31mé" is wrong (yyy')
    assert len(str(error)) < 1000


def test_each_error_is_one_printable_line(tmp_path):
    wrong = text('seed = "1\\n2"', topology='kind = "fat\\ttree"', traffic='kind = "\\u0000"')
    lines = str(errors_of(tmp_path, wrong)).split("\n")
    assert len(lines) == 3
    assert all(line.isprintable() for line in lines)


def test_transports_with_conflicting_fabrics_are_rejected(tmp_path):
    extra = (
        '[flow_classes.b.transport]\nkind = "homa"\n[flow_classes.b.traffic]\nkind = "permutation"'
    )
    assert keys_and_codes(tmp_path, text(extra, top='transport = "nscc"')) == [
        ("fabric.n_traffic_classes", "invalid")
    ]


def test_transports_with_conflicting_state_are_rejected(tmp_path):
    source = Path(datagram.__file__).read_text("utf-8")
    for name in ("one", "other"):  # a host field with the name of a flow field
        (tmp_path / f"{name}.py").write_text(f'{source}\nHOST_STATE = ("start_ps",)\n')
    extra = (
        "[flow_classes.b.transport]\nkind = "
        '"./other.py"\n[flow_classes.b.traffic]\nkind = "permutation"'
    )
    points = load(tmp_path, text(extra, top='transport = "./one.py"')).points()
    with raises_input("start_ps", file="e.toml"):
        code_needed(points, [FeatureSet()] * len(points))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        entries = [
            f"{name}\n{errors_of(Path(directory), content)}\n" for name, (content, _) in BAD.items()
        ]
        SNAPSHOT.write_text("\n".join(entries).replace(f"{directory}/", ""), "utf-8")
