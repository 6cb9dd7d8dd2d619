"""A working transport, and ways to change lines of its handlers."""

from pathlib import Path
from typing import Any

from engine_runs import DROP_TAIL, build, fat_tree, flow_table

from netsim.engine.engine import Engine

SENDER = '''
"""Sends every packet once; the receiver acknowledges each."""

from netsim.transport import *

PARAMS = []
TX_STATE = ("next_seq", "n_acked")
TX_TIMERS = 1
RX_BITMAPS = 1
HOST_TIMERS = 1


def setup(env, tx, rx):
    pass


def on_start(env, now, tx):
    pass


def ready(env, now, tx):
    return now if tx.next_seq < tx.n_packets else BLOCKED


def build_packet(env, now, tx, pkt):
    pkt.seq = tx.next_seq
    tx.next_seq += 1


def on_data(env, now, rx, pkt):
    if bit_set(env, rx, 0, int(pkt.seq)):
        deliver(env, now, rx, int(pkt.size_bytes) - env.par.header_bytes)
    ack = send(env, rx, ACK, int(pkt.seq), 0, 0)


def on_control(env, now, tx, pkt):
    tx.n_acked += 1
    if tx.n_acked == tx.n_packets:
        finish(env, now, tx)


def on_timer(env, now, tx, k):
    pass


def on_host_timer(env, now, k):
    pass
'''
FLOWS = [(0, 4, 40_000, 0), (1, 5, 40_000, 0), (4, 0, 40_000, 0)]


def engine(tmp_path: Path, *changes: tuple[str, str], **options: Any) -> Engine:
    """Return an engine at time 0 whose transport is SENDER with parts of its text replaced."""
    text = SENDER
    for before, after in changes:
        assert text.count(before) == 1
        text = text.replace(before, after)
    path = tmp_path / "mine.py"
    path.write_text(text)
    options = {"jit": False, **options}
    flows = flow_table(options.pop("flows", FLOWS))
    return build(fat_tree(4, 2, "100Gbps"), flows, str(path), DROP_TAIL, **options)


def in_handler(name: str, line: str) -> tuple[str, str]:
    """Return a change that inserts a line at the start of a handler."""
    (head,) = [text for text in SENDER.splitlines() if text.startswith(f"def {name}(")]
    return head, f"{head}\n    {line}"


def after(text: str, line: str) -> tuple[str, str]:
    """Return a change that inserts a line after some text."""
    return text, f"{text}\n    {line}"
