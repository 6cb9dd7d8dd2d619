"""A transport that passes the conformance suite, variants of it, and their findings."""

from pathlib import Path

from netsim.conformance import Finding, check

WINDOW = '''
"""A window of packets; each is acknowledged, and all are sent again after a timeout."""

from netsim.params import Param
from netsim.transport import *

PARAMS = [
    Param("window", "count", 20, "packets under way", minimum=1),
    Param("favor", "count", 0, "windows more for flow 0"),
]
FABRIC = {"queue_discipline": "drop_tail", "queue_bytes": "200pkt"}
TX_STATE = ("next_seq", "acked")
TX_TIMERS = 1
TX_BITMAPS = 1
RX_BITMAPS = 1


def ready(env, now, tx):
    window = env.par.window
    if tx.flow == 0:
        window += window * env.par.favor
    if tx.next_seq < tx.n_packets and tx.next_seq - tx.acked < window:
        return now
    return BLOCKED


def build_packet(env, now, tx, pkt):
    pkt.seq = tx.next_seq
    tx.next_seq += 1
    set_timer(env, now, tx, 0, now + 100_000_000)


def on_data(env, now, rx, pkt):
    if bit_set(env, rx, 0, int(pkt.seq)):
        deliver(env, now, rx, int(pkt.size_bytes) - env.par.header_bytes)
    send(env, rx, ACK, int(pkt.seq), 0, 0)


def on_control(env, now, tx, pkt):
    if bit_set(env, tx, 0, int(pkt.seq)):
        tx.acked += 1
    if tx.acked == tx.n_packets:
        cancel_timer(env, tx, 0)
        finish(env, now, tx)


def on_timer(env, now, tx, k):
    first = 0
    while bit_get(env, tx, 0, first) == 1:
        first += 1
    tx.next_seq = first
    set_timer(env, now, tx, 0, now + 100_000_000)
'''


def variant(folder: Path, *changes: tuple[str, str]) -> Path:
    """Write WINDOW with parts of its text replaced; return the file."""
    text = WINDOW
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    path = folder / "variant.py"
    path.write_text(text)
    return path


def tried(folder: Path, cases: list[str], *changes: tuple[str, str]) -> dict[str, Finding]:
    """Return the suite's findings by case for such a transport."""
    return {finding.case: finding for finding in check(variant(folder, *changes), cases=cases)}
