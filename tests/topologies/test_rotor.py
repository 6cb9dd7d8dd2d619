"""Rotors: who is joined to whom when, and parameters that make no sense."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine_runs import DROP_TAIL, US, build, fct_ps, flow_table, resolve, run

from netsim.errors import InputError
from netsim.model.schedules import NONE
from netsim.network import Network
from netsim.plugins import registry

G = 10**9


def rotor(**given: Any) -> Network:
    """The topology; `given` are its parameters as a user writes them."""
    plugin = registry.find("topology", "rotor")
    network: Network = plugin.module.build(resolve(plugin, given))
    return network


@pytest.mark.parametrize("racks", [2, 5, 8])
@pytest.mark.parametrize("rotors", [1, 2])
def test_every_two_racks_have_one_circuit(racks: int, rotors: int) -> None:
    if racks == 2 and rotors == 2:
        with pytest.raises(InputError, match="2 rotors share 1 matchings of 2 racks"):
            rotor(racks=racks, hosts_per_rack=1, rotors=rotors)
        return
    network = rotor(racks=racks, hosts_per_rack=3, rotors=rotors)
    circuits = network.circuits
    assert circuits is not None
    assert network.n_hosts == 3 * racks
    ports = np.flatnonzero(circuits.of_port >= 0)
    pairs = {
        (int(network.port_node[p]), int(network.port_node[network.port_peer[p]])) for p in ports
    }
    assert len(ports) == len(pairs) == racks * (racks - 1)
    assert network.diameter == 3
    assert np.unique(circuits.of_port[ports]).tolist() == list(range(rotors))
    assert set(circuits.names) == {f"rotor{k}" for k in range(rotors)}


def test_a_rack_is_joined_to_one_other_by_each_rotor_at_a_time() -> None:
    network = rotor(racks=9, hosts_per_rack=1, rotors=3, slot="10us", switching="1us", sync="1us")
    circuits = network.circuits
    assert circuits is not None
    assert circuits.period_ps.tolist() == [30 * US] * 36
    for fibre in range(27):
        own = np.flatnonzero(circuits.fibre == fibre)
        calendars = circuits.calendar[own]
        days = sorted(circuits.days_ps[circuits.first_day[c]].tolist() for c in calendars)
        begins = [begin for begin, _ in days]
        assert len(set(begins)) == len(begins)
        assert all(end - begin == 8 * US and begin % (10 * US) == 2 * US for begin, end in days)


def test_staggered_rotors_turn_one_after_the_other() -> None:
    network = rotor(racks=6, hosts_per_rack=1, rotors=2, slot="10us", switching="1us", stagger=True)
    circuits = network.circuits
    assert circuits is not None
    for number in (0, 1):
        calendars = circuits.calendar[circuits.of_port == number]
        begins = circuits.days_ps[circuits.first_day[calendars], 0]
        assert set(begins % (10 * US)) == {US + number * 5 * US}


def test_with_as_many_rotors_as_matchings_every_two_racks_have_a_cable() -> None:
    network = rotor(racks=6, hosts_per_rack=2, rotors=5)
    circuits = network.circuits
    assert circuits is not None
    assert not circuits.change
    assert (circuits.calendar == NONE).all()


def test_a_packet_waits_for_its_slot() -> None:
    network = rotor(
        racks=4, hosts_per_rack=1, slot="10us", switching="2us", host_latency="100ns",
        fibre_latency="300ns", switch_latency="50ns",
    )  # fmt: skip
    engine = run(build(network, flow_table([(0, 2, 4096, 0)]), "datagram", DROP_TAIL, jit=False))
    send = 4160 * 80
    # Rack 0 meets rack 2 in the third slot; light leaves a fibre's delay before that is there.
    assert fct_ps(engine).tolist() == [22 * US - 300_000 + send + 650_000 + send + 100_000]


@pytest.mark.parametrize(
    ("given", "key", "message"),
    [
        ({"racks": 4, "rotors": 4}, "topology.rotors", "4 rotors share 3 matchings of 4 racks"),
        ({"racks": 4, "slot": "10us"}, "topology.slot", "slot 0 of 10us ends before light passes"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, Any], key: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        rotor(hosts_per_rack=1, **given)
    assert caught.value.key == key
