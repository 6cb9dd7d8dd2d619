"""Timeouts that are not given are longer than the path, and those that are given have to be."""

from __future__ import annotations

import pytest
from engine_runs import dumbbell, flow_table
from experiment_text import load, text

from netsim.conformance import Testbed
from netsim.errors import InputError
from netsim.experiment.scenario import prepare
from netsim.plugins import registry

FAR = dumbbell(hosts=1, host_rate="100Mbps", bottleneck_rate="100Mbps", bottleneck_delay="6ms")
"""12 ms there and back, 37 packets."""


def sent_again(name: str) -> int:
    """How many packets a flow of three round trips sends more than once."""
    engine = Testbed.of(name).run(flow_table([(0, 1, 100 * 4096, 0)]), FAR).engine
    return int(engine.flow_states().sent_packets[0]) - 100


def test_no_transport_sends_anything_twice_on_a_long_path():
    names = [one for one in registry.names("transport") if one not in ("ideal", "wan_fec")]
    assert {name: sent_again(name) for name in names} == dict.fromkeys(names, 0)


@pytest.mark.parametrize(("transport", "key"), [("smartt", "rto"), ("cubic", "initial_rto")])
def test_a_timeout_below_the_round_trip_is_refused(tmp_path, transport: str, key: str):
    """It names both values; one above the round trip is taken as it is."""
    top = f'transport = {{kind = "{transport}", {key} = "%s"}}'
    (point,) = load(tmp_path, text(top=top % "2us")).points()
    with pytest.raises(InputError) as refused:
        prepare(point)
    assert refused.value.key == f"transport.{key}"
    assert "2us" in str(refused.value)
    assert "8.169us" in str(refused.value)
    (point,) = load(tmp_path, text(top=top % "20us")).points()
    assert prepare(point).class_of_flow.size == 16
