"""Broken plugins: a working plugin of any kind with random mistakes."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from netsim import scaffold
from netsim.plugins import registry

DECLARATIONS = {
    "PARAMS": (
        "3",
        "None",
        "[1]",
        '"x"',
        "{}",
        '[Param("kind", "count", 1, "")]',
        "PARAMS + PARAMS",
    ),
    "PRESETS": ("3", "None", "[]", '{"a": 1}', '{"a": {"nosuch": 1}}', "{1: {}}"),
    "FABRIC": (
        "3",
        '{"queue_discipline": "x"}',
        '{"nosuch": 1}',
        '{"n_traffic_classes": 9}',
        '{"ecn": {}}',
        "[]",
    ),
    "PRESET_FABRIC": ("3", '{"nosuch": {}}', '{"careful": 3}'),
    "TX_STATE": (
        "3",
        '"abc"',
        "()",
        '("a", "a")',
        '(("a", "x"),)',
        '("flow",)',
        '("a b",)',
        "(1,)",
    ),
    "RX_STATE": (
        "None",
        '("received_bytes",)',
        '(("a", 5, 5),)',
        '("prio",)',
        '(("x", float, -1),)',
    ),
    "TX_BITMAPS": ("3", '"ab"', '("lost",)', "None", '("", "")'),
    "RX_BITMAPS": ("()", '("a", "a")'),
    "TX_TIMERS": ("-1", '"x"', "1000000", "None", "0", "1.5"),
    "RX_TIMERS": ("-1", "10**9", "True"),
    "PACKET_FIELDS": ("3", '("seq",)', '("a", "a")', '("x",) * 100', "None"),
    "RELIABLE": ('"no"', "3", "None"),
    "CLOSED_FORM": ("True", '"x"'),
    "CONTROL_PER_DATA": ('"x"', "-1", "float('nan')", "1e300", "None"),
    "HOST_STATE": ("3", '("a", "a")'),
}
OF_QUEUES = {
    **{name: DECLARATIONS[name] for name in ("PARAMS", "PRESETS", "PACKET_FIELDS")},
    "PORT_STATE": ("3", '"abc"', '("a", "a")', '("backlog",)', '(("a", "x"),)', "(1,)"),
    "CLASS_STATE": ("None", '("bytes",)', '(("a", 5, 5),)', '(("x", float, -1),)'),
    "SWITCH_STATE": ("3", '("a", "a")', '("a",)'),
    "COUPLED": ("1", '"x"', "None", "True"),
    "CLASSES": ("(3, 2)", "(1, 9)", "(1,)", "0", "9", "-1", "True", '"x"', "1", "None", "2.0"),
    "check": ("3", "None", "lambda *_: [3]", "lambda *_: 1 // 0", "lambda: ()"),
    "no_effect": ("3", "lambda _: 3", "lambda _: {1: 2}", 'lambda _: {"queue_bytes": ("a", "b")}'),
    "settle": ("3", "lambda *_: None", "lambda *_: {}", "lambda params, *_: {**params, 'x': 1}"),
}
OF_PROGRAMS = {
    **{name: DECLARATIONS[name] for name in ("PARAMS", "PRESETS")},
    "TASK_STATE": ("3", '"abc"', '("a", "a")', '("pending",)', '(("a", "x"),)', '("reply",)', "()"),
    "HOST_STATE": ("None", '("n_tasks",)', '(("a", 5, 5),)', '(("first", float), "last")'),
    "TIMERS": ("-1", '"x"', "10**9", "True", "0", "1.5"),
    "on_task": ("3", "None", "flows", "lambda env, now: 0", "lambda *_: 0"),
}
"""Names that a plugin may declare, and wrong values for each."""

STATEMENTS = (
    "raise ValueError('mine')", "while True: pass", "return None", "import sys; sys.exit(0)",
    "return float('nan')", "return -1", "return 2**62", "1 // 0", "x = 1 // (now - now)",
    "return 'x'", "tx.sent_packets = 5", "tx.start_ps = -1", "tx.flow = 10**6",
    "rx.received_bytes = 0", "tx.nosuch = 1", "pkt.prio = 7", "pkt.prio = -1", "pkt.seq = -1",
    "pkt.seq = 10**9", "pkt.size_bytes = 0", "pkt.size_bytes = 10**6", "pkt.flow = 99",
    "pkt.kind = 77", "pkt.dst = -5", "env.par.rto = 0", "set_timer(env, now, tx, 0, now)",
    "set_timer(env, now, tx, 0, -1)", "set_timer(env, now, tx, 9, now)",
    "set_timer(env, now, tx, 0, 2**62)", "send(env, rx, ACK, 0, 0, 9)",
    "send(env, rx, 99, 0, 0, 0)", "finish(env, now, tx)", "deliver(env, now, rx, 0)",
    "cancel_timer(env, tx, 50)", "del now", "tx.window = float('inf')", "tx.next_seq += 10**6",
    "tx.next_seq = -5", "raise KeyboardInterrupt", "print('x' * 10)", "global PARAMS; PARAMS = 3",
    "yield 1", "assert False", "return now + 1", "for i in range(10**12): pass",
    "import os; os.abort", "raise SystemExit(3)", "x = [0] * 10**9", "return BLOCKED", "pass",
    "env.nosuch()", "import time; time.sleep(3600)", "raise MemoryError",
)  # fmt: skip
"""Faulty or malicious first statements of a handler."""

BUILDERS = (
    "raise ValueError('mine')", "return None", "return 3", "import sys; sys.exit(0)", "return []",
    "params = {}", "params = dict.fromkeys(params, 0)", "params = dict.fromkeys(params, -1)",
    "1 // 0", "params = dict.fromkeys(params, 2**63)", "params = dict.fromkeys(params)",
    "raise KeyError('x')", "params = dict.fromkeys(params, 'x')", "raise MemoryError",
    "import numpy; return numpy.zeros(3)", "while True: pass",
    "params = dict.fromkeys(params, float('nan'))", "raise SystemExit(0)", "network = None",
    "rng = None", "network.n_hosts = 10**9", "vars(network).clear()",
    "return FlowTable([0], [0], [1])",
    "return FlowTable([0], [99], [1])", "return FlowTable([0], [1], [0])",
    "return FlowTable([], [], [])", "return FlowTable([0], [1], [2**62])",
    "return FlowTable([0], [1], [1], [-1])", "return FlowTable([0], [1], [1], [2**62])",
    "return FlowTable([0.5], [1], [1])", "return FlowTable([0], [1], [1], cls=5)",
    "return FlowTable([0, 1], [1], [1])", "return NetworkBuilder().build('x')",
    "b = NetworkBuilder(); b.add_hosts(2); return b.build('x')",
    "b = NetworkBuilder(); b.add_hosts(4); b.cable(0, 1, 10**9, 5); return b.build('x')",
    "b = NetworkBuilder(); b.add_hosts(2); b.cable(0, 1, 0, -5); return b.build('x')",
    "b = NetworkBuilder(); b.add_hosts(2); b.cable(0, 7, 10**9, 5); return b.build('x')",
    "b = NetworkBuilder(); b.add_hosts(2); b.cable(0, 1, 2.5, 'x'); return b.build('x')",
)  # fmt: skip
"""Statements, most of them wrong, to put first in a function of a topology or traffic pattern."""

QUEUE_STATEMENTS = (
    "raise ValueError('mine')", "while True: pass", "return None", "import sys; sys.exit(0)",
    "return float('nan')", "return -1", "return 2**62", "return 7", "1 // 0", "return DROP",
    "x = 1 // (now - now)", "return 'x'", "port.backlog = 0", "port.paused = 255", "port.turn = -5",
    "port.turn = 2**62", "port.nosuch = 1", "pkt.prio = 7", "pkt.prio = -1", "pkt.size_bytes = 0",
    "pkt.kind = 77", "pkt.dst = -5", "env.par.queue_bytes = 0", "class_of(env, port, 9)",
    "class_of(env, port, -1)", "peek(env, class_of(env, port, 0), 99)", "del now", "pass",
    "peek(env, class_of(env, port, 0), -1)", "return 1", "return 0", "assert False", "yield 1",
    "raise KeyboardInterrupt", "print('x' * 10)", "global PARAMS; PARAMS = 3", "env.nosuch()",
    "for i in range(10**12): pass", "raise SystemExit(3)", "env.links.queues[0].bytes = 5",
    "class_of(env, port, 0).deficit_bytes = -(10**12)", "queue.bytes = 0", "return now",
)  # fmt: skip
"""Statements, most of them wrong, to put first in a queue discipline's handler."""

