"""Files and overrides are read or rejected."""

import json
import os
from pathlib import Path

from experiment_text import load, text
from hypothesis import given
from hypothesis import strategies as st
from raises_input import raises_input

from netsim.engine.simulation import FeatureSet
from netsim.errors import InputError
from netsim.experiment import Experiment, locate
from netsim.running.estimate import code_needed
from netsim.transports import datagram


def test_unreadable_files_are_rejected(tmp_path):
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    os.mkfifo(tmp_path / "pipe.toml")
    for name in ("no.toml", ".", "pipe.toml", "latin.toml"):
        with raises_input(code="unreadable", file=(tmp_path / name).name):
            Experiment.load(tmp_path / name)


def test_invalid_experiment_names_are_rejected():
    for name, value in [("x" * 300, "255"), ("/dev/zero", "/dev/zero"), ("a\0b", "NUL")]:
        with raises_input(value):
            locate(name)


def test_error_text_is_escaped_and_truncated():
    error = InputError('"a\x00\x1b[31mé" is wrong', file="e.toml", key="x\r", hint="y" * 5000)
    assert str(error).startswith(r'e.toml: x\r: "a\x00\x1b[31mé" is wrong (yyy')
    assert len(str(error)) < 1000


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


PATHS = st.sampled_from(
    [
        *("name", "description", "seed", "topology", "transport", "traffic", "packets", "fabric"),
        *("stop", "outputs", "nothing", "topology.kind", "topology.leaves", "topology.host_rate"),
        *("transport.kind", "transport.rto", "transport.initial_window", "traffic.kind"),
        *(
            "traffic.size",
            "traffic.load",
            "traffic.sizes",
            "packets.payload_bytes",
            "fabric.queue_discipline",
        ),
        *("fabric.n_traffic_classes", "fabric.queue_bytes", "fabric.ecn", "fabric.ecn.kmin_bytes"),
        *("fabric.alpha", "stop.max_time", "outputs.links", "outputs.directory", "a.b.c"),
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
def test_any_override_gives_points_or_input_errors(tmp_path_factory, changes):
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
