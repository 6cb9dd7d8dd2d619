"""Acknowledgments that count arrivals: what a report contains and what the sender reads from it.

The reference simulator covers the other rules, in RCCC (``tests/reference/rccc.py``).
"""

from types import SimpleNamespace

import pytest

from netsim.blocks import reports, selective, timeouts
from netsim.engine.kernels import services
from netsim.engine.kernels.layout import ONE_PORT, TIMER_TX
from netsim.transport import INF, bit_get

N = 100
WORDS = 4
ACK_BYTES = 16384
PACKET = 4160


@pytest.fixture(autouse=True)
def _one_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """Services called without an engine: hosts have one port, networks one routing table."""
    monkeypatch.setattr(services, "PLANE_BALANCING", ONE_PORT)
    monkeypatch.setattr(services, "POLICY_ROUTING", False)


def receiver() -> tuple[SimpleNamespace, SimpleNamespace]:
    """The receiver of a flow of 100 packets and its environment."""
    pool = [SimpleNamespace() for _ in range(256)]
    host = SimpleNamespace(host=0, port=0, payload_bytes=0, delivered=0)
    host_port = SimpleNamespace(ctrl_off=0, ctrl_mask=255, ctrl_head=0, ctrl_tail=0)
    par = SimpleNamespace(header_bytes=64, control_bytes=64)
    zero_packet = [SimpleNamespace()]
    hosts = SimpleNamespace(host_ports=[host_port])
    links = SimpleNamespace(pool=pool, zero_packet=zero_packet)
    env = SimpleNamespace(host=host, par=par, bits=[0] * WORDS, hosts=hosts, links=links)
    names = [*reports.RX_STATE, "flow", "host", "peer", "entropy", "bits", "received_bytes"]
    rx = SimpleNamespace(**dict.fromkeys(names, 0), n_packets=N, size_bytes=N * 4096, done_ps=-1)
    rx.bits_end = WORDS
    return env, rx


def arrive(
    env: SimpleNamespace, rx: SimpleNamespace, seq: int, *, ask: bool = False
) -> SimpleNamespace:
    """Deliver a data packet and return the latest acknowledgment."""
    pkt = SimpleNamespace(
        seq=seq, aux=1000 + seq, entropy=seq, ecn=0, size_bytes=PACKET, report=ask
    )
    if reports.on_data(env, 0, rx, pkt, ACK_BYTES):
        reports.acknowledge(env, rx, pkt, 0, 1)
    return env.links.pool[env.hosts.host_ports[0].ctrl_tail - 1]


def sender() -> tuple[SimpleNamespace, SimpleNamespace]:
    timers = [SimpleNamespace(deadline=INF, owner=0, code=TIMER_TX)]
    host = SimpleNamespace(first_timer=0, n_timers=1)
    hosts = SimpleNamespace(timers=timers)
    env = SimpleNamespace(bits=[0] * (2 * WORDS), host=host, hosts=hosts)
    names = [*selective.TX_STATE, *timeouts.TX_STATE, "bits", "first_timer", "flow", "host"]
    tx = SimpleNamespace(**dict.fromkeys(names, 0), n_packets=N, bits_end=2 * WORDS)
    tx.next_seq = N
    return env, tx


def test_counting_report_covers_all_arrivals() -> None:
    """It names the arrived packets of a block of 16, and counts the others."""
    env, rx = receiver()
    tx_env, tx = sender()
    tx.n_arrived = 0
    for seq in (0, 1, 5, 40):
        arrive(env, rx, seq)
    ack = arrive(env, rx, 17, ask=True)
    assert reports.read(tx_env, tx, ack, 0, 1) == 3
    assert [s for s in range(N) if bit_get(tx_env, tx, selective.ACKED, s)] == [0, 1, 17]
    assert (reports.count_arrived(tx, ack), tx.n_arrived) == (5, 5)
    assert reports.count_arrived(tx, ack) == 0
