"""The packets' side of the state as a run begins: the pool, links, queues, the switches' fabric."""

from __future__ import annotations

from typing import Any

import numpy as np

from netsim.engine.kernels.ids import Array
from netsim.engine.kernels.layout import (
    BALANCE,
    CHARGE,
    FABRIC,
    FAULT,
    INBOX,
    INF,
    LOSS,
    PORT,
    QUEUE,
    Wires,
    grouped,
)
from netsim.engine.kernels.trace import Trace
from netsim.engine.records import aligned_zeros
from netsim.engine.simulation import Simulation
from netsim.engine.sizes import Rings
from netsim.model.arithmetic import PURPOSE_PERMUTATION, PURPOSE_SPRAY, byte_quotient, salt
from netsim.model.fabric import LOSSLESS, Fabric, PacketFormat
from netsim.model.faults import LinkFaults


def build_wires(
    simulation: Simulation, packet: np.dtype, rings: Rings, trace: Trace | Array
) -> Wires:
    """The packets' side of the state; ``packet`` is the type of a packet's record."""
    network, fabric, seed = simulation.network, simulation.fabric, simulation.seed
    n, h, c = network.n_ports, network.n_hosts, fabric.n_classes
    sizes = rings.sizes

    ports = aligned_zeros(n, PORT)
    ports["ring_off"] = np.arange(n) * sizes.link_slots
    ports["ring_mask"] = sizes.link_slots - 1
    ports["ps_per_byte_q20"] = byte_quotient(network.port_rate_bps)
    ports["delay_ps"] = network.port_delay_ps
    inbox = aligned_zeros(n, INBOX)
    inbox["ring_off"] = ports["ring_off"][network.port_peer]
    inbox["ring_mask"] = sizes.link_slots - 1

    # Host ports come first; they have counters only, their packets wait in the control FIFO.
    queues = aligned_zeros(n * c, QUEUE)
    queues["off"][h * c :] = rings.queues_at + np.arange((n - h) * c) * sizes.queue_slots
    queues["mask"][h * c :] = sizes.queue_slots - 1

    entity = np.arange(n, dtype=np.int64)
    balance = np.zeros(n, BALANCE)
    balance["salt_random"] = salt(seed, PURPOSE_SPRAY, entity)
    balance["salt_data"] = salt(seed, PURPOSE_PERMUTATION, 2 * entity + 1)
    balance["salt_other"] = salt(seed, PURPOSE_PERMUTATION, 2 * entity)
    return grouped(
        Wires,
        pool=aligned_zeros(rings.pool_slots, packet),
        blank=np.zeros(1, packet),
        ingress=np.zeros(rings.pool_slots if fabric.model == LOSSLESS else 1, np.int32),
        ports=ports,
        inbox=inbox,
        balance=balance,
        queues=queues,
        charges=aligned_zeros(n * c if fabric.model == LOSSLESS else 1, CHARGE),
        used_bytes=np.zeros(network.n_nodes, np.int64),
        head_seen=np.zeros(n, np.int64),
        new_tail=np.zeros(n, np.int64),
        first_new=np.full(n, INF, np.int64),
        pool_used=np.array([rings.used]),
        moved_links=np.zeros(1, np.int64),
        fabric=_fabric_record(fabric, simulation.packets, seed),
        trace=trace,
        **_fault_state(simulation.faults, n, c),
    )


def _fault_state(faults: LinkFaults | None, n_ports: int, n_classes: int) -> dict[str, Any]:
    """The arrays of Wires that say what goes wrong on which link."""
    if faults is None:
        faults, n_ports, n_classes = LinkFaults.none(1), 1, 1
    state = np.zeros(n_ports, FAULT)
    state["profile"] = faults.profile
    state["first_outage"] = faults.outage_ptr[:-1]
    state["last_outage"] = faults.outage_ptr[1:]
    return {
        "faults": state,
        "losses": np.zeros(n_ports * n_classes, LOSS),
        "loss_table": faults.loss_table,
        "outages": faults.outages_ps,
    }


def _fabric_record(fabric: Fabric, packets: PacketFormat, seed: int) -> Any:
    """The fields of `FabricRecord`; what a fabric does not have is 0."""
    rec = np.zeros(1, FABRIC)
    rec["seed"] = seed
    for name in FABRIC.names or ():
        for table in (fabric, fabric.ecn, packets):
            if getattr(table, name, None) is not None:
                rec[name] = getattr(table, name)
    return rec
