"""Experiment files that are wrong: every message, complete, and never anything but a message."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from experiment_text import TRANSPORT, load, messages, text

from netsim.engine.simulation import Parts
from netsim.errors import InputError
from netsim.experiment import Experiment, locate
from netsim.plugins import registry
from netsim.running.estimate import code_needed
from netsim.transports import datagram

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
            'e.toml: name: "a/b" cannot name an experiment '
            "(up to 100 letters, digits and . _ + - in quotes)",
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
        text('seed = "1..9000"', traffic='kind = "permutation"\nload = [0.5, 1.0]'),
        ["e.toml: the axes make 18000 points (at most 10000)"],
    ),
    "unknown transport": (
        text(top='transport = ["ndp", "rocee"]'),
        ['e.toml: transport: unknown transport "rocee" (did you mean "roce"?)'],
    ),
    "unknown preset": (
        text(top='transport = "datagram:fast"'),
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
            ecn.kmin = "5pkt"
            ecn.at = "arrival"
            """
        ),
        [
            'e.toml: fabric.model: unknown queue discipline "trimm" (did you mean "trim"?)',
            "e.toml: fabric.n_classes: 9 is too large (at most 8)",
            'e.toml: fabric.ecn.kmin_bytes: missing (such as kmin_bytes = "64KB")',
            'e.toml: fabric.ecn.at: "arrival" is not a choice (there are: enqueue, dequeue)',
            'e.toml: fabric.ecn.kmin: unknown key (did you mean "kmin_bytes"?)',
            'e.toml: fabric.load_balancing: "spry_rr" is not a choice (did you mean "spray_rr"?)',
        ],
    ),
    "a discipline's parameters": (
        text(fabric="n_classes = 9\nqueue_bytes = 35\nheader_ratio = 0\nheader_rato = 1"),
        [
            "e.toml: fabric.n_classes: 9 is too large (at most 8)",
            "e.toml: fabric.queue_bytes: 35 has no unit "
            '(write it like "64KB", "35pkt" or "0.2bdp")',
            "e.toml: fabric.header_ratio: 0 is too small (at least 1)",
        ],
    ),
    "unknown keys of a fabric": (
        text(fabric="header_rato = 1\nload = 2"),
        [
            'e.toml: fabric.header_rato: unknown key (did you mean "header_ratio"?)',
            'e.toml: fabric.load: unknown key (did you mean "load_balancing"?)',
        ],
    ),
    "no name for a discipline": (
        text(fabric="model = 3"),
        [
            "e.toml: fabric.model: 3 is not a name (there are: {queues})",
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
    "trim with five classes": (
        text(fabric="n_classes = 5\necn_from_class = 5\necn.kmin_bytes = '1pkt'"),
        [
            'e.toml: fabric.n_classes: 5 with model "trim" (2 to 4)',
            "e.toml: fabric.ecn_from_class: there is no class 5 (classes are numbered 0 to 4)",
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
            '(it belongs to "codel" and "credit_shaper" and "drop_tail" and "pfabric" and "trim")',
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
    content, expected = BAD[name]
    topologies, queues = (", ".join(registry.names(kind)) for kind in ("topology", "queue"))
    assert messages(tmp_path, content) == [
        line.replace("{topologies}", topologies).replace("{queues}", queues) for line in expected
    ]


def test_unreadable_files(tmp_path):
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    os.mkfifo(tmp_path / "pipe.toml")
    for name, reason in [
        ("no.toml", "cannot be read: No such file or directory"),
        (".", "is a directory, not a file"),
        ("pipe.toml", "is a pipe or a device, not a file"),
        ("latin.toml", "is not UTF-8 text"),
    ]:
        with pytest.raises(InputError) as caught:
            Experiment.load(tmp_path / name)
        assert str(caught.value) == f"{tmp_path / name}: {reason}"


DEEP = "[" * 3000 + "]" * 3000


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("seed = " + "9" * 5000, "e.toml: is not valid TOML: a number of thousands of digits"),
        ("seed = 0x" + "f" * 5000, "e.toml: seed: a number of 20000 bits has more than 64 bits"),
        (f"seed = [1, {2**63}]", "e.toml: seed: 9223372036854775808 has more than 64 bits"),
        (f"seed = {DEEP}", "e.toml: is nested too deeply (at most 20 levels)"),
        (
            "seed = " + "[" * 30 + "]" * 30,
            "e.toml: seed: is nested too deeply (at most 20 levels)",
        ),
        (
            ".".join("a" * 25) + " = 1",
            f"e.toml: {'.'.join('a' * 20)}: is nested too deeply (at most 20 levels)",
        ),
        ("seed = 2020-01-01", 'e.toml: seed: "2020-01-01" is a date'),
        ("seed = 12:30:00", 'e.toml: seed: "12:30:00" is a time'),
        ('"a\\nb" = 1', "e.toml: a\\nb: unknown key (there are: "),
        ("seed = inf", "e.toml: seed: inf is not a seed"),
        ("seed = -0.0", "e.toml: seed: -0.0 is not a seed"),
        ("seed = true", "e.toml: seed: true is not a seed"),
        ('seed = "1..99999999999999999"', 'e.toml: seed: "1..99999999999999999" has 9999999'),
        ('seed = "\u0661..3"', 'e.toml: seed: "' + "\u0661" + '..3" is not a seed'),
        (f'name = "{"a" * 101}"', f'e.toml: name: "{"a" * 77}..." cannot name an experiment'),
        ("[[packets]]", "e.toml: packets: [a table] is not a table"),
    ],
)
def test_what_toml_allows_and_no_experiment_has(tmp_path, line, message):
    top, table = ("", line) if line.startswith("[[") else (line, "")
    (first, *_) = messages(tmp_path, text(top) + "\n" + table)
    assert first.startswith(message)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("seed=" + "9" * 5000, "--set: is not valid TOML: a number of thousands of digits"),
        ("seed=0x" + "f" * 5000, "--set: seed: a number of 20000 bits has more than 64 bits"),
        (f"seed={DEEP}", "--set: is nested too deeply (at most 20 levels)"),
        (".".join("a" * 5000) + "=1", f'--set: "{"a." * 38}a..." is nested too deeply'),
        ("seed=[1979-05-27]", '--set: seed: "1979-05-27" is a date'),
        ("x" * 5000, f'--set: "{"x" * 77}..." is not path=value'),
        ('outputs.directory="a\\u0000b"', "cannot name a file: it contains a NUL"),
        (f"outputs.directory='results/{'x' * 300}'", "cannot name a file: longer than 225 bytes"),
        (f"topology.topo_file={'x' * 300}", "cannot name a file: longer than 255 bytes"),
        ("topology.topo_file=~nosuchuser/x", "starts in the home directory of nobody"),
        ('transport="a\\u0000.py"', 'transport: "a\\x00.py" cannot name a file: it contains'),
        (f"transport={'x' * 300}.py", "cannot name a file: longer than 255 bytes"),
        ("traffic.load=\udcff", 'traffic.load: "\\udcff" is not a number'),
    ],
)
def test_what_an_override_may_not_be(tmp_path, override, message):
    (line,) = messages(tmp_path, text(), override)
    assert message in line
    line.encode()  # any terminal can show it


