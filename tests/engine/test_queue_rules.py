"""Broken rules of queue disciplines are reported by discipline, handler and switch."""

from pathlib import Path

import pytest
from engine_runs import build, fat_tree, flow_table, run
from raises_input import raises, raises_input

from netsim.engine.engine import Engine
from netsim.errors import RunError
from netsim.model.fabric import Fabric
from netsim.plugins import registry
from netsim.plugins.registry import PluginSpec

HEAD = """
from netsim.queue import *

PARAMS = []


def admit(env, now, port, pkt):
    return int(pkt.prio)
"""

NETWORK = fat_tree(2, 2, "100Gbps")
FLOWS = [(0, 2, 40_000, 0), (1, 2, 40_000, 0), (3, 2, 40_000, 0)]


def engine(folder: Path, text: str, classes: int = 2, transport: str = "datagram") -> Engine:
    """Return an engine whose discipline is `HEAD` and `text`; later definitions win."""
    (folder / "mine.py").write_text(HEAD + text, "utf-8")
    plugin = registry.find("queue", "mine.py", relative_to=folder)
    fabric = Fabric(PluginSpec(plugin, {}), n_traffic_classes=classes)
    return build(NETWORK, flow_table(FLOWS), transport, fabric, jit=False)


def in_handler(handler: str, *lines: str, coupled: bool = False) -> str:
    """A discipline whose `handler` has these lines."""
    arguments = {"choose_packet": "port, queue", "choose_class": "port"}
    body = "".join(f"    {line}\n" for line in lines)
    declared = "COUPLED = True\n" if coupled else ""
    return f"\n\n{declared}def {handler}(env, now, {arguments.get(handler, 'port, pkt')}):\n{body}"


WAITS = "if queue_length(class_of(env, port, 0)) > 2:"
POP = "pop_tail(env, port, class_of(env, port, 0))"
RULES: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = [
    ("admit", ("return 7",), ("class 7", "2", "0")),
    ("admit", ("class_of(env, port, -1)", "return 0"), ("-1", "2", "0")),
    ("admit", ("pkt.prio = 9", "return DROP"), ("class 9", "2", "0")),
    ("choose_class", ("wait_until(env, now, port, now + 9999)", "return 1"), ("class 1",)),
    ("choose_class", ("wait_until(env, now, port, now - 5)", "return NO_CLASS"),
     ("wait_until", "5 ps")),
    ("admit", ("wait_until(env, now, port, now + 5)", "return 0"), ("wait_until", "choose_class")),
    ("choose_packet", ("return queue_length(queue)",), ()),
    ("admit", ("remove(env, now, port, class_of(env, port, 1), 0)", "return 0"), ("0",)),
    ("admit", ("peek(env, class_of(env, port, 0), 500)", "return 0"), ("500",)),
    ("choose_packet", ("pop_tail(env, port, queue)", "return 0"), ("pop_tail",)),
    ("admit", (WAITS, f"    {POP}", "return 0"), ("packet",)),  # keeps it
    ("admit", (WAITS, f"    enqueue(env, now, port, 0, {POP})", "return 0"), ("class 0",)),
    ("admit", ("enqueue(env, now, port, 1, pkt)", "return 0"), ("packet",)),  # did not pop it
]  # fmt: skip
"""Handler, lines that break a rule, and words of the error."""
FOREVER = in_handler("admit", "return now // 1000 % 2") + in_handler(
    "choose_class", "return NO_CLASS"
)


def test_broken_rule_is_reported_with_handler_and_switch(tmp_path):
    for handler, lines, words in RULES:
        with raises(RunError, "mine.py", handler, words, "switch"):
            run(engine(tmp_path, in_handler(handler, *lines)))
    with raises(RunError, "mine.py", "choose_class", "NO_CLASS", "class 0", "wait_until", "switch"):
        run(engine(tmp_path, FOREVER))


def test_trimming_a_control_packet_is_an_error(tmp_path):
    """A trimmed NACK would look like a data header that arrives at the data's sender."""
    text = in_handler("admit", "trim(env, now, port, pkt)", "return 0")
    with raises(RunError, "admit", "kind 9", "switch"):
        run(engine(tmp_path, text, transport="ndp"), 50_000_000)


def test_exception_in_a_handler_is_reported_with_its_line(tmp_path):
    text = in_handler("admit", "return 1 // (int(pkt.hops) - 1)")
    with raises(RunError, "mine.py", "admit", "switch", "ZeroDivisionError") as raised:
        run(engine(tmp_path, text))
    assert "(mine.py, line 12: return 1 // (int(pkt.hops) - 1))" in str(raised.value)


DECLARATIONS = {
    "no admit": ("\ndel admit\n", "function"),
    "arguments": ("\n\ndef choose_class(env, port):\n    return 0\n", ("choose_class", "2")),
    "no fields": ('\nPORT_STATE = "run"\n', "run"),
    "a reserved field": ('\nCLASS_STATE = ("bytes",)\n', "field"),
    "state of a switch": ('\nSWITCH_STATE = ("used",)\n', "port"),
    "coupled": ('\nCOUPLED = "yes"\n', "yes"),
    "an arrival": (in_handler("on_arrival", "return ACCEPT"), "port"),
    "a reserved packet field": ('\nPACKET_FIELDS = ("kind",)\n', "field"),
}


