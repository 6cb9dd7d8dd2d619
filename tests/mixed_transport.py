"""A random transport that uses every service, for comparison with the reference.

Its twin is `reference/mixed_transport.py`.
"""

from netsim.params import Param
from netsim.transport import (
    BLOCKED,
    ECN_CE,
    ECN_ECHO,
    bit_set,
    cancel_timer,
    deliver,
    finish,
    flow_word,
    host_timer_armed,
    packet_payload_bytes,
    port_pair,
    port_pairs_in_use,
    rand32,
    send,
    set_host_timer,
    set_timer,
)

PARAMS = [
    Param("classes", "count", 1, "those of the fabric"),
    Param("gap", "time", "1us", "until timers fire, or the next packet goes, at most"),
    Param("most", "count", 50, "packets of a side of a flow besides its data"),
    Param("data_class", "count", 0, "whose pause holds a flow back"),
]

CONTROL_PER_DATA = 2
RELIABLE = False
FABRIC = {"queue_discipline": "drop_tail", "routing": "ecmp", "queue_bytes": "100pkt"}

TX_STATE = ("draws", "sent", "again", "asked", "key", "heard")
RX_STATE = ("draws", "answers")
HOST_STATE = ("draws", "latest")
TX_TIMERS, RX_TIMERS, HOST_TIMERS = 2, 1, 1
RX_BITMAPS = 1
PACKET_FIELDS = ("note",)

OF_TX, OF_RX, OF_HOST = 64, 65, 66


def draw(env, side, purpose):
    side.draws += 1
    return rand32(env.par.seed, purpose, int(side.flow), side.draws)


def setup(env, tx, rx):
    tx.prio = env.par.data_class


def rank(env, tx):
    return tx.key


def ask(env, tx):
    chance = draw(env, tx, OF_TX)
    if tx.asked < env.par.most:
        tx.asked += 1
        prio = (chance + port_pairs_in_use(env, tx)) % env.par.classes
        send(env, tx, 2 + chance % 6, chance % 1000, chance % 7919, prio)


def on_start(env, now, tx):
    tx.key = flow_word(env, tx, 1) % 5
    ask(env, tx)


def ready(env, now, tx):
    if tx.sent >= tx.n_packets + tx.again:
        return BLOCKED
    chance = draw(env, tx, OF_TX)
    if chance % 4 == 0:
        return now + chance % (env.par.gap + 1)
    return now


def build_packet(env, now, tx, pkt):
    chance = draw(env, tx, OF_TX)
    pkt.seq = tx.n_packets - 1 - tx.sent
    if tx.sent >= tx.n_packets:
        pkt.seq = chance % tx.n_packets
        if chance % 3 == 0:
            pkt.kind = 2 + chance % 6
    pkt.aux = chance % 100_000
    pkt.prio = (chance + port_pair(env, tx)) % env.par.classes
    if chance % 2 == 0:
        pkt.entropy = chance % 65_536
        tx.entropy = chance % 64_007 - 20_000 * min(env.par.pair_by_entropy, 1)
    tx.sent += 1
    tx.key = chance % 5
    if chance % 8 == 0:
        set_timer(env, now, tx, chance // 8 % 2, now + env.par.gap)
    if chance % 8 == 1:
        ask(env, tx)


def on_control(env, now, tx, pkt):
    chance = draw(env, tx, OF_TX)
    tx.heard += 1
    if chance % 3 == 0 and tx.again < env.par.most:
        tx.again += 1
    if chance % 5 == 0:
        cancel_timer(env, tx, chance % 2)
    if chance % 7 == 0:
        ask(env, tx)
    if tx.heard > 2 * tx.n_packets:
        finish(env, now, tx)


on_returned = on_control


def on_timer(env, now, tx, k):
    chance = draw(env, tx, OF_TX)
    ask(env, tx)
    if chance % 2 == 0:
        set_timer(env, now, tx, 1 - k, now + chance % (env.par.gap + 1))
    if chance % 32 == 1:
        finish(env, now, tx)


def answer(env, now, rx, note, marked):
    chance = draw(env, rx, OF_RX)
    env.host.latest = rx.flow + 1
    if rx.answers < env.par.most:
        for i in range(chance % 3):
            rx.answers += 1
            kind = 8 + (chance + i) % 7
            pkt = send(env, rx, kind, chance % 1000, note, chance % env.par.classes)
            if chance % 4 == 0:
                pkt.size_bytes = env.par.header_bytes + 1 + chance % env.par.payload_bytes
            if marked:
                pkt.ecn = ECN_ECHO
            if chance % 5 == 0:
                pkt.entropy = chance % 65_536
                rx.entropy = chance % 64_007
    if chance % 8 == 0:
        set_timer(env, now, rx, 0, now + chance % (env.par.gap + 1))
    if chance % 8 == 1 and not host_timer_armed(env, 0):
        set_host_timer(env, now, 0, now + env.par.gap)


def on_data(env, now, rx, pkt):
    if bit_set(env, rx, 0, int(pkt.seq)):
        deliver(env, now, rx, packet_payload_bytes(env, rx, int(pkt.seq)))
    answer(env, now, rx, int(pkt.note), int(pkt.ecn) & ECN_CE != 0)


def on_trimmed(env, now, rx, pkt):
    answer(env, now, rx, int(pkt.seq), int(pkt.ecn) & ECN_CE != 0)


def on_request(env, now, rx, pkt):
    answer(env, now, rx, int(pkt.aux), int(pkt.ecn) & ECN_CE != 0)


def on_rx_timer(env, now, rx, k):
    answer(env, now, rx, 0, False)


def on_host_timer(env, now, k):
    env.host.draws += 1
    flow = env.host.latest - 1
    chance = rand32(env.par.seed, OF_HOST, flow, env.host.draws)
    rx = env.rx[flow]
    if rx.answers < env.par.most:
        rx.answers += 1
        send(env, rx, 10, chance % 1000, env.host.draws, chance % env.par.classes)


def on_forward(now, pkt, port, queue):
    of_class = queue.bytes + queue.sent_bytes
    of_port = 3 * port.held_bytes + 5 * port.sent_bytes
    pkt.note = (int(pkt.note) * 31 + of_class + of_port) % 1_000_003
