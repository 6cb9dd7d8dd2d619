"""Any content of an experiment gives points or input errors, never another exception."""

from __future__ import annotations

import json

from experiment_text import load, text
from hypothesis import given
from hypothesis import strategies as st

from netsim.errors import InputError

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