PROGRAM_STATEMENTS = (
    "raise ValueError('mine')", "while True: pass", "return None", "import sys; sys.exit(0)",
    "1 // 0", "x = 1 // (now - now)", "return 'x'", "yield 1", "assert False", "del now", "pass",
    "start(env, now, task_at(env, 0))", "start(env, now, task_at(env, 10**9))", "task_at(env, -1)",
    "start(env, now - 1, task_at(env, 1))", "set_duration(env, task_at(env, 0), -1)",
    "set_duration(env, task_at(env, 0), 2**62)", "set_timer(env, now, 0, now)",
    "set_timer(env, now, 0, 2**62)", "set_timer(env, now, 9, now)", "env.host.nosuch = 1",
    "env.host.n_tasks = 5", "env.host.waiting = 2**62", "env.host.first = -1", "env.par.base = 0",
    "env.host.in_batch = 10**9", "env.engine.host.rule_broken = 0", "task.pending = 5",
    "task.next = 10**9", "global PARAMS; PARAMS = 3",
    "raise SystemExit(3)", "for i in range(10**12): pass",
    "env.nosuch()", "x = [0] * 10**9", "return Workload(FlowTable([0], [1], [1]))",
    "return Workload(FlowTable([0], [1], [1]), TaskTable([0], 0, deferred=True))",
    "return Workload(FlowTable([0], [1], [1]), TaskTable([0], 0), {'next': 0.5})",
    "return Workload(FlowTable([0], [1], [1]), TaskTable([0], 0), {'nosuch': 1})",
    "return Workload(FlowTable([0], [1], [1]), TaskTable([0], 0), 3)",
)  # fmt: skip
"""Statements, most of them wrong, to put first in a program's handler."""