def test_invalid_declarations_are_reported_with_the_file(tmp_path):
    for text, words in DECLARATIONS.values():
        with raises_input("mine.py", words):
            engine(tmp_path, text)


def test_packet_field_with_two_types_is_rejected(tmp_path):
    (tmp_path / "mine.py").write_text(HEAD + '\nPACKET_FIELDS = ("stamp",)\n', "utf-8")
    queue = registry.find("queue", "mine.py", relative_to=tmp_path)
    text = (Path(registry.find("transport", "datagram").path)).read_text("utf-8")
    (tmp_path / "other.py").write_text(text + '\nPACKET_FIELDS = (("stamp", float),)\n', "utf-8")
    other = registry.find("transport", "other.py", relative_to=tmp_path)
    use = PluginSpec(other, {p.name: p.convert(p.default) for p in other.params})
    with raises_input("stamp", "PACKET_FIELDS"):
        fabric = Fabric(PluginSpec(queue, {}))
        build(NETWORK, flow_table(FLOWS), "datagram", fabric, beside=[use], jit=False)


@pytest.mark.parametrize("coupled", [False, True])
def test_shaper_sends_at_the_times_it_waits_for(coupled, tmp_path):
    """The shaper sends a packet every 3 us; the last of 30 packets leaves after 29 intervals."""
    text = '\nPORT_STATE = ("next_ps",)\n'
    text += in_handler(
        "choose_class",
        "if now < port.next_ps:",
        "    wait_until(env, now, port, port.next_ps)",
        "    return NO_CLASS",
        "port.next_ps = now + 3_000_000",
        "return 0",
        coupled=coupled,
    )
    one = run(engine(tmp_path, text, classes=1))
    flows = one.flow_states()
    assert (flows.done_ps > 0).all()
    full_ps, last_ps, delay_ps = 4160 * 80, (40_000 - 9 * 4096 + 64) * 80, 1_000_000
    began_ps = full_ps + delay_ps + 29 * 3_000_000
    assert int(flows.done_ps.max()) == began_ps + last_ps + delay_ps


LINKS = """
COUPLED = True
PORT_TIMERS = 1


def on_message(par, queue, value):
    pass


def on_port_timer(env, now, port, k):
    pass
"""


@pytest.mark.parametrize(
    ("handler", "line", "words"),
    [
        ("on_arrival", "set_paused(env, now, port, 0)", ("set_paused", "on_port_timer")),
        ("on_arrival", "set_timer(env, now, port, 1, now + 1)", ("timer 1", "PORT_TIMERS")),
        ("on_arrival", "set_timer(env, now, port, 0, now)", ("not in the future",)),
        ("on_arrival", "send_message(env, now, port, 0, -1)", ("value -1",)),
        ("on_arrival", "send_message(env, now, port, 2, 1)", ("class 2",)),
        ("on_send", "send_message(env, now, port, 0, 1)", ("send_message", "on_send")),
        ("on_arrival", "bounce(env, now, port, pkt)", ("bounce", "admit")),
        ("on_send", "emit(env, port, pkt, 7, 0, 0)", ("kind 7",)),
        ("on_send", "[emit(env, port, pkt, 11, 0, 0) for _ in range(65)]", ("64 packets",)),
    ],
)
def test_broken_rules_of_links_are_reported(
    tmp_path: Path, handler: str, line: str, words: tuple[str, ...]
) -> None:
    arguments = "port, queue, pkt" if handler == "on_send" else "port, pkt"
    text = f"{LINKS}\n\ndef {handler}(env, now, {arguments}):\n    {line}\n    return ACCEPT\n"
    with raises(RunError, "mine", handler, *words):
        run(engine(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("PORT_TIMERS = 1\n", ("PORT_TIMERS", "coupled")),
        ("def admit(env, now, port, pkt):\n    set_timer(env, now, port, 0, 0)\n    return 0\n",
         ("PORT_TIMERS",)),
        ("def admit(env, now, port, pkt):\n    send_message(env, now, port, 0, 0)\n    return 0\n",
         ("on_message",)),
        ("COUPLED = True\n\n\ndef on_drop(env, now, port, cls, size):\n    pass\n",
         ("on_departure",)),
        ("def admit(env, now, port, pkt):\n    bounce(env, now, port, pkt)\n    return DROP\n",
         ("bounce", "coupled")),
        ("def has_credit(par, queue, size):\n    return True\n", ("has_credit", "coupled")),
    ],
)  # fmt: skip
def test_what_a_discipline_needs_is_named(
    tmp_path: Path, text: str, words: tuple[str, ...]
) -> None:
    with raises_input(*words):
        engine(tmp_path, f"\n\n{text}")
