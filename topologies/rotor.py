"""Racks joined by rotors: circuit switches that join each rack to each other one in turn.

They go through fixed matchings, again and again. Hosts are numbered rack by rack. A rack's switch
has its hosts and an uplink to each rotor. The matchings are the rounds of a tournament (the
circle method): `racks - 1` of them in which every rack has a partner or, if their number is odd,
`racks` with one rack left out in each. The rotors share them, rotor r has rounds r, r + rotors, r
+ 2 rotors, ..., and stays in each for `slot`, of which the mirrors take `switching` and receivers
`sync` before light passes. So the circuit of two racks is there once in a rotor's cycle of about
`(racks - 1) / rotors` slots.

With `stagger` rotor r begins `r / rotors` of a slot later, so that they never turn all at once.
Packets take the direct circuit and wait for it in a queue of their own; nothing goes by way of
a third rack. A rotor with one matching is never dark: with as many rotors as rounds, every two
racks have a cable of their own.

How the racks' switches use circuits is said in [fabric.circuits].
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from netsim.errors import InputError
from netsim.network import Network, NetworkBuilder, Schedule, tournament
from netsim.params import REQUIRED, Param

PARAMS = [
    Param("racks", "count", REQUIRED, "racks, each with a switch", minimum=2),
    Param("hosts_per_rack", "count", REQUIRED, "hosts in each rack", minimum=1),
    Param("rotors", "count", 1, "circuit switches, with an uplink of every rack each", minimum=1),
    Param("host_rate", "rate", "100Gbps", "line rate of a host"),
    Param("uplink_rate", "rate", "100Gbps", "line rate of a rack's uplink"),
    Param("slot", "time", "100us", "how long a rotor keeps a matching, the night included"),
    Param("switching", "time", "10us", "of it: the mirrors turn"),
    Param("sync", "time", "0us", "and then: receivers find the beat of another sender"),
    Param("stagger", "bool", False, "whether rotors turn one after the other"),
    Param("host_latency", "time", "500ns", "propagation between host and rack", minimum="1ps"),
    Param("fibre_latency", "time", "500ns", "propagation between rack and rotor", minimum="1ps"),
    Param("switch_latency", "time", "0ns", "from a packet's last bit in to its output queue"),
]


def build(params: Mapping[str, Any]) -> Network:
    """The network of `params` (see PARAMS)."""
    racks, per_rack, rotors = params["racks"], params["hosts_per_rack"], params["rotors"]
    hosts, slot_ps = racks * per_rack, params["slot"]
    builder = NetworkBuilder()
    pairs = racks * (racks - 1) // 2
    ports = per_rack + racks - 1
    builder.expect(hosts=hosts, switches=racks, cables=hosts + pairs, edges=racks, ports=ports)
    rounds = tournament(racks)
    if rotors > len(rounds):
        raise InputError(
            f"{rotors} rotors share {len(rounds)} matchings of {racks} racks",
            key="topology.rotors",
            hint=f"at most {len(rounds)}",
        )
    builder.add_hosts(hosts)
    tors = builder.add_switches([f"tor{k}" for k in range(racks)], 0, params["switch_latency"])
    rack_of_host = np.repeat(np.array(tors), per_rack)
    builder.cables(np.arange(hosts), rack_of_host, params["host_rate"], params["host_latency"])
    for number in range(rotors):
        offset_ps = number * slot_ps // rotors if params["stagger"] else 0
        schedule = _schedule(params, rounds[number::rotors], offset_ps)
        rotor = builder.add_circuit_switch(f"rotor{number}", schedule)
        for tor in tors:
            builder.fibre(tor, rotor, params["uplink_rate"], params["fibre_latency"])
    return builder.build(f"rotor_{racks}x{per_rack}")


def _schedule(params: Mapping[str, Any], matchings: np.ndarray, offset_ps: int) -> Schedule:
    try:
        return Schedule(
            params["slot"],
            matchings,
            switching_ps=params["switching"],
            sync_ps=params["sync"],
            offset_ps=offset_ps,
        )
    except InputError as error:
        raise error.at(key="topology.slot") from None