EXPERIMENT = """
transport = {transport}
[topology]
kind = {topology}
hosts_per_leaf = 2
leaves = 2
[traffic]
kind = {traffic}
[fabric]
{fabric}
"""


@dataclass
class Case:
    """The plugin mine.py, and the experiment that uses it."""

    kind: str
    source: str
    experiment: str
    what: str


@cache
def _sources(kind: str) -> tuple[str, ...]:
    names = {
        "transport": ("datagram", "dctcp", "ndp", "roce"),
        "queue": ("drop_tail", "trim", "lossless"),
        "traffic": ("permutation", "pattern", "all_to_all"),
    }.get(kind)
    if kind == "program":
        return (registry.find("traffic", "batch_server").path.read_text("utf-8"),)
    if names is not None:
        folder = Path(next(iter(scaffold.__path__)))
        template = (folder / f"my_{kind}.py").read_text("utf-8")
        return (
            template,
            template,
            *(registry.find(kind, name).path.read_text("utf-8") for name in names),
        )
    return (registry.find("topology", "fat_tree").path.read_text("utf-8"),)


def case(number: int) -> Case:
    """Return plugin `number`."""
    rng = random.Random(f"plugin {number}")
    kind = rng.choice(["transport"] * 4 + ["queue"] * 2 + ["program", "topology", "traffic"])
    source, what = rng.choice(_sources(kind)), []
    for _ in range(rng.choice([1, 1, 1, 2])):
        mutate = rng.choices(_MUTATIONS, _WEIGHTS)[0]
        source, did = mutate(rng, source, kind)
        what.append(did)
    uses = {"transport": '"ndp"', "topology": '"fat_tree"', "traffic": '"permutation"'}
    uses["fabric"] = ""
    uses["traffic" if kind == "program" else kind] = '"./mine.py"'
    uses["traffic"] += "\nrequests = 40" if kind == "program" else '\nsize = "20KB"'
    if kind == "queue":  # of roce: what a discipline wants of classes is up to its file
        uses |= {"transport": '"roce"', "fabric": 'queue_discipline = "./mine.py"'}
    return Case(kind, source, EXPERIMENT.format(**uses), "; ".join(what))


# --- mutations: the source, and what was done ----------------------------------------------------


def _declared(rng: random.Random, source: str, kind: str) -> tuple[str, str]:
    """Append a wrong declaration after the correct one."""
    declarations = {"queue": OF_QUEUES, "program": OF_PROGRAMS}.get(kind, DECLARATIONS)
    name = rng.choice(list(declarations))
    value = rng.choice(declarations[name])
    return f"{source}\n\n{name} = {value}\n", f"{name} = {value}"


