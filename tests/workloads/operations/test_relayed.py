"""Operations on a multi-rail network that relays messages between rails in chunks."""

from __future__ import annotations

import numpy as np
import pytest
from engine_runs import DROP_TAIL, build, run
from part_of_load import operations_of

from netsim.model.builder import NetworkBuilder
from netsim.model.network import Network
from netsim.model.relays import RelayRule, relayed
from netsim.workloads.operations import Operations

US = 10**6
RACK = 2


def rails() -> Network:
    """Return two racks of two hosts, with one switch each, and two rails."""
    builder = NetworkBuilder()
    hosts = np.array(builder.add_hosts(2 * RACK)).reshape(2, RACK)
    for rack in range(2):
        builder.cables(hosts[rack], builder.add_switch(f"up{rack}"), 400 * 10**9, US)
    for rail in range(RACK):
        switch = builder.add_switch(f"out{rail}")
        builder.cables(hosts[:, rail], switch, 100 * 10**9, US, nic=1)
    return builder.build("rails")


@pytest.mark.parametrize("chunk_bytes", [None, 4096])
def test_relayed_operations_end_with_their_last_chunk(chunk_bytes: int | None) -> None:
    ops = Operations(4)
    sent, received = ops.send(0, 3, 5 * 4096, kind="pp")  # another rack, another rail
    behind, then = ops.compute(0, US), ops.compute(3, US)
    ops.after(sent, behind)
    ops.after(received, then)
    ops.collective("all_reduce", range(4), 4 * 4096, "direct", kind="dp")
    load = ops.lower(range(4))
    load.validate(4)
    made, segments = relayed(load, RelayRule(RACK, chunk_bytes=chunk_bytes))
    assert segments is not None
    flows, table, tasks = made.flows, operations_of(made), made.tasks
    assert table is not None
    assert tasks is not None
    assert flows.kind is not None
    old = load.flows.kind
    assert old is not None
    assert flows.kind.tolist() == old[segments.message].tolist()
    assert flows.kinds == load.flows.kinds
    states = run(build(rails(), flows, "datagram", DROP_TAIL, tasks=tasks, jit=False)).task_states()
    begin, end = states.start_ps[table.begin_task], states.end_ps[table.end_task]
    assert (end >= 0).all()
    assert begin[behind] == end[sent]
    assert begin[then] == end[received]
    # Five packets of 83.2 ns leave through the rack's 400 Gbps network and may wait for others.
    assert end[sent] >= 5 * 83_200
    assert end[received] > end[sent]
