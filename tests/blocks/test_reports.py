"""Acknowledgments of several packets: what a report says, and what is read from it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from netsim.blocks import reports, selective, timeouts
from netsim.engine.kernels import services
from netsim.engine.kernels.layout import ONE_PORT, TIMER_TX
from netsim.transport import ECN_CE, ECN_ECHO, INF, bit_get

N = 100
WORDS = 4
ACK_BYTES = 16384
PACKET = 4160


@pytest.fixture(autouse=True)
def _one_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """Services that are called outside of an engine: hosts have one port, networks one way."""
    monkeypatch.setattr(services, "PLANE_BALANCING", ONE_PORT)
    monkeypatch.setattr(services, "POLICY_ROUTING", False)


def receiver() -> tuple[SimpleNamespace, SimpleNamespace]:
    """The receiving side of a flow of 100 packets, and its environment; `env.sent` are its ACKs."""
    pool = [SimpleNamespace() for _ in range(256)]
    host = SimpleNamespace(port=0, payload_bytes=0, delivered=0)
    host_port = SimpleNamespace(ctrl_off=0, ctrl_mask=255, ctrl_head=0, ctrl_tail=0)
    par = SimpleNamespace(header_bytes=64, control_bytes=64)
    zero_packet = [SimpleNamespace()]
    hosts = SimpleNamespace(host_ports=[host_port])
    links = SimpleNamespace(pool=pool, zero_packet=zero_packet)
    env = SimpleNamespace(host=host, par=par, bits=[0] * WORDS, hosts=hosts, links=links)
    names = [*reports.RX_STATE, "flow", "peer", "entropy", "bits", "received_bytes"]
    rx = SimpleNamespace(**dict.fromkeys(names, 0), n_packets=N, size_bytes=N * 4096, done_ps=-1)
    rx.bits_end = WORDS
    return env, rx


def arrive(
    env: SimpleNamespace, rx: SimpleNamespace, seq: int, *, ask: bool = False, marked: bool = False
) -> SimpleNamespace | None:
    """The acknowledgment that a data packet causes."""
    before = env.hosts.host_ports[0].ctrl_tail
    env.links.pool[before] = SimpleNamespace()
    env.links.zero_packet[0] = SimpleNamespace()
    pkt = SimpleNamespace(
        seq=seq, aux=1000 + seq, entropy=seq, ecn=ECN_CE * marked, size_bytes=PACKET, report=ask
    )
    reports.on_data(env, 0, rx, pkt, ACK_BYTES, 0)
    return env.links.pool[before] if env.hosts.host_ports[0].ctrl_tail > before else None


def sender() -> tuple[SimpleNamespace, SimpleNamespace]:
    timers = [SimpleNamespace(deadline=INF, owner=0, code=TIMER_TX)]
    host = SimpleNamespace(first_timer=0, n_timers=1)
    hosts = SimpleNamespace(timers=timers)
    env = SimpleNamespace(bits=[0] * (2 * WORDS), host=host, hosts=hosts)
    names = [*selective.TX_STATE, *timeouts.TX_STATE, "bits", "first_timer", "flow", "host"]
    tx = SimpleNamespace(**dict.fromkeys(names, 0), n_packets=N, bits_end=2 * WORDS)
    tx.next_seq = N
    return env, tx


def test_the_first_and_every_fourth_are_acknowledged() -> None:
    env, rx = receiver()
    acks = [seq for seq in range(13) if arrive(env, rx, seq) is not None]
    assert acks == [0, 4, 8, 12]


@pytest.mark.parametrize("kind", ["ask", "marked"])
def test_at_once_if_asked_or_marked(kind: str) -> None:
    env, rx = receiver()
    arrive(env, rx, 0)
    ack = arrive(env, rx, 1, ask=kind == "ask", marked=kind == "marked")
    assert ack is not None
    assert (ack.seq, ack.aux, ack.entropy) == (1, 1001, 1)
    assert getattr(ack, "ecn", 0) == (ECN_ECHO if kind == "marked" else 0)


def test_a_duplicate_is_acknowledged() -> None:
    env, rx = receiver()
    arrive(env, rx, 0)
    assert arrive(env, rx, 1) is None
    assert arrive(env, rx, 1) is not None


def test_asked_once_it_answers_again_when_nothing_is_missing() -> None:
    env, rx = receiver()
    arrive(env, rx, 0)
    assert arrive(env, rx, 3, ask=True) is not None
    assert arrive(env, rx, 2) is None
    ack = arrive(env, rx, 1)
    assert ack is not None
    assert ack.report >> 32 == 4


def test_what_a_report_says_is_what_is_read() -> None:
    """Packets of another 32 than the reported one's are not in it until all before has come."""
    env, rx = receiver()
    tx_env, tx = sender()
    for seq in (0, 1, 5, 31):
        arrive(env, rx, seq)
    ack = arrive(env, rx, 33, ask=True)
    assert reports.read(tx_env, tx, ack, 0) == 3
    known = [s for s in range(N) if bit_get(tx_env, tx, selective.ACKED, s)]
    assert known == [0, 1, 33]
    ack = arrive(env, rx, 7, ask=True)
    assert reports.read(tx_env, tx, ack, 2) == 3
    for seq in range(2, 31):
        ack = arrive(env, rx, seq, ask=True)
        reports.read(tx_env, tx, ack, 2)
    known = [s for s in range(N) if bit_get(tx_env, tx, selective.ACKED, s)]
    assert known == [*range(32), 33]
    assert tx.n_acked == 33


def test_a_report_that_counts_tells_all_arrivals() -> None:
    """Of a block of 16 packets it says which; of the others, how many."""
    env, rx = receiver()
    tx_env, tx = sender()
    tx.n_arrived = 0
    for seq in (0, 1, 5, 40):
        arrive(env, rx, seq)
    pkt = SimpleNamespace(seq=17, aux=0, entropy=0, ecn=0, size_bytes=PACKET, report=1)
    reports.on_data(env, 0, rx, pkt, ACK_BYTES, 0, 1)
    ack = env.links.pool[env.hosts.host_ports[0].ctrl_tail - 1]
    assert reports.read(tx_env, tx, ack, 0, 1) == 3
    assert [s for s in range(N) if bit_get(tx_env, tx, selective.ACKED, s)] == [0, 1, 17]
    assert (reports.count_arrived(tx, ack), tx.n_arrived) == (5, 5)
    assert reports.count_arrived(tx, ack) == 0
