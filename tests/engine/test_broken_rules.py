"""A handler that breaks a rule of the engine ends the run before it touches other memory."""

from pathlib import Path

import pytest
from changed_handlers import after, engine, in_handler
from engine_runs import run
from raises_input import raises

from netsim.errors import RunError

START = "on_start"
SEQ = "pkt.seq = tx.next_seq"
SEND = "send(env, rx, ACK, int(pkt.seq), 0, 0)"


BROKEN = [
    (after(SEQ, "pkt.prio = 1"), "build_packet used traffic class 1; the fabric has 1, counted"),
    (in_handler("setup", "tx.prio = 1"), "build_packet used traffic class 1"),
    ((SEND, SEND.replace("0, 0)", "0, 3)")), "on_data used traffic class 3"),
    (after(SEND, "ack.prio = 2"), "on_data used traffic class 2"),
    (after(SEND, "ack.size_bytes = 63"), "on_data sent a control packet of 63 bytes"),
    (after(SEND, "ack.size_bytes = 4161"), "on_data sent a control packet of 4161 bytes"),
    ((SEND, SEND.replace("ACK", "15")), "on_data sent a control packet of kind 15"),
    ((SEND, SEND.replace("ACK", "DATA")), "on_data sent a control packet of kind 0"),
    ((SEQ, f"{SEQ} + 1"), "build_packet made data packet 10, which the flow does not have"),
    ((SEQ, "pkt.seq = -1"), "build_packet made data packet -1"),
    (after(SEQ, "pkt.kind = ACK"), "build_packet made a data packet of kind 8"),
    (in_handler(START, "set_timer(env, now, tx, 1, now + 5)"), "on_start used timer 1"),
    (in_handler(START, "set_timer(env, now, tx, -1, now + 5)"), "on_start used timer -1"),
    (in_handler(START, "set_timer(env, now, tx, 10**6, now)"), "on_start used timer 1000000"),
    (in_handler(START, "cancel_timer(env, tx, 3)"), "on_start used timer 3"),
    (in_handler(START, "tx.n_acked = 0 * armed(env, tx, 2)"), "on_start used timer 2"),
    (in_handler(START, "set_host_timer(env, now, 1, now)"), "on_start used timer 1"),
    (in_handler(START, "set_timer(env, now, env.tx[1], 0, now)"), "on_start used timer 0, which"),
    (in_handler("setup", "set_timer(env, 0, rx, 0, 0)"), "setup used timer 0"),
    (in_handler("on_control", "bit_set(env, tx, 0, 0)"), "on_control used bit 0 of a bitmap"),
    (("0, int(pkt.seq)):", "0, int(pkt.seq) + 32):"), "on_data used bit 32"),
    (("bit_set(env, rx, 0, ", "bit_set(env, rx, 1, "), "on_data used bit 0"),
    (in_handler("on_data", "deliver(env, now, rx, 10**6)"), "on_data delivered more bytes than"),
    (in_handler("on_data", "finish(env, now, env.tx[rx.flow])"), "on_data sent for, deliv"),
    (in_handler("on_control", "deliver(env, now, env.rx[tx.flow], 1)"), "on_control sent for"),
    (in_handler("on_control", SEND.replace("rx", "env.rx[tx.flow]")), "on_control sent for"),
    (after(SEND, "for i in range(99): " + SEND), "on_data sent more control packets in one call"),
]


def test_broken_rule_ends_the_run_and_names_the_handler(tmp_path: Path) -> None:
    for change, message in BROKEN:
        with pytest.raises(RunError) as raised:
            run(engine(tmp_path, change))
        assert f"mine.py: {message}" in str(raised.value)


@pytest.mark.parametrize("handler", ["on_timer", "on_host_timer"])
def test_timers_set_to_now_forever_end_the_run(tmp_path: Path, handler: str) -> None:
    again = {
        "on_timer": "set_timer(env, now, tx, 0, now)",
        "on_host_timer": "set_host_timer(env, now, 0, now)",
    }[handler]
    changes = in_handler(START, again), in_handler(handler, again)
    with raises(RunError, handler, "1"):
        run(engine(tmp_path, *changes))


def test_many_timers_at_one_instant_are_not_a_loop(tmp_path: Path) -> None:
    """Eleven thousand flows of one host start at once and each sets a timer to that time."""
    flows = [(0, 4, 1, 0)] * 11_000
    change = in_handler(START, "set_timer(env, now, tx, 0, now)")
    one = engine(tmp_path, change, flows=flows)
    one.advance(3, 10**12)
    assert int(one.flow_states().sent_packets.sum()) > 0
