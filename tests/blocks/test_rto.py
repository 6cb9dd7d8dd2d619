"""Default timeouts exceed the path's round trip, and given timeouts must."""

from __future__ import annotations

import pytest
from engine_runs import dumbbell, flow_table
from experiment_text import load, text

from netsim.conformance import Testbed
from netsim.errors import InputError
from netsim.experiment.scenario import prepare
from netsim.plugins import registry

FAR = dumbbell(hosts=1, host_rate="100Mbps", bottleneck_rate="100Mbps", bottleneck_delay="6ms")
"""Round trip of 12 ms, 37 packets."""


def n_duplicates(name: str) -> int:
    """Number of packets that a flow of three round trips sends more than once."""
    engine = Testbed.of(name).run(flow_table([(0, 1, 100 * 4096, 0)]), FAR).engine
    return int(engine.flow_states().sent_packets[0]) - 100


def test_no_transport_resends_on_a_long_lossless_path():
    names = [one for one in registry.names("transport") if one not in ("ideal", "wan_fec")]
    assert {name: n_duplicates(name) for name in names} == dict.fromkeys(names, 0)


@pytest.mark.parametrize(("transport", "key"), [("smartt", "rto"), ("cubic", "initial_rto")])
def test_timeout_below_the_round_trip_is_rejected(tmp_path, transport: str, key: str):
    """The error names both values; a timeout above the round trip is accepted."""
    top = f'transport = {{kind = "{transport}", {key} = "%s"}}'
    (point,) = load(tmp_path, text(top=top % "2us")).points()
    with pytest.raises(InputError) as error:
        prepare(point)
    assert error.value.key == f"transport.{key}"
    assert "2us" in str(error.value)
    assert "8.169us" in str(error.value)
    (point,) = load(tmp_path, text(top=top % "20us")).points()
    assert prepare(point).class_of_flow.size == 16
