"""Optional features of transports: packet fields, arrays and floats, rank, telemetry."""

from dataclasses import replace
from pathlib import Path

import pytest
from engine_runs import DROP_TAIL, build, fat_tree, fct_ps, flow_table, run
from raises_input import raises_input
from small_networks import rails

from netsim.engine.engine import Engine
from netsim.model.network import Network

HEAD = '''
"""A transport for a test."""
from netsim.transport import BLOCKED, deliver, finish

PARAMS = []
'''

DATAGRAM = """
def ready(env, now, tx):
    return now if tx.next_seq < tx.n_packets else BLOCKED

def build_packet(env, now, tx, pkt):
    pkt.seq = tx.next_seq
    tx.next_seq += 1
    if tx.next_seq == tx.n_packets:
        finish(env, now, tx)

def on_data(env, now, rx, pkt):
    deliver(env, now, rx, int(pkt.size_bytes) - env.par.header_bytes)
"""


def engine(
    tmp_path: Path, source: str, flows: list[tuple[int, int, int, int]], *, jit: bool = False
) -> Engine:
    path = tmp_path / "mine.py"
    path.write_text(HEAD + source)
    network: Network = fat_tree(4, 2, "100Gbps")
    return run(build(network, flow_table(flows), str(path), DROP_TAIL, jit=jit))


ASKS = DATAGRAM.replace(
    "    tx.next_seq += 1",
    "    tx.next_seq += 1\n    for i in range(8):\n        send(env, tx, 2 + i % 6, 0, 0, 0)",
)


@pytest.mark.parametrize("network", [fat_tree(2, 2, "100Gbps"), rails(4, [100, 100])])
def test_control_packets_sent_in_build_packet_find_room(network: Network, tmp_path: Path) -> None:
    """Each data packet sends eight; all wait, because the neighbor has paused their class."""
    path = tmp_path / "mine.py"
    asks = "from netsim.transport import send\nTX_STATE = ('next_seq',)\n" + ASKS
    path.write_text(HEAD + asks + "\ndef setup(env, tx, rx):\n    tx.prio = 1\n")
    fabric = replace(DROP_TAIL, n_traffic_classes=2)
    one = build(network, flow_table([(0, 2, 40 * 4096, 0)]), str(path), fabric, jit=False)
    ports = range(int(network.node_first_port[1]))
    for p in ports:
        one.state.links.ports[p].paused = 1
    assert int(fct_ps(run(one))[0]) > 0
    assert sum(int(one.state.hosts.host_ports[p].ctrl_tail) for p in ports) == 8 * 40
    assert one.conservation().packets.sent == 40


def test_invalid_state_declarations_are_rejected(tmp_path):
    for declared, message in [
        ('TX_STATE = ("a", "a")', "TX_STATE"),
        ('TX_STATE = ("flow",)', "TX_STATE"),
        ('PACKET_FIELDS = ("seq",)', "PACKET_FIELDS"),
        ('RX_STATE = (("a", 0),)', ("RX_STATE", "a", "0")),
        ('RX_STATE = (("a", str),)', "field"),
        ("HOST_STATE = (3,)", "field"),
    ]:
        with raises_input(message):
            engine(tmp_path, declared + "\n" + DATAGRAM, [(0, 1, 1, 0)])
