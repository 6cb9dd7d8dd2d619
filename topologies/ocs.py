"""Optical circuit switches: racks joined by circuits alone, which stay or change in turn.

Hosts are numbered rack by rack. A rack's switch has its hosts and an uplink to each of the circuit
switches, which have no buffers and look at no packet: each joins the racks by one matching at a
time. What waits for a circuit stands at the rack's switch, in a queue for each other rack. With one
host in a rack that switch stands for the network interface of a chip whose light goes to the
circuit switches itself (co-packaged optics), and the queues for those in its memory.

`schedule` says what the circuit switches join:

- "fixed": one matching each, for good: of `matching` or from the file `matchings`, in which a line
  "2 0 5" says that switch 2 joins racks 0 and 5. "mesh" gives switch k the k-th round of a
  tournament, so that with all of them every two racks have a circuit of their own; "ring" joins
  each rack to the next, by any two switches next to one another the ones with even numbers and
  those with odd ones; "pairs" joins 0 and 1, 2 and 3, and so on, by all switches.
- "rotor": all matchings of a tournament in turn (the circle method): `racks - 1` rounds in which
  every rack has a partner or, if their number is odd, `racks` with one left out in each. The
  switches share them, switch r has rounds r, r + switches, r + 2 switches, ..., and stays in each
  for `slot`. With `stagger` switch r begins `r / switches` of a slot later, so that they never turn
  all at once. A rotor with one matching is never dark.

In a new slot the mirrors turn for `switching`, then receivers find the beat of another sender for
`sync`, before light passes; `fabric.circuits.guard` comes on top of it.

With `duplex = false` light goes one way, as through a switch of single fibres: a matching says for
each rack to which one its light goes, whoever sends to it. Of a file a line "2 0 5" is then the way
from rack 0 to rack 5 alone; rotors go through the cyclic shifts, in which rack i sends to rack i +
1, i + 2, ...; "ring" is the first of them, and "mesh" gives switch k the k-th.

Packets take the shortest path over circuits, whether they are there at the time or not: the direct
one if there is any. How racks' switches use them is said in [fabric.circuits].
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.inputs import at_line, read_lines, whole
from netsim.network import Network, NetworkBuilder, Schedule, tournament
from netsim.params import REQUIRED, Param

Ints = NDArray[np.int64]

ROTOR_SLOT_PS = 100 * 10**6
FOR_GOOD_PS = 10**12
"""The slot of a switch that has one matching, which it never leaves."""

PARAMS = [
    Param("racks", "count", REQUIRED, "racks, each with a switch", minimum=2),
    Param("hosts_per_rack", "count", REQUIRED, "hosts in each rack", minimum=1),
    Param("switches", "count", 1, "circuit switches: uplinks of every rack", minimum=1),
    Param("host_rate", "rate", "100Gbps", "line rate of a host"),
    Param("uplink_rate", "rate", "100Gbps", "line rate of a rack's uplink"),
    Param("schedule", "choice", "rotor", "what they join, and when", choices=("fixed", "rotor")),
    Param(
        "matching",
        "choice",
        None,
        "fixed: who is joined; mesh by default",
        choices=("mesh", "ring", "pairs"),
    ),
    Param("matchings", "file", None, "fixed: a file of lines SWITCH RACK RACK in place of that"),
    Param("slot", "time", None, "rotor: how long a matching stays, the night included; 100us"),
    Param("switching", "time", "10us", "of a slot: the mirrors turn"),
    Param("sync", "time", "0us", "and then: receivers find the beat of another sender"),
    Param("stagger", "bool", False, "rotor: whether the switches turn one after the other"),
    Param("duplex", "bool", True, "whether light goes both ways by one matching"),
    Param("host_latency", "time", "500ns", "propagation between host and rack", minimum="1ps"),
    Param("fibre_latency", "time", "500ns", "propagation: rack to circuit switch", minimum="1ps"),
    Param("switch_latency", "time", "0ns", "from a packet's last bit in to its output queue"),
]

# The times of published fabrics. What they do besides is said in [fabric.circuits].
PRESETS = {
    # W. M. Mellette et al., SIGCOMM 2017. switching: its model of a rotor switch. slot: assumption,
    # ten times as long, so that a tenth of the time is dark.
    "rotornet": {"schedule": "rotor", "slot": "200us", "switching": "20us"},
    # W. M. Mellette et al., NSDI 2020, as its simulator has it (TritonNetworking/opera-sim). slot:
    # of six rotors one turns every 99 us, and its results show a cycle of 10.7 ms.
    "opera": {
        "schedule": "rotor",
        "racks": 108,
        "hosts_per_rack": 6,
        "switches": 6,
        "host_rate": "10Gbps",
        "uplink_rate": "10Gbps",
        "slot": "594us",
        "switching": "10us",
        "stagger": True,
        "fibre_latency": "250ns",
    },
    # H. Ballani et al., SIGCOMM 2020. switching: end to end, of the prototype, at 50 Gbps. slot:
    # assumption, so that four per cent are dark. Packets have to be smaller than a slot.
    "sirius": {
        "schedule": "rotor",
        "uplink_rate": "50Gbps",
        "slot": "100ns",
        "switching": "3.84ns",
        "duplex": False,
    },
}


def build(params: Mapping[str, Any]) -> Network:
    """The network of `params` (see PARAMS).

    Raises:
        InputError: a schedule that cannot be, or parameters of another one.
    """
    _check(params)
    racks, switches = params["racks"], params["switches"]
    schedules = _rotors(params) if params["schedule"] == "rotor" else _fixed(params)
    builder = NetworkBuilder()
    hosts = racks * params["hosts_per_rack"]
    ways = sum(int((one.matchings >= 0).sum()) for one in schedules)
    cables = hosts + (ways // 2 if params["duplex"] else ways)
    builder.expect(hosts=hosts, switches=racks, cables=cables, edges=racks)
    builder.add_hosts(hosts)
    tors = builder.add_switches([f"tor{k}" for k in range(racks)], 0, params["switch_latency"])
    rack_of_host = np.repeat(np.array(tors), params["hosts_per_rack"])
    builder.cables(np.arange(hosts), rack_of_host, params["host_rate"], params["host_latency"])
    name = "rotor" if params["schedule"] == "rotor" else "ocs"
    for number in range(switches):
        switch = builder.add_circuit_switch(f"{name}{number}", schedules[number])
        for tor in tors:
            builder.fibre(tor, switch, params["uplink_rate"], params["fibre_latency"])
    return builder.build(f"{name}_{racks}x{params['hosts_per_rack']}")


def _check(params: Mapping[str, Any]) -> None:
    """Refuse parameters that mean nothing with the schedule that there is."""
    schedule = params["schedule"]
    for key, owner in (
        ("matching", "fixed"),
        ("matchings", "fixed"),
        ("slot", "rotor"),
        ("stagger", "rotor"),
    ):
        if params[key] not in (None, False) and schedule != owner:
            raise InputError(
                f'has no effect with schedule = "{schedule}"',
                key=f"topology.{key}",
                hint=f'remove it, or schedule = "{owner}"',
            )
    if params["matching"] is not None and params["matchings"] is not None:
        raise InputError(
            "matchings come from a file", key="topology.matching", hint="one of the two"
        )


def _rounds(racks: int, duplex: bool) -> Ints:
    """Matchings in which each rack meets each other one once, int64[rounds, racks]."""
    if duplex:
        return tournament(racks)
    return (np.arange(racks) + np.arange(1, racks)[:, None]) % racks


def _rotors(params: Mapping[str, Any]) -> list[Schedule]:
    switches = params["switches"]
    slot_ps = params["slot"] or ROTOR_SLOT_PS
    rounds = _rounds(params["racks"], params["duplex"])
    if switches > len(rounds):
        raise InputError(
            f"{switches} switches share {len(rounds)} matchings of {params['racks']} racks",
            key="topology.switches",
            hint=f"at most {len(rounds)}",
        )
    try:
        return [
            Schedule(
                slot_ps,
                rounds[number::switches],
                duplex=params["duplex"],
                switching_ps=params["switching"],
                sync_ps=params["sync"],
                offset_ps=number * slot_ps // switches if params["stagger"] else 0,
            )
            for number in range(switches)
        ]
    except InputError as error:
        raise error.at(key="topology.slot") from None


def _fixed(params: Mapping[str, Any]) -> list[Schedule]:
    """Circuits that are there from the beginning, and stay."""
    if params["matchings"] is not None:
        matchings = _from_file(params)
    else:
        matchings = _by_name(params["matching"] or "mesh", params)
    return [Schedule(FOR_GOOD_PS, [one], duplex=params["duplex"]) for one in matchings]


def _by_name(name: str, params: Mapping[str, Any]) -> Ints:
    """The matching of each switch, int64[switches, racks]."""
    racks, switches, duplex = params["racks"], params["switches"], params["duplex"]
    rack = np.arange(racks)
    if name == "pairs":
        wanted = (rack ^ 1)[None, :]
        wanted[wanted >= racks] = -1
        ways = np.repeat(wanted, switches, axis=0)
    elif name == "mesh":
        rounds = _rounds(racks, duplex)
        ways = rounds[np.arange(switches) % len(rounds)]
    elif not duplex:
        ways = np.repeat(_rounds(racks, duplex)[:1], switches, axis=0)
    elif racks % 2 or switches % 2:
        raise InputError(
            f"circuits both ways make no ring of {racks} racks with {switches} switches",
            key="topology.matching",
            hint="even numbers of both, or duplex = false",
        )
    else:
        ways = np.stack([rack ^ 1, ((rack - 1) ^ 1) + 1])[np.arange(switches) % 2] % racks
    return ways.astype(np.int64)


def _from_file(params: Mapping[str, Any]) -> Ints:
    """As `_by_name`, from lines SWITCH RACK RACK."""
    path = Path(params["matchings"])
    ways = np.full((params["switches"], params["racks"]), -1)
    for line, text in read_lines(path):
        try:
            switch, one, other = (whole(word) for word in text.replace(",", " ").split())
        except ValueError:
            raise at_line(path, line, f'"{text}" is no circuit', "SWITCH RACK RACK") from None
        for number, most, what in (
            (switch, params["switches"], "circuit switch"),
            (one, params["racks"], "rack"),
            (other, params["racks"], "rack"),
        ):
            if not 0 <= number < most:
                raise at_line(path, line, f"there is no {what} {number}", f"0 to {most - 1}")
        for here, there in ((one, other), (other, one))[: 1 + params["duplex"]]:
            if ways[switch, here] >= 0:
                message = f"switch {switch} joins rack {here} already"
                raise at_line(path, line, message, "one circuit each at a switch")
            ways[switch, here] = there
    return ways
