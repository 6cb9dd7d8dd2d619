"""MRC: paths assumed bad under random loss, failed cables, and a victim of an incast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from netsim.engine.engine import Engine
from netsim.experiment import Experiment
from netsim.model.builder import build_topology
from netsim.model.columns import Floats, Ints
from netsim.model.faults import CarrierDelays, LinkFault, combine
from netsim.model.network import Network
from netsim.running.point import simulate
from netsim.validation.bed import GBPS, MS, US, Bed, Flow, fct_ps, run_until
from netsim.validation.laws import PACKET, PAYLOAD, Measured

RATE_BPS = 400 * GBPS
LONG = 2**31  # bytes of a flow that outlasts its measurement


def tree(hosts_per_leaf: int, planes: int, spines: int) -> Network:
    """Return two leaves of hosts at 400 Gbps, in one plane or several."""
    given = {"hosts_per_leaf": hosts_per_leaf, "leaves": 2, "planes": planes, "spines": spines}
    return build_topology("fat_tree", host_rate=f"{RATE_BPS}bps", **given)


def paths_out(loss: float, end: str) -> Measured:
    """Measure how many of a flow's 256 EVs are assumed bad, on average from 2 ms on, if the links
    from hosts to switches lose packets."""
    experiment = Experiment(
        seed=1,
        topology={
            "kind": "fat_tree",
            "hosts_per_leaf": 2,
            "leaves": 2,
            "planes": 8,
            "host_rate": f"{RATE_BPS}bps",
        },
        transport={"kind": "mrc", "entropy_values": 256, "spare_values": 0},
        traffic={"kind": "incast", "fan_in": 1, "size": f"{LONG}B"},
        faults={"lossy": {"links": "h* -> *", "loss_rate": loss}},
        outputs={"sample_interval": "20us", "flows": 1, "fields": ["n_bad"]},
        stop={"max_time": end},
    )
    (point,) = experiment.points()
    series = simulate(point).series
    assert series is not None
    sampled = (series["entity"] == "flow") & (series["time_ps"] >= 2 * MS)
    out = series["tx.n_bad"][sampled]
    yield {"ours": float(np.mean(out)), "theirs": loss * RATE_BPS / 8 / PACKET * 1e-3}


def delivered(engine: Engine, since_ps: int, until_ps: int) -> Ints:
    """Return the packets of each flow that arrive between two times."""
    counts = []
    for t in (since_ps, until_ps):
        run_until(engine, t)
        counts.append(np.array(engine.flow_states().received_bytes) // PAYLOAD)
    return counts[1] - counts[0]


def arrived(network: Network, flows: Sequence[Flow], port: int, carrier: bool) -> Floats:
    """Return the rate of flows with a cable down and without failures, relative to hosts' line
    rate; with `carrier`, its hosts and their peers know that it is down."""
    cable = np.array([port, int(network.port_peer[port])])
    broken = combine([LinkFault(cable, outages_ps=((50 * US, 10 * MS),))], network.n_ports)
    if carrier:
        broken = replace(broken, carrier=CarrierDelays(20 * US, 20 * US))
    packets = [
        delivered(Bed("mrc", network).engine(flows, faults=faults), 500 * US, 2 * MS).sum()
        for faults in (broken, None)
    ]
    return np.array(packets) * PACKET * 8 / (1.5e-3 * RATE_BPS)


def port_down(carrier: bool) -> Measured:
    """Measure the rate of a flow with one of the receiver's eight ports down, relative to its rate
    without failures."""
    network = tree(2, 8, 8)
    port = int(network.node_first_port[3])
    with_fault, without = arrived(network, [(0, 3, LONG, 0)], port, carrier)
    yield {"ours": float(with_fault / without), "theirs": 7 / 8}


def uplink_down(uplinks: int) -> Measured:
    """Measure the rate of flows from all hosts of a leaf to another leaf's, with one uplink down.
    Routing is static, so every flow learns from losses which paths are bad."""
    network = tree(uplinks, 1, uplinks)
    leaf = int(network.port_node[network.port_peer[network.node_first_port[0]]])
    flows = [(i, uplinks + i, LONG, 0) for i in range(uplinks)]
    port = int(network.node_first_port[leaf]) + uplinks
    with_fault, _ = arrived(network, flows, port, carrier=False)
    yield {"ours": float(with_fault / uplinks), "theirs": 1 - 1 / uplinks}


def victim(transport: str, planes: int, seeds: int) -> Measured:
    """Measure the rate of a flow next to an incast of seven others from its leaf to its receiver's
    neighbor, relative to its rate alone, from 1 to 3 ms, since first windows collide before. Leaves
    have an uplink per host and plane; mean over seeds."""
    network = tree(8, planes, 8)
    own, others = (0, 8, LONG, 0), [(i, 9, LONG, 0) for i in range(1, 8)]
    shares = []
    for seed in range(1, seeds + 1):
        bed = Bed(transport, network, seed=seed)
        beside, alone = (
            delivered(bed.engine(flows), 1 * MS, 3 * MS)[0] for flows in ([own, *others], [own])
        )
        shares.append(beside / alone)
    yield {"ours": float(np.mean(shares))}


def large_messages(loss: float) -> Measured:
    """Measure the mean rate of a permutation of 32 MB messages between 64 hosts if all links lose
    packets, relative to the rate without losses."""
    network = build_topology(
        "fat_tree", hosts_per_leaf=16, leaves=4, planes=8, host_rate=f"{2 * RATE_BPS}bps"
    )
    flows = [(i, (i + 17) % 64, 32_000_000, 0) for i in range(64)]
    lossy = combine([LinkFault(np.arange(network.n_ports), loss=loss)], network.n_ports)
    mean_ps = [
        float(fct_ps(Bed("mrc", network).engine(flows, faults=faults)).mean())
        for faults in (lossy, None)
    ]
    yield {"ours": mean_ps[1] / mean_ps[0]}
