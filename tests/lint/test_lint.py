"""A plugin that breaks a rule is rejected with the line when it is loaded for use."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from engine_runs import DROP_TAIL, build, fat_tree, flow_table, run
from raises_input import mentions

from netsim.engine.compiling import lint
from netsim.engine.compiling.declarations import SETTABLE
from netsim.errors import InputError, RunError
from netsim.model.fabric import queue_spec
from netsim.params import resolve_params
from netsim.plugins import registry

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = ROOT / "netsim/conformance/templates"

SOUND = '''
"""A window of packets, each acknowledged."""

from netsim.blocks import selective
from netsim.params import Param
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


def build_packet(env, now, tx, pkt):
    pkt.seq = tx.next_seq
    tx.next_seq += 1
    pass  # build_packet


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

QUEUE = '''
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

PROGRAM = '''
"""Each task starts the next one when it is done."""

from netsim.params import Param
from netsim.program import armed, cancel_timer, log_row, set_duration, set_timer
from netsim.program import peer_host, flow_bytes, start, task_at

PARAMS = [Param("gap", "time", "1us", "waits"), Param("file", "file", "a.csv", "no number")]
TASK_STATE = ("next", ("weights", 4))
HOST_STATE = ("seen", ("mean", float))
TIMERS = 2
LOG = ("event", "who")


def flows(params, network, rng, context):
    raise NotImplementedError


def on_begin(env, now):
    set_timer(env, now, 0, now + env.par.gap)
    pass  # on_begin


def on_task(env, now, task):
    env.host.seen += task.runs + flow_bytes(env, task) + peer_host(env, task)
    task.weights[1] = env.host.host
    following = task_at(env, task.next)
    set_duration(env, following, env.par.gap)
    start(env, now, following)
    log_row(env, now, 1, task.index)
    pass  # on_task


def on_timer(env, now, k):
    if armed(env, 1 - k):
        cancel_timer(env, 1 - k)
    env.host.mean = 0.5
    helper(env, task_at(env, 0))
    pass  # on_timer


def helper(env, other):
    pass  # helper
'''


def check(folder: Path, source: str, kind: str = "transport") -> list[InputError]:
    """Return the lint errors of a plugin with this source."""
    path = folder / "mine.py"
    path.write_text(source)
    plugin = registry.find(kind, str(path))
    params = resolve_params(plugin.params, plugin.presets, {}, None, file=None, key="")
    try:
        lint.check(plugin, params)
    except InputError as error:
        return list(error.errors)
    return []


def line_of(source: str, text: str) -> int:
    lines = [n for n, line in enumerate(source.splitlines(), start=1) if text in line]
    assert len(lines) == 1, text
    return lines[0]


SOURCES = {"transport": SOUND, "queue": QUEUE, "traffic": PROGRAM}


def with_statement(kind: str, where: str, statement: str) -> tuple[str, int]:
    """Return a correct plugin with a statement put at a mark, and its line."""
    source = SOURCES[kind].replace(f"pass  # {where}\n", f"{statement}  # {where}\n")
    return source, line_of(source, f"# {where}")


def test_netsims_plugins_and_templates_have_no_errors(tmp_path):
    for name in registry.names("transport"):
        plugin = registry.find("transport", name)
        for preset in (None, *plugin.presets):
            lint.check(
                plugin, resolve_params(plugin.params, plugin.presets, {}, preset, file=None, key="")
            )
    for name in registry.names("queue"):
        lint.check(queue_spec(name).plugin, queue_spec(name).params)
    for name in registry.names("traffic"):
        plugin = registry.find("traffic", name)
        lint.check(plugin, {one.name: 0 for one in plugin.params})
    for kind in ("transport", "queue"):
        assert check(tmp_path, (TEMPLATES / f"my_{kind}.py").read_text(), kind) == []
    for kind, source in SOURCES.items():
        assert check(tmp_path, source, kind) == []


WRONG = [
    ("transport", "setup", "tx.start_ps = 0", "tx.start_ps"),
    ("transport", "build_packet", "pkt.size_bytes = 1", "pkt.size_bytes"),
    ("transport", "build_packet", "env.host.rule_broken = 3", "env.host.rule_broken"),
    ("transport", "build_packet", "host = env.host; host.port = 3", "host.port"),
    ("transport", "build_packet", "other = env.tx[0]; other.finished = 1", "other.finished"),
    ("transport", "build_packet", "for one in env.tx: one.host = 1", "one.host"),
    ("transport", "build_packet", "(tx if now > 3 else env.tx[1]).host = 1", "host"),
    ("transport", "build_packet", "(a := tx).host = 1", "host"),
    ("transport", "build_packet", "tx['host'] = 1", "tx.host"),
    ("transport", "build_packet", "par = env.par; par.rto += 3", ("par.rto", "constant")),
    ("transport", "build_packet", "env.tx[3] = tx", "env.tx"),
    ("transport", "build_packet", "bits = env.bits; bits[3] |= 1", "env.bits"),
    ("transport", "build_packet", "env.host = tx", "env.host"),
    ("transport", "build_packet", "a = env.hosts", ("env", "hosts")),
    ("transport", "on_data", "pkt.flow = 3", "pkt.flow"),
    ("transport", "on_data", "ack.dst = 3", "ack.dst"),
    ("transport", "on_data", "pkt.prio = 3", "pkt.prio"),
    ("transport", "on_forward", "port.delay_ps = 1", "port.delay_ps"),
    ("transport", "on_forward", "pkt.dst = 0", "pkt.dst"),
    ("transport", "helper", "other.done_head = 0", "other.done_head"),
    ("queue", "admit", "queue.bytes = 0", "queue.bytes"),
    ("queue", "admit", "class_of(env, port, 1).drops += 1", "drops"),
    ("queue", "admit", "port.backlog = 0", "port.backlog"),
    ("queue", "admit", "pkt.size_bytes = 1", "pkt.size_bytes"),
    ("queue", "admit", "last.flow = 1", "last.flow"),
    ("queue", "admit", "head.prio = 1", "head.prio"),
    ("queue", "on_arrival", "env.links = 3", "env.links"),
    ("queue", "on_arrival", "env.par.room = 3", "env.par.room"),
    ("queue", "on_send", "pkt.dst = 1", "pkt.dst"),
    ("queue", "choose_class", "a = env.host", ("env", "host")),
    ("queue", "helper", "other.sent_bytes = 1", "other.sent_bytes"),
    ("traffic", "on_task", "task.duration_ps = 5", "task.duration_ps"),
    ("traffic", "on_task", "following.pending = 0", "following.pending"),
    ("traffic", "on_task", "env.host.n_tasks = 1", "env.host.n_tasks"),
    ("traffic", "on_begin", "env.par.gap = 1", "env.par.gap"),
    ("traffic", "on_begin", "a = env.engine", ("env", "engine")),
    ("traffic", "helper", "other.start_ps = 1", "other.start_ps"),
]
"""Kind, where, statement, and what the error names."""


def test_broken_rule_is_reported_with_its_line(tmp_path):
    for kind, where, statement, expected in WRONG:
        source, line = with_statement(kind, where, statement)
        (error,) = check(tmp_path, source, kind)
        assert mentions(error.message, expected)
        assert error.file == f"{tmp_path / 'mine.py'}:{line}"


FINE = [
    ("setup", "tx.prio = 1; rx.prio = 1; tx.entropy = 3; rx.n = 3; env.host.credit = 1"),
    ("build_packet", "pkt.aux = 1; pkt.prio = 1; pkt.entropy = 1; pkt.kind = 2; pkt.stamp = now"),
    ("build_packet", "pkt.notes[1] = 3; tx.sent[0] = 1; env.host.active[0] = 2; tx.rate = 0.5"),
    ("build_packet", "sent = tx.sent; sent[1] = 3"),
    ("build_packet", "for i in range(3): env.tx[i].acked = 3"),
    ("build_packet", "tx.retransmits += 1"),
    ("build_packet", "other = env.rx[0] if now > 3 else env.rx[1]; other.n = 1"),
    ("on_data", "ack.ecn = 2; ack.entropy = 3; ack.aux = 3; ack.stamp = 1; ack.notes[0] = 1"),
    ("on_data", "pkt = send(env, rx, ACK, 0, 0, 0); pkt.ecn = 2"),
    ("on_forward", "pkt.stamp = queue.bytes; pkt.notes[int(pkt.hops)] = port.ps_per_byte_q20"),
    ("helper", "other.credit = [1, 2][0]; x = (lambda y: y.what)(3)"),
    ("build_packet", "x = 3 if now else 4; x += abs(x); print(x)"),
]


def test_allowed_statements_have_no_errors(tmp_path):
    for where, statement in FINE:
        assert check(tmp_path, with_statement("transport", where, statement)[0]) == []


REPORTED_BY_THE_RUN = [
    ("tx.windw = 1", "windw"),
    ("a = pkt.stmp", "stmp"),
    ("a = undefined_name", "undefined_name"),
    ("selective.tak(env, tx)", ("netsim.blocks.selective", "tak")),
    ("helper(env, tx)", "helper()"),
    ("selective.take(env, tx)", "n_rtx"),
]


def test_other_mistakes_end_the_run_with_their_line(tmp_path):
    for statement, expected in REPORTED_BY_THE_RUN:
        source, line = with_statement("transport", "build_packet", statement)
        assert check(tmp_path, source) == []
        flows = flow_table([(0, 4, 3 * 4096, 0)])
        path = str(tmp_path / "mine.py")
        with pytest.raises(RunError) as caught:
            run(build(fat_tree(4, 2, "100Gbps"), flows, path, DROP_TAIL, jit=False))
        assert mentions(str(caught.value), "build_packet", f"line {line}", expected)


def test_all_errors_are_reported_at_once(tmp_path):
    source = SOUND.replace("pass  # build_packet", "pkt.flow = 1; tx.host = 2").replace(
        "pass  # on_forward", "port.tail = 1"
    )
    assert len(check(tmp_path, source)) == 3


def test_error_in_an_imported_module_is_reported_there(tmp_path):
    (tmp_path / "beside.py").write_text("def count(one, tx):\n    one.port = 1\n    tx.acked = 1\n")
    source = SOUND.replace("pass  # build_packet", "beside.count(env.host, tx)")
    (error,) = check(
        tmp_path, source.replace("from netsim.blocks", "import beside\nfrom netsim.blocks")
    )
    assert error.file == f"{tmp_path}/beside.py:2"


def with_ready(body: str) -> str:
    """Return the transport with a different body of `ready`."""
    before, _, after = SOUND.partition("def ready(env, now, tx):\n")
    after = after[after.index("def build_packet") :]
    return f"{before}def ready(env, now, tx):\n    {body}\n\n\n{after}"


def test_ready_must_return_a_time_on_every_path(tmp_path):
    for body, line in [
        ("if now > 3:\n        return now", 0),
        ("if now > 3:\n        return now\n    return", 3),
        ("return None", 1),
        ("for i in range(3):\n        return now", 0),
        ("while True:\n        if now > 3:\n            break", 0),
        ("tx.acked = 0", 0),
    ]:
        source = with_ready(body)
        (error,) = check(tmp_path, source)
        assert mentions(str(error), "ready", "BLOCKED")
        assert error.file == f"{tmp_path}/mine.py:{line_of(source, 'def ready') + line}"
    for body in [
        "while True:\n        return now",
        "if now > 3:\n        return now\n    else:\n        return 3",
        "raise ValueError",
    ]:
        assert check(tmp_path, with_ready(body)) == []


def test_misspelled_handlers_and_declarations_are_reported(tmp_path):
    for added, message, hint in [
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
    ]:
        source = f"{SOUND}\n\n{added}\n"
        (error,) = check(tmp_path, source)
        assert mentions(error.message, message)
        assert hint in str(error.hint)
        assert error.file == f"{tmp_path}/mine.py:{line_of(source, added.splitlines()[0])}"


@pytest.mark.parametrize(
    ("before", "after", "key", "message"),
    [
        ("def build_packet(", "def _build_packet(", None, "build_packet"),
        ("def ready(", "def _ready(", None, "function"),
        ("_packet(env, now, tx, pkt)", "_packet(env, tx, pkt)", None, "3"),
        ("_packet(env, now, tx, pkt)", "_packet(*all)", None, "function"),
        ("def build_packet(", "async def build_packet(", None, "function"),
        ("def setup(", "build_packet = 3\n\ndef setup(", None, None),
        ("def setup(", "rank = 3\n\ndef setup(", "rank", "function"),
        ('RX_STATE = ("n",)', 'RX_STATE = ("n")', "RX_STATE", "n"),
        ('RX_STATE = ("n",)', "RX_STATE = 3", "RX_STATE", "3"),
        ('RX_STATE = ("n",)', 'RX_STATE = ("n", "n")', "RX_STATE", "field"),
        ('RX_STATE = ("n",)', 'RX_STATE = ("n", "peer")', "RX_STATE", ""),
        ('RX_STATE = ("n",)', 'RX_STATE = ("n", "class")', "RX_STATE", "class"),
        ('RX_STATE = ("n",)', 'RX_STATE = ("_at",)', "RX_STATE", "_at"),
        ('RX_STATE = ("n",)', 'RX_STATE = (("n", True),)', "RX_STATE", "n"),
        ('RX_STATE = ("n",)', 'RX_STATE = (("n", 10**12),)', "RX_STATE", "8000000"),
        ('("notes", 4)', '("notes", 400)', "PACKET_FIELDS", "3208"),
        ("TX_TIMERS, RTO = 1, 0", "TX_TIMERS, RTO = True, 0", "TX_TIMERS", ""),
        ("TX_TIMERS, RTO = 1, 0", "TX_TIMERS, RTO = 99, 0", "TX_TIMERS", "99"),
        ("TX_TIMERS, RTO = 1, 0", "TX_BITMAPS, RTO = 'x', 0", "TX_BITMAPS", "x"),
    ],
)  # fmt: skip
def test_invalid_state_and_handlers_are_reported(tmp_path, before, after, key, message):
    assert before in SOUND
    errors = check(tmp_path, SOUND.replace(before, after, 1))
    if message is None:
        assert errors == []
        return
    (error,) = errors
    assert mentions(error.message, message)
    assert error.key == key
    assert str(error.file).partition(":")[0] == str(tmp_path / "mine.py")


def test_invalid_constants_of_the_module_are_rejected(tmp_path):
    for declared, key, message in [
        ("PRESETS = 3", "PRESETS", "3"),
        ("PRESETS = {3: {}}", "PRESETS", "3"),
        ('PRESETS = {"a": 3}', 'PRESETS["a"]', "3"),
        ('PRESETS = {"a": {3: 3}}', 'PRESETS["a"]', "3"),
        ('PRESETS = {"a:b": {}}', "PRESETS", "a:b"),
        ('PRESETS = {"a": {"window": "x"}}', 'PRESETS["a"].window', "x"),
        ("PRESET_FABRIC = 3", "PRESET_FABRIC", "3"),
        ('PRESET_FABRIC = {"a": 3}', 'PRESET_FABRIC["a"]', "3"),
        ('PRESET_FABRIC = {"a": {}}', 'PRESET_FABRIC["a"]', ""),
        ("FABRIC = 3", "FABRIC", "3"),
        ('FABRIC = "drop_tail"', "FABRIC", "drop_tail"),
        ("FABRIC = {3: 3}", "FABRIC", "3"),
        ('CONTROL_PER_DATA = "x"', "CONTROL_PER_DATA", "x"),
        ('CONTROL_PER_DATA = float("nan")', "CONTROL_PER_DATA", "packet"),
        ("CONTROL_PER_DATA = -1", "CONTROL_PER_DATA", "-1"),
        ("CONTROL_PER_DATA = None", "CONTROL_PER_DATA", "packet"),
        ('RELIABLE = "no"', "RELIABLE", "no"),
        ("CLOSED_FORM = 3", "CLOSED_FORM", "3"),
        ('TRACE = "acked"', "TRACE", "acked"),
        ("TRACE = (3,)", "TRACE", "3"),
        ("PARAMS = 3", "PARAMS", "3"),
        ("PARAMS = None", "PARAMS", ""),
        ("PARAMS = [3]", "PARAMS[0]", ""),
    ]:
        with pytest.raises(InputError) as caught:
            check(tmp_path, f"{SOUND}\n\n{declared}\n")
        assert mentions(caught.value.message, message)
        assert caught.value.key == key
        assert caught.value.file == str(tmp_path / "mine.py")


def test_invalid_params_are_rejected(tmp_path):
    for arguments, message in [
        ('3, "count", 1, "doc"', "3"),
        ('"my-window", "count", 1, "doc"', "my-window"),
        ('"lambda", "count", 1, "doc"', "lambda"),
        ('"a", ["count"], 1, "doc"', "count"),
        ('"a", "count", 1, None', ""),
        ('"a", "choice", "x", "doc", choices="xyz"', "xyz"),
    ]:
        with pytest.raises(InputError) as caught:
            check(tmp_path, f"{SOUND}\n\nPARAMS = [Param({arguments})]\n")
        assert mentions(caught.value.message, message)


def test_fields_may_be_named_like_attributes_of_records(tmp_path):
    """In plain Python a record is an object, which once had attributes `at` and `views`."""
    source = SOUND.replace('"next_seq"', '"next_seq", "at", "views"')
    source = source.replace("pass  # build_packet\n", "tx.at += 2\n    tx.views -= 1\n")
    assert check(tmp_path, source) == []
    flows = flow_table([(0, 4, 3 * 4096, 0)])
    path = str(tmp_path / "mine.py")
    engine = run(build(fat_tree(4, 2, "100Gbps"), flows, path, DROP_TAIL, jit=False))
    tx = engine.state.hosts.tx
    assert (int(tx["at"][0]), int(tx["views"][0])) == (6, -3)


DECLARED = [
    ("queue", "def admit(", "def admitt(", "has no function admit"),
    ("queue", "admit(env, now, port, pkt)", "admit(env, port, pkt)", "admit takes 3 arguments"),
    ("queue", "COUPLED = True", "COUPLED = False", "requires coupled ports"),
    ("queue", "COUPLED = True", "COUPLED = 1", "1 is neither True nor False"),
    ("queue", '("turn",', '("backlog", "turn",', "field backlog is reserved by the engine"),
    ("queue", "def on_send(", "def on_sent(", "on_sent is not a handler and is unused"),
    ("queue", "PORT_STATE", "PORT_STATES", "PORT_STATES is not a declaration and is unused"),
    ("queue", "return int(pkt.prio)", "pass", "admit ends without returning"),
    ("traffic", "on_timer(env, now, k)", "on_timer(env, now)", "on_timer takes 2 arguments"),
    ("traffic", "def on_begin(", "def on_began(", "on_began is not a handler and is unused"),
    ("traffic", "TIMERS = 2", "TIMERS = 99", "99 is not a whole number from 0 to 15"),
    ("traffic", '("seen",', '("n_tasks", "seen",', "field n_tasks is reserved by the engine"),
    ("traffic", '"event", ', '("event", float), ', "holds ('event', <class 'float'>), and a log"),
    ("traffic", '"event", ', '"host", ', "field host is reserved by the engine"),
    ("traffic", "LOG = ", "LOGS = ", "LOGS is not a declaration and is unused"),
    ("traffic", "HOST_STATE", "HOST_STATES", "HOST_STATES is not a declaration and is unused"),
]


def test_invalid_declarations_of_other_kinds_are_reported(tmp_path):
    for kind, text, instead, expected in DECLARED:
        assert SOURCES[kind].count(text) == 1
        errors = check(tmp_path, SOURCES[kind].replace(text, instead), kind)
        assert any(expected in error.message for error in errors), errors


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


def test_every_command_rejects_a_broken_transport(tmp_path):
    (tmp_path / "mine.py").write_text(SOUND.replace("pass  # on_forward", "port.delay_ps = 1"))
    (tmp_path / "mine.toml").write_text(EXPERIMENT)
    for command, argument in (("check", "mine.toml"), ("run", "mine.toml"), ("check", "mine.py")):
        done = subprocess.run(
            [sys.executable, "-m", "netsim", command, argument],
            cwd=tmp_path,
            capture_output=True,
            check=False,
            text=True,
            timeout=60,
        )
        assert done.returncode == 2
        line = line_of((tmp_path / "mine.py").read_text(), "port.delay_ps")
        assert mentions(done.stderr, tmp_path, "mine.py", line, "port.delay_ps")


def test_guide_lists_the_settable_fields():
    page = (ROOT / "transports" / "README.md").read_text()
    table = page[page.index("| may be set |") :].partition("\n\n")[0]
    rows = [row.split("|")[2] for row in table.splitlines()[2:]]
    assert [tuple(re.findall("`([a-z_]+)`", row)) for row in rows] == list(SETTABLE.values())
