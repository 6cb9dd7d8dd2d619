"""A transport that breaks a rule is refused when it is loaded for use, with the line."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from netsim.engine.protocol import SETTABLE
from netsim.errors import InputError
from netsim.lint import check_transport
from netsim.plugins import registry
from netsim.plugins.params import resolve_params

ROOT = Path(__file__).resolve().parent.parent

SOUND = '''
"""A window of packets, each acknowledged."""

from netsim.blocks import selective
from netsim.plugins.params import Param
from netsim.transport import ACK, BLOCKED, armed, deliver, finish, send, set_timer

PARAMS = [Param("window", "count", 8, "packets"), Param("rto", "time", "1ms", "timeout")]
TX_STATE = ("next_seq", "acked", ("rate", float), ("sent", 4))
RX_STATE = ("n",)
HOST_STATE = ("credit", ("active", 8))
PACKET_FIELDS = ("stamp", ("notes", 4))
TX_TIMERS, RTO = 1, 0


def setup(env, tx, rx):
    pass  # setup


def ready(env, now, tx):
    if tx.next_seq < tx.n_packets and tx.next_seq - tx.acked < env.par.window:
        return now
    return BLOCKED


def fill(env, now, tx, pkt):
    pkt.seq = tx.next_seq
    tx.next_seq += 1
    pass  # fill


def on_data(env, now, rx, pkt):
    deliver(env, now, rx, int(pkt.size_bytes) - env.par.header_bytes)
    ack = send(env, rx, ACK, int(pkt.seq), 0, 0)
    pass  # on_data


def on_control(env, now, tx, pkt):
    tx.acked += 1
    if tx.acked == tx.n_packets:
        finish(env, now, tx)
    pass  # on_control


def on_forward(now, pkt, port, queue):
    pass  # on_forward


def helper(env, tx, other):
    pass  # helper


def flow(env, i):
    return env.tx[i]


def on_timer(env, now, tx, k):
    helper(env, tx, env.host)
'''


def check(folder: Path, source: str) -> list[InputError]:
    """The mistakes of a transport with that source."""
    path = folder / "mine.py"
    path.write_text(source)
    plugin = registry.find("transport", str(path))
    params = resolve_params(plugin.params, plugin.presets, {}, None, file=None, key="")
    try:
        check_transport(plugin, params)
    except InputError as error:
        return list(error.errors)
    return []


def line_of(source: str, text: str) -> int:
    lines = [n for n, line in enumerate(source.splitlines(), start=1) if text in line]
    assert len(lines) == 1, text
    return lines[0]


@pytest.mark.parametrize("name", registry.names("transport"))
def test_what_is_shipped_is_sound(name):
    plugin = registry.find("transport", name)
    for preset in (None, *plugin.presets):
        check_transport(
            plugin, resolve_params(plugin.params, plugin.presets, {}, preset, file=None, key="")
        )


def test_the_scaffold_is_sound(tmp_path):
    assert check(tmp_path, (ROOT / "netsim/scaffold/my_transport.py").read_text()) == []


SETS = [
    ("setup", "tx.start_ps = 0", "tx.start_ps belongs to the engine"),
    ("setup", "rx.peer += 1", "rx.peer belongs to the engine"),
    ("fill", "tx.sent_packets = 0", "tx.sent_packets belongs to the engine"),
    ("fill", "pkt.size_bytes = 1", "pkt.size_bytes belongs to the engine"),
    ("fill", "pkt.flow = 3", "pkt.flow belongs to the engine"),
    ("fill", "env.host.fault = 3", "env.host.fault belongs to the engine"),
    ("fill", "host = env.host; host.port = 3", "env.host.port belongs to the engine"),
    ("fill", "other = env.tx[0]; other.finished = 1", "tx.finished belongs to the engine"),
    ("fill", "env.rx[0].got_bytes = 1", "rx.got_bytes belongs to the engine"),
    ("fill", "for one in env.tx: one.host = 1", "tx.host belongs to the engine"),
    ("fill", "flow(env, 3).host = 1", "tx.host belongs to the engine"),
    ("fill", "(tx if now > 3 else env.tx[1]).host = 1", "tx.host belongs to the engine"),
    ("fill", "a, b = env.host, tx; b.host = 1", "tx.host belongs to the engine"),
    ("fill", "(a := tx).host = 1", "tx.host belongs to the engine"),
    ("fill", "tx['host'] = 1", "tx.host belongs to the engine"),
    ("fill", "setattr(tx, 'host', 1)", "tx.host belongs to the engine"),
    ("fill", "env.par.window = 3", "env.par.window does not change in a run"),
    ("fill", "par = env.par; par.rto += 3", "env.par.rto does not change in a run"),
    ("fill", "env.bits[3] = 0", "env.bits belongs to the engine"),
    ("fill", "env.tx[3] = tx", "env.tx belongs to the engine"),
    ("fill", "bits = env.bits; bits[3] |= 1", "env.bits belongs to the engine"),
    ("fill", "env.host = tx", "env.host belongs to the engine"),
    ("on_data", "pkt.flow = 3", "pkt.flow belongs to the engine"),
    ("on_data", "pkt.ecn = 0", "pkt.ecn belongs to the engine"),
    ("on_data", "ack.size_bytes = 3", "pkt.size_bytes belongs to the engine"),
    ("on_data", "ack.kind = 15", "pkt.kind belongs to the engine"),
    ("on_forward", "port.delay_ps = 1", "port.delay_ps belongs to the engine"),
    ("on_forward", "queue.bytes = 0", "queue.bytes belongs to the engine"),
    ("on_forward", "pkt.dst = 0", "pkt.dst belongs to the engine"),
    ("on_forward", "pkt.prio = 0", "pkt.prio belongs to the engine"),
    ("helper", "other.done_head = 0", "env.host.done_head belongs to the engine"),
    ("helper", "global STATE; STATE = 3", "STATE cannot be set by a handler"),
]
READS = [
    ("fill", "tx.windw = 1", "tx has no field windw"),
    ("fill", "a = tx.next_sq", "tx has no field next_sq"),
    ("fill", "a = pkt.stmp", "pkt has no field stmp"),
    ("fill", "a = env.par.windw", "env.par has no field windw"),
    ("fill", "a = env.hosts", "env has no hosts"),
    ("helper", "other.credits = 3", "env.host has no field credits"),
    ("on_forward", "a = queue.size", "queue has no field size"),
    ("fill", "a = undefined_name", "undefined_name is not defined"),
    ("fill", "helpr(env, tx, 0)", "helpr is not defined"),
    ("fill", "selective.tak(env, tx)", "netsim.blocks.selective has no tak"),
    ("fill", "helper(env, tx)", "helper(): missing a required argument: 'other'"),
    ("fill", "send(env, tx, ACK)", "send(): missing a required argument: 'seq'"),
    ("fill", "armed(env, tx, RTO, 3)", "armed(): too many positional arguments"),
    ("fill", "helper(env, tx, what=3)", "helper(): missing a required argument: 'other'"),
    ("helper", "helper(env, tx, 0)", "helper calls itself"),
    ("fill", "selective.take(env, tx)", "selective.take: tx has no field n_rtx"),
]


@pytest.mark.parametrize(("where", "statement", "message"), SETS + READS)
def test_a_line_that_breaks_a_rule(tmp_path, where, statement, message):
    source = SOUND.replace(f"pass  # {where}\n", f"{statement}  # {where}\n")
    errors = check(tmp_path, source)
    line = line_of(source, f"# {where}")
    assert errors[0].message == message
    assert {error.file for error in errors} == {f"{tmp_path}/mine.py:{line}"}


FINE = [
    ("setup", "tx.prio = 1; rx.prio = 1; tx.entropy = 3; rx.n = 3; env.host.credit = 1"),
    ("fill", "pkt.aux = 1; pkt.prio = 1; pkt.entropy = 1; pkt.kind = 2; pkt.stamp = now"),
    ("fill", "pkt.notes[1] = 3; tx.sent[0] = 1; env.host.active[0] = 2; tx.rate = 0.5"),
    ("fill", "sent = tx.sent; sent[1] = 3"),
    ("fill", "for i in range(3): env.tx[i].acked = 3"),
    ("fill", "tx.retransmits += 1"),
    ("fill", "other = env.rx[0] if now > 3 else env.rx[1]; other.n = 1"),
    ("on_data", "ack.ecn = 2; ack.entropy = 3; ack.aux = 3; ack.stamp = 1; ack.notes[0] = 1"),
    ("on_data", "pkt = send(env, rx, ACK, 0, 0, 0); pkt.ecn = 2"),
    ("on_forward", "pkt.stamp = queue.bytes; pkt.notes[int(pkt.hops)] = port.ps_per_byte_q20"),
    ("helper", "other.credit = [1, 2][0]; x = (lambda y: y.what)(3)"),
    ("fill", "x = 3 if now else 4; x += abs(x); print(x)"),
]


@pytest.mark.parametrize(("where", "statement"), FINE)
def test_what_a_handler_may_do(tmp_path, where, statement):
    assert check(tmp_path, SOUND.replace(f"pass  # {where}\n", f"{statement}\n")) == []


def test_all_mistakes_are_told_at_once(tmp_path):
    source = SOUND.replace("pass  # fill", "pkt.flow = 1; tx.host = 2").replace(
        "pass  # on_forward", "port.tail = 1"
    )
    assert len(check(tmp_path, source)) == 3


def test_functions_of_other_files(tmp_path):
    """Beside the transport; the mistake is told there."""
    (tmp_path / "beside.py").write_text("def count(host, tx):\n    host.n = 1\n    tx.acked = 1\n")
    source = SOUND.replace("pass  # fill", "beside.count(env.host, tx)")
    (error,) = check(
        tmp_path, source.replace("from netsim.blocks", "import beside\nfrom netsim.blocks")
    )
    assert (error.file, error.message) == (f"{tmp_path}/beside.py:2", "env.host has no field n")


@pytest.mark.parametrize(
    ("body", "line", "message"),
    [
        ("if now > 3:\n        return now", 0, "ready ends without returning"),
        ("if now > 3:\n        return now\n    return", 3, "ready returns nothing"),
        ("return None", 1, "ready returns nothing"),
        ("for i in range(3):\n        return now", 0, "ready ends without returning"),
        ("while True:\n        if now > 3:\n            break", 0, "ready ends without returning"),
        ("tx.acked = 0", 0, "ready ends without returning"),
    ],
)
def test_ready_returns_a_time(tmp_path, body, line, message):
    before, _, after = SOUND.partition("def ready(env, now, tx):\n")
    after = after[after.index("def fill") :]
    source = f"{before}def ready(env, now, tx):\n    {body}\n\n\n{after}"
    (error,) = check(tmp_path, source)
    assert error.message == message
    assert error.file == f"{tmp_path}/mine.py:{line_of(source, 'def ready') + line}"
    assert "BLOCKED" in str(error)


@pytest.mark.parametrize(
    "body",
    [
        "while True:\n        return now",
        "if now > 3:\n        return now\n    else:\n        return 3",
        "raise ValueError",
    ],
)
def test_ready_that_always_returns(tmp_path, body):
    before, _, after = SOUND.partition("def ready(env, now, tx):\n")
    after = after[after.index("def fill") :]
    assert check(tmp_path, f"{before}def ready(env, now, tx):\n    {body}\n\n\n{after}") == []


@pytest.mark.parametrize(
    ("added", "message", "hint"),
    [
        ("def on_ack(env, now, tx, pkt):\n    pass", "on_ack is not a handler", "on_"),
        ("def on_nack(env, now, tx, pkt):\n    pass", "on_nack is not a handler", "on_"),
        ("def onData(env, now, rx, pkt):\n    pass", "onData is not a handler", '"on_data"'),
        ("def on_start_(env, now, tx):\n    pass", "on_start_ is not a handler", '"on_start"'),
        ("def Rank(env, tx):\n    return 0", "Rank is not a handler", '"rank"'),
        ("def setups(env, tx, rx):\n    pass", "setups is not a handler", '"setup"'),
        ("TX_STATES = ()", "TX_STATES is not a declaration", '"TX_STATE"'),
        ("RX_TIMER = 1", "RX_TIMER is not a declaration", '"RX_TIMERS"'),
        ("a, FABRICS = 1, {}", "FABRICS is not a declaration", '"FABRIC"'),
        ("PRESET: dict = {}", "PRESET is not a declaration", '"PRESETS"'),
        ("reliable = False", "reliable is not a declaration", '"RELIABLE"'),
    ],
)
def test_names_that_look_like_the_engines(tmp_path, added, message, hint):
    source = f"{SOUND}\n\n{added}\n"
    (error,) = check(tmp_path, source)
    assert error.message == f"{message}, and nothing uses it"
    assert hint in str(error.hint)
    assert error.file == f"{tmp_path}/mine.py:{line_of(source, added.splitlines()[0])}"


@pytest.mark.parametrize(
    "added",
    [
        "def on_ack(env):\n    pass\n\n\nHANDLERS = (on_ack,)",
        "def _on_ack(env):\n    pass",
        "def unused(env):\n    pass",
        "TX_TIMER = 0\nPACE = TX_TIMER",
        "LARGEST = 3",
    ],
)
def test_names_of_ones_own(tmp_path, added):
    assert check(tmp_path, f"{SOUND}\n\n{added}\n") == []


@pytest.mark.parametrize(
    ("before", "after", "key", "message"),
    [
        ("def fill(", "def _fill(", None, "has no function fill"),
        ("def ready(", "def _ready(", None, "has no function ready"),
        ("def fill(env, now, tx, pkt)", "def fill(env, tx, pkt)", None, "fill takes 3 arguments"),
        ("def fill(env, now, tx, pkt)", "def fill(*all)", None, "fill is not a plain function"),
        ("def fill(env", "async def fill(env", None, "fill is not a plain function"),
        ("def setup(", "fill = 3\n\ndef setup(", None, None),
        ("def setup(", "rank = 3\n\ndef setup(", "rank", "is not a plain function"),
        ('RX_STATE = ("n",)', 'RX_STATE = ("n")', "RX_STATE", "'n' is not a tuple of fields"),
        ('RX_STATE = ("n",)', "RX_STATE = 3", "RX_STATE", "3 is not a tuple of fields"),
        ('RX_STATE = ("n",)', 'RX_STATE = ("n", "n")', "RX_STATE", "names the field n twice"),
        ('RX_STATE = ("n",)', 'RX_STATE = ("n", "peer")', "RX_STATE", "the engine has"),
        ('RX_STATE = ("n",)', 'RX_STATE = ("n", "class")', "RX_STATE", "holds 'class', which"),
        ('RX_STATE = ("n",)', 'RX_STATE = ("_at",)', "RX_STATE", "holds '_at', which is not"),
        ('RX_STATE = ("n",)', 'RX_STATE = (("n", True),)', "RX_STATE", "holds ('n', True), which"),
        ('RX_STATE = ("n",)', 'RX_STATE = (("n", 10**12),)', "RX_STATE", "the fields take 8000000"),
        ('("notes", 4)', '("notes", 400)', "PACKET_FIELDS", "the fields take 3208 bytes"),
        ("TX_TIMERS, RTO = 1, 0", "TX_TIMERS, RTO = True, 0", "TX_TIMERS", "True is not a whole"),
        ("TX_TIMERS, RTO = 1, 0", "TX_TIMERS, RTO = 99, 0", "TX_TIMERS", "99 is not a whole"),
        ("TX_TIMERS, RTO = 1, 0", "TX_BITMAPS, RTO = 'x', 0", "TX_BITMAPS", "'x' is not a whole"),
    ],
)  # fmt: skip
def test_declarations_of_state_and_handlers(tmp_path, before, after, key, message):
    assert before in SOUND
    errors = check(tmp_path, SOUND.replace(before, after, 1))
    if message is None:
        assert errors == []
        return
    (error,) = errors
    assert error.message.startswith(message)
    assert error.key == key
    assert str(error.file).partition(":")[0] == str(tmp_path / "mine.py")


@pytest.mark.parametrize(
    ("declared", "key", "message"),
    [
        ("PRESETS = 3", "PRESETS", "3 is not a dict of presets"),
        ("PRESETS = {3: {}}", "PRESETS", "{3: {}} is not a dict of presets"),
        ('PRESETS = {"a": 3}', 'PRESETS["a"]', "3 is not a dict"),
        ('PRESETS = {"a": {3: 3}}', 'PRESETS["a"]', "{3: 3} is not a dict"),
        ('PRESETS = {"a:b": {}}', "PRESETS", '"a:b" is no name for a preset'),
        ('PRESETS = {"a": {"window": "x"}}', 'PRESETS["a"].window', '"x" is not a whole number'),
        ("PRESET_FABRIC = 3", "PRESET_FABRIC", "3 is not a dict of presets"),
        ('PRESET_FABRIC = {"a": 3}', 'PRESET_FABRIC["a"]', "3 is not a dict"),
        ('PRESET_FABRIC = {"a": {}}', 'PRESET_FABRIC["a"]', "no such preset"),
        ("FABRIC = 3", "FABRIC", "3 is not a dict"),
        ('FABRIC = "drop_tail"', "FABRIC", "'drop_tail' is not a dict"),
        ("FABRIC = {3: 3}", "FABRIC", "{3: 3} is not a dict"),
        ('CONTROL_PER_DATA = "x"', "CONTROL_PER_DATA", "'x' is not a number of packets"),
        ('CONTROL_PER_DATA = float("nan")', "CONTROL_PER_DATA", "nan is not a number of packets"),
        ("CONTROL_PER_DATA = -1", "CONTROL_PER_DATA", "-1 is not a number of packets"),
        ("CONTROL_PER_DATA = None", "CONTROL_PER_DATA", "None is not a number of packets"),
        ('RELIABLE = "no"', "RELIABLE", "'no' is neither True nor False"),
        ("CLOSED_FORM = 3", "CLOSED_FORM", "3 is neither True nor False"),
        ('TRACE = "acked"', "TRACE", "'acked' is not a tuple of names"),
        ("TRACE = (3,)", "TRACE", "(3,) is not a tuple of names"),
        ("PARAMS = 3", "PARAMS", "3 is not a list of Param"),
        ("PARAMS = None", "PARAMS", "None is not a list of Param"),
        ("PARAMS = [3]", "PARAMS[0]", "is not a Param"),
    ],
)
def test_other_declarations(tmp_path, declared, key, message):
    with pytest.raises(InputError) as caught:
        check(tmp_path, f"{SOUND}\n\n{declared}\n")
    assert caught.value.message == message
    assert caught.value.key == key
    assert caught.value.file == str(tmp_path / "mine.py")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ('3, "count", 1, "doc"', "3 is no name for a parameter"),
        ('"my-window", "count", 1, "doc"', "'my-window' is no name for a parameter"),
        ('"lambda", "count", 1, "doc"', "'lambda' is no name for a parameter"),
        ('"a", ["count"], 1, "doc"', "unit is not text but ['count']"),
        ('"a", "count", 1, None', "doc is not text but None"),
        ('"a", "choice", "x", "doc", choices="xyz"', "'xyz' is not a tuple of texts"),
    ],
)
def test_parameters(tmp_path, arguments, message):
    with pytest.raises(InputError) as caught:
        check(tmp_path, f"{SOUND}\n\nPARAMS = [Param({arguments})]\n")
    assert caught.value.message == message


def test_a_field_named_as_python_names_things(tmp_path):
    """In plain Python a record is an object, and these were names of its own."""
    from engine_runs import DROP_TAIL, build, fat_tree, flow_table, run

    source = SOUND.replace('"next_seq"', '"next_seq", "at", "views"')
    source = source.replace("pass  # fill\n", "tx.at += 2\n    tx.views -= 1\n")
    assert check(tmp_path, source) == []
    flows = flow_table([(0, 4, 3 * 4096, 0)])
    path = str(tmp_path / "mine.py")
    engine = run(build(fat_tree(4, 2, "100Gbps"), flows, path, DROP_TAIL, jit=False))
    tx = engine.state.ends.tx
    assert (int(tx["at"][0]), int(tx["views"][0])) == (6, -3)


EXPERIMENT = """
name = "mine"
[topology]
kind = "fat_tree"
hosts_per_leaf = 4
leaves = 2
[traffic]
kind = "permutation"
size = "10KB"
[transport]
kind = "./mine.py"
"""


@pytest.mark.parametrize("command", ["check", "run", "check-transport"])
def test_every_command_refuses(tmp_path, command):
    (tmp_path / "mine.py").write_text(SOUND.replace("pass  # on_forward", "port.delay_ps = 1"))
    (tmp_path / "mine.toml").write_text(EXPERIMENT)
    what = "mine.py" if command == "check-transport" else "mine.toml"
    done = subprocess.run(
        [sys.executable, "-m", "netsim", command, what],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    line = line_of((tmp_path / "mine.py").read_text(), "port.delay_ps")
    assert done.stderr == (
        f"error: {tmp_path}/mine.py:{line}: port.delay_ps belongs to the engine "
        "(what a switch has is only read)\n"
    )


def test_the_page_for_authors_has_what_may_be_set():
    page = (ROOT / "transports" / "README.md").read_text()
    table = page[page.index("| may be set |") :].partition("\n\n")[0]
    rows = [row.split("|")[2] for row in table.splitlines()[2:]]
    assert [tuple(re.findall("`([a-z]+)`", row)) for row in rows] == list(SETTABLE.values())
