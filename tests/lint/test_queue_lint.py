"""A queue discipline that breaks a rule is rejected with the line when it is loaded for use."""

from __future__ import annotations

from pathlib import Path

from lint_case import check, check_rows

from netsim.engine.compiling import lint
from netsim.model.fabric import queue_spec
from netsim.plugins import registry

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = ROOT / "netsim/conformance/templates"

SOUND = '''
"""Prefer packets of flows with fewer bytes left."""

from netsim.params import Param
from netsim.queue import DROP, NO_CLASS, class_of, peek, pop_tail, drop, queue_length, wait_until

PARAMS = [Param("room", "queue", "9pkt", "per class")]
COUPLED = True
PORT_STATE = ("turn", ("weights", 8))
CLASS_STATE = (("average", float),)
SWITCH_STATE = ("used",)
PACKET_FIELDS = ("left",)


def on_arrival(env, now, port, pkt):
    env.switch.used += int(pkt.size_bytes)
    pass  # on_arrival
    return 0


def admit(env, now, port, pkt):
    queue = class_of(env, port, int(pkt.prio))
    if queue.bytes > env.par.room:
        return DROP
    last = pop_tail(env, port, queue)
    drop(env, now, port, last)
    head = peek(env, queue, 0)
    pass  # admit
    return int(pkt.prio)


def choose_class(env, now, port):
    port.turn += 1
    pass  # choose_class
    wait_until(env, now, port, now + 5)
    return NO_CLASS


def choose_packet(env, now, port, queue):
    return helper(env, port, queue)


def on_send(env, now, port, queue, pkt):
    queue.average = 0.5 * queue.bytes
    pkt.left = queue_length(queue)
    pass  # on_send


def on_departure(env, now, port, cls, size):
    env.switch.used -= size
    pass  # on_departure


def helper(env, port, other):
    pass  # helper
    return 0
'''


def test_correct_disciplines_have_no_errors(tmp_path):
    assert check(tmp_path, SOUND, "queue") == []
    assert check(tmp_path, (TEMPLATES / "my_queue.py").read_text(), "queue") == []
    for name in registry.names("queue"):
        lint.check(queue_spec(name).plugin, queue_spec(name).params)


SETS = [
    ("admit", "queue.bytes = 0", "queue.bytes"),
    ("admit", "class_of(env, port, 1).drops += 1", "queue.drops"),
    ("admit", "port.backlog = 0", "port.backlog"),
    ("admit", "pkt.size_bytes = 1", "pkt.size_bytes"),
    ("admit", "last.flow = 1", "pkt.flow"),
    ("admit", "head.prio = 1", "pkt.prio"),
    ("on_arrival", "env.links = 3", "env.links"),
    ("on_arrival", "env.par.room = 3", "env.par.room"),
    ("on_send", "pkt.dst = 1", "pkt.dst"),
    ("helper", "other.sent_bytes = 1", "queue.sent_bytes"),
]
READS = [
    ("admit", "a = queue.averag", ("queue", "averag")),
    ("choose_class", "a = port.turns", ("port", "turns")),
    ("on_departure", "a = env.switch.useds", ("env.switch", "useds")),
    ("on_send", "a = pkt.lefts", ("pkt", "lefts")),
    ("choose_class", "a = env.par.rom", ("env.par", "rom")),
    ("choose_class", "a = env.host", ("env", "host")),
    (
        "choose_class",
        "wait_until(env, port, now)",
        "wait_until()",
    ),
    ("choose_class", "helper(env)", "helper()"),
    ("choose_class", "a = undefined_name", "undefined_name"),
]


def test_broken_rule_is_reported_with_its_line(tmp_path):
    check_rows(tmp_path, SOUND, "queue", SETS + READS)


FILES = [
    ("def admit(", "def admitt(", "has no function admit"),
    ("def admit(env, now, port, pkt)", "def admit(env, port, pkt)", "admit takes 3 arguments"),
    ("COUPLED = True", "COUPLED = False", "requires coupled ports"),
    ("COUPLED = True", "COUPLED = 1", "1 is neither True nor False"),
    ('("turn",', '("backlog", "turn",', "field backlog is reserved by the engine"),
    ("def on_send(", "def on_sent(", "on_sent is not a handler and is unused"),
    ("PORT_STATE", "PORT_STATES", "PORT_STATES is not a declaration and is unused"),
    ("return int(pkt.prio)", "pass", "admit ends without returning"),
]


def test_invalid_declarations_are_reported(tmp_path):
    for text, instead, expected in FILES:
        assert SOUND.count(text) == 1
        errors = check(tmp_path, SOUND.replace(text, instead), "queue")
        assert any(expected in error.message for error in errors), errors