def _inserted(rng: random.Random, source: str, kind: str) -> tuple[str, str]:
    """Insert a statement at the start of a function."""
    found = _functions(source)
    if not found:
        return _lines(rng, source, kind)
    function = rng.choice(found)
    statement = rng.choice(_STATEMENTS.get(kind, BUILDERS))
    lines = source.split("\n")
    at = function.body[0].lineno - 1
    lines.insert(at, " " * function.body[0].col_offset + statement)
    return "\n".join(lines), f"{function.name}: {statement}"


def _signature(rng: random.Random, source: str, kind: str) -> tuple[str, str]:
    """Remove a function, or change its name, arguments or type."""
    found = _functions(source)
    if not found:
        return _lines(rng, source, kind)
    function = rng.choice(found)
    lines = source.split("\n")
    at = function.lineno - 1
    way = rng.choice(["gone", "rename", "more", "fewer", "class", "constant"])
    if way == "gone":
        del lines[at : function.end_lineno]
    elif way == "constant":
        lines[at : function.end_lineno] = [f"{function.name} = 3"]
    elif way == "class":
        lines[at] = f"class {function.name}:\n    def f(self):"
        lines[at + 1 : function.end_lineno] = ["        pass"]
    elif way == "rename":
        new = rng.choice(["on_ack", "On_data", "fil", "on_send", "nosuch"])
        lines[at] = lines[at].replace(f"def {function.name}", f"def {new}", 1)
    elif way == "more":
        lines[at] = lines[at].replace("(", "(extra, ", 1)
    else:
        lines[at] = lines[at].replace("(env, ", "(", 1).replace("(params, ", "(", 1)
    return "\n".join(lines), f"{function.name} {way}"


def _lines(rng: random.Random, source: str, _: str) -> tuple[str, str]:
    """Remove, repeat, swap or reindent lines of code."""
    lines = source.split("\n")
    code = [
        at for at, line in enumerate(lines) if line.strip() and not line.strip().startswith("#")
    ]
    at, other = rng.choice(code), rng.choice(code)
    way = rng.choice(["lose", "lose", "double", "swap", "indent", "cut", "top"])
    text = lines[at].strip()
    if way == "lose":
        del lines[at]
    elif way == "double":
        lines.insert(at, lines[at])
    elif way == "swap":
        lines[at], lines[other] = lines[other], lines[at]
    elif way == "indent":
        lines[at] = " " * rng.randrange(9) + text
    elif way == "cut":
        lines = lines[:at]
    else:
        lines.append(
            rng.choice(
                ["1 / 0", "import sys; sys.exit(0)", "import nosuch", "raise OSError", "(", "\x00"]
            )
        )
    return "\n".join(lines), f"{way} {text[:60]}"


def _names(rng: random.Random, source: str, kind: str) -> tuple[str, str]:
    """Replace one use of a name or a number by another of the file."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError):
        return _lines(rng, source, kind)
    uses = [node for node in nodes if isinstance(node, ast.Name | ast.Constant | ast.Attribute)]
    uses = [node for node in uses if node.lineno == node.end_lineno]
    one, other = rng.choice(uses), rng.choice(uses)
    if isinstance(one, ast.Constant) and isinstance(one.value, int):
        new = rng.choice(["0", "-1", "10**9", "2**62", "1.5", "None", "2**70"])
    else:
        new = ast.unparse(other)
    lines = source.split("\n")
    line = lines[one.lineno - 1].encode()
    lines[one.lineno - 1] = (
        line[: one.col_offset] + new.encode() + line[one.end_col_offset :]
    ).decode()
    return "\n".join(lines), f"line {one.lineno}: {ast.unparse(one)[:40]} -> {new[:40]}"


def _functions(source: str) -> list[ast.FunctionDef]:
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):
        return []
    return [node for node in body if isinstance(node, ast.FunctionDef)]


_WEIGHTED: list[tuple[Callable[[random.Random, str, str], tuple[str, str]], int]] = [
    (_declared, 2),
    (_inserted, 5),
    (_signature, 2),
    (_lines, 2),
    (_names, 4),
]
_STATEMENTS = {
    "transport": STATEMENTS,
    "queue": QUEUE_STATEMENTS,
    "program": PROGRAM_STATEMENTS,
}
_MUTATIONS = [mutation for mutation, _ in _WEIGHTED]
_WEIGHTS = [weight for _, weight in _WEIGHTED]