def test_names_that_no_experiment_can_have():
    for name, message in [
        ("x" * 300, "cannot name a file: longer than 255 bytes"),
        ("/dev/zero", "/dev/zero: is a pipe or a device, not a file"),
        ("a\0b", "cannot name a file: it contains a NUL"),
    ]:
        with pytest.raises(InputError) as caught:
            locate(name)
        assert message in str(caught.value)


def test_ten_thousand_points_are_read_in_seconds(tmp_path):
    """Half a second on a quiet machine; every point used to be described from its digits up."""
    began = time.perf_counter()
    assert len(load(tmp_path, text('seed = "1..10000"')).points()) == 10_000
    assert time.perf_counter() - began < 8


def test_a_transports_own_fabric_is_checked_and_blamed(tmp_path):
    transport = tmp_path / "mine.py"
    transport.write_text(TRANSPORT + 'FABRIC = {"model": "trim", "n_class": 2}\n')
    assert messages(tmp_path, text(top='transport = "mine.py"')) == [
        'mine.py: FABRIC.n_class: unknown key (did you mean "n_classes"?)'
    ]


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


def test_what_does_not_print_is_escaped_and_what_is_long_is_cut():
    error = InputError('"a\x00\x1b[31mé" is wrong', file="e.toml", key="x\r", hint="y" * 5000)
    assert str(error).startswith(r'e.toml: x\r: "a\x00\x1b[31mé" is wrong (yyy')
    assert len(str(error)) < 1000


def test_every_mistake_has_one_line_whatever_its_values_are(tmp_path):
    wrong = text('seed = "1\\n2"', topology='kind = "fat\\ttree"', traffic='kind = "\\u0000"')
    lines = messages(tmp_path, wrong)
    assert len(lines) == 3
    assert all(line.startswith("e.toml: ") and line.isprintable() for line in lines)


def test_transports_whose_fabrics_do_not_agree_are_the_experiments_mistake(tmp_path):
    extra = '[classes.b.transport]\nkind = "homa"\n[classes.b.traffic]\nkind = "permutation"'
    assert messages(tmp_path, text(extra, top='transport = "nscc"')) == [
        'e.toml: fabric.n_classes: 8 with model "trim" (2 to 4)'
    ]


def test_transports_that_cannot_share_a_network_are_refused_by_check(tmp_path):
    source = Path(datagram.__file__).read_text("utf-8")
    for name in ("one", "other"):  # a host has one field of that name, and so has a flow
        (tmp_path / f"{name}.py").write_text(f'{source}\nHOST_STATE = ("start_ps",)\n')
    extra = '[classes.b.transport]\nkind = "./other.py"\n[classes.b.traffic]\nkind = "permutation"'
    points = load(tmp_path, text(extra, top='transport = "./one.py"')).points()
    with pytest.raises(InputError, match=r"e\.toml: .*start_ps"):
        code_needed(points, [Parts()] * len(points))
