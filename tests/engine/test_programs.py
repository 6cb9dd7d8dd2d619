"""Traffic programs."""

from pathlib import Path
from typing import Any

import numpy as np
from engine_runs import run
from program_case import HEAD, body, done, engine, load_of
from raises_input import raises, raises_input
from traffic_cases import star

from netsim.engine.compiling.declarations import program_parameters
from netsim.engine.kernels.handlers import PROGRAM_HANDLERS
from netsim.engine.kernels.layout import DONE
from netsim.errors import RunError
from netsim.flows import COMPUTE, JOIN, RECEIVE, SEND, FlowTable, TaskTable, Workload
from netsim.model.workload import HANDLER_NAMES
from netsim.plugins import registry
from netsim.plugins.registry import PluginSpec

START = "start(env, now, task_at(env, {}))".format
RESIZE = "set_size(env, task_at(env, {}), {})".format
WORDS = "set_words(env, task_at(env, {}), 1, 2)".format
LAST = "set_duration(env, task_at(env, {}), {})".format
AGAIN = "    start(env, now, task)"
RULES: dict[str, tuple[dict[str, tuple[str, ...]], tuple[str, ...]]] = {
    "another host's task": ({"on_begin": (START(4),)}, ("task 4",)),
    "no task": ({"on_begin": (START(-1),)}, ("-1",)),
    "a task that starts by itself": ({"on_begin": (START(1),)}, ("task 1",)),
    "a running task": ({"on_begin": (START(2), START(2))}, ("task 2",)),
    "a task whose handler has not run yet": ({"on_begin": (START(0), START(0))}, ("task 0",)),
    "a flow twice": ({"on_task": ("if task.index == 3:", AGAIN)}, ("task 3",)),
    "the duration of a join": ({"on_begin": (LAST(0, 5),)}, ("5 ps", "0", "20")),
    "a negative duration": ({"on_begin": (LAST(2, -5),)}, ("-5 ps",)),
    "a duration of 20 hours": ({"on_begin": (LAST(2, "1 << 56"),)}, ("72057594037927936 ps",)),
    "the duration of a running task": ({"on_begin": (START(2), LAST(2, 1))}, ("task 2",)),
    "an undeclared timer": ({"on_begin": ("set_timer(env, now, 2, 5)",)}, ("2", "TIMERS", "20")),
    "the same, canceled": ({"on_begin": ("cancel_timer(env, -1)",)}, ("-1", "TIMERS")),
    "the same, queried": ({"on_begin": ("env.host.seen = armed(env, 7)",)}, ("7", "TIMERS")),
    "a timer at infinity": (
        {"on_timer": ("set_timer(env, now, 0, INF)",), "on_begin": ("set_timer(env, now, 1, 7)",)},
        ("0", "TIMERS", "20"),
    ),
    "the size of a flow that is received": ({"on_task": (RESIZE(1, 5),)}, ("task 1",)),
    "the size of a flow that has started, twice": (
        {"on_task": ("if task.index == 3:", "    set_size(env, task, 5)")},
        ("task 3",),
    ),
    "a size of zero": ({"on_begin": (RESIZE(3, 0),)}, ("0", "1")),
    "a size above the table's": ({"on_begin": (RESIZE(3, 9), RESIZE(3, 4097))}, ("4097",)),
    "words of a flow that is received": ({"on_task": (WORDS(1),)}, ("task 1",)),
    "words of a flow that has started, twice": (
        {"on_task": ("if task.index == 3:", "    set_words(env, task, 5, 6)")},
        ("task 3",),
    ),
    "the word of a compute task": (
        {"on_begin": ("env.host.seen = word_of(env, task_at(env, 2), 0)",)},
        ("task 2",),
    ),
    "a third word": (
        {"on_begin": ("env.host.seen = word_of(env, task_at(env, 3), 2)",)},
        ("task 3",),
    ),
    "a log row with a missing value": ({"on_begin": ("log_row(env, now, *(1,))",)}, ("1", "LOG")),
    "too many log rows": (
        {"on_task": ("log_row(env, now, 1, 2)",), "on_begin": ("log_row(env, now, 1, 2)",) * 2},
        ("2", "log_rows"),
    ),
    "timers in an endless loop": (
        {"on_timer": ("set_timer(env, now, k, 0)",), "on_begin": ("set_timer(env, now, 0, 5)",)},
        ("10601",),
    ),
    "tasks in an endless loop": (
        {"on_task": ("if task.index == 0:", AGAIN), "on_begin": (START(0),)},
        ("10601",),
    ),
}
"""Broken rule -> lines of handlers, of which the first breaks it, and words of the error."""


def test_broken_rule_is_reported_with_handler_and_host(tmp_path: Path) -> None:
    for name, (handlers, words) in RULES.items():
        deferred = [0, 2, 3] if "twice" not in name else []
        text = "".join(body(handler, *lines) for handler, lines in handlers.items())
        one = engine(star(2), load_of(tmp_path, text, deferred, log_rows=[2, 100]))
        with raises(RunError, "mine.py", next(iter(handlers)), words, "host 0"):
            run(one)


def test_exception_in_a_handler_is_reported_with_its_line(tmp_path: Path) -> None:
    text = body("on_begin", "env.host.seen = 1 // env.host.seen")
    with raises(RunError, "mine.py", "on_begin", "host 0", "line 16"):
        run(engine(star(2), load_of(tmp_path, text, [])))


def test_run_ends_without_tasks_that_are_never_started(tmp_path: Path) -> None:
    one = engine(star(2), load_of(tmp_path, body("on_begin", "pass"), [0, 2, 3]))
    assert done(one) == DONE
    states, flows = one.task_states(), one.flow_states()
    assert states.runs.tolist() == [0, 1, 0, 0, 0, 1]
    assert states.start_ps.tolist() == [-1, 0, -1, -1, -1, 0]
    assert flows.waits_for.tolist() == [1]
    assert one.counts.delivered == 0


def test_fields_start_with_the_values_of_the_workload(tmp_path: Path) -> None:
    text = "\nTASK_STATE = ('weight', ('share', float), ('three', 3))\n" + body("on_begin", "pass")
    state = {"weight": np.arange(6), "share": 0.5, "three": np.arange(18).reshape(6, 3)}
    load = load_of(tmp_path, text, [0], task_state=state, host_state={"seen": [4, 5]})
    records = engine(star(2), load).state.hosts
    assert records.tasks["weight"].tolist() == [0, 1, 2, 3, 4, 5]
    assert records.tasks["share"].tolist() == [0.5] * 6
    assert records.tasks["three"][4].tolist() == [12, 13, 14]
    assert records.program_hosts["seen"].tolist() == [4, 5]


WRONG_STATE: dict[str, tuple[dict[str, Any], str]] = {
    "no such field": ({"host_state": {"sen": 1}}, ("host_state.sen", "HOST_STATE")),
    "no fields declared": ({"task_state": {"a": 1}}, ("TASK_STATE", "a")),
    "wrong number of values": ({"host_state": {"seen": [1, 2, 3]}}, ("3", "2")),
    "fractions": ({"host_state": {"seen": 0.5}}, "float64"),
}


def test_state_values_that_fit_no_field_are_rejected(tmp_path: Path) -> None:
    for more, words in WRONG_STATE.values():
        with raises_input(words):
            load_of(tmp_path, body("on_begin", "pass"), [], **more)


def test_deferred_tasks_and_state_require_a_program(tmp_path: Path) -> None:
    tasks = TaskTable([COMPUTE, JOIN], 0, deferred=[False, True])
    load = Workload(FlowTable([0], [1], 1), tasks)
    with raises_input("task 1"):
        load.validate(2)
    ring = PluginSpec(registry.find("traffic", "collective"), {})
    with raises_input("host_state"):
        Workload(load.flows, tasks, host_state={"x": 1}).with_program(ring, 2)
    mine = load_of(tmp_path, body("on_begin", "pass"), []).program
    assert mine is not None
    with raises_input("task"):
        Workload(load.flows).with_program(mine.use, 2)


def test_program_may_be_joined_with_other_tasks_only(tmp_path: Path) -> None:
    text = "\nTASK_STATE = ('weight',)\n"
    text += body("on_begin", "start(env, now, task_at(env, 3))")
    text += "\n\ndef on_task(env, now, task):\n    env.host.seen += task.weight\n"
    load = load_of(tmp_path, text, [3], task_state={"weight": [1, 10, 100, 1000, 10_000, 100_000]})
    other = Workload(
        FlowTable([1], [0], 5), TaskTable([SEND, RECEIVE, JOIN], [1, 0, 0], flow=[0, 0, -1])
    )
    both = Workload.join([other, load])
    one = engine(star(2), both)
    assert done(one) == DONE
    assert one.state.hosts.program_hosts["seen"].tolist() == [1111, 110_000]
    assert one.counts.delivered == 2
    with raises_input("mine.py"):
        Workload.join([load, load])


def test_model_and_kernels_agree_on_handler_names() -> None:
    assert tuple(PROGRAM_HANDLERS) == HANDLER_NAMES


PARAMETERS = """
from netsim.params import Param

PARAMS = [
    Param("count", "count", None, "a number"),
    Param("share", "ratio", None, "a broken one"),
    Param("file", "file", None, "none"),
    Param("which", "choice", "a", "one of two", choices=("a", "b")),
]
"""


def test_types_of_parameters_do_not_depend_on_their_values(tmp_path: Path) -> None:
    """So other values need no new compiled code."""
    (tmp_path / "mine.py").write_text(PARAMETERS + HEAD.replace("PARAMS = []", ""), "utf-8")
    plugin = registry.find("traffic", "mine.py", relative_to=tmp_path)
    none = {"count": None, "share": None, "file": None, "which": "b"}
    some = {"count": 3, "share": 0.5, "file": "a.csv", "which": "a"}
    found = [program_parameters(plugin, one) for one in (none, some)]
    assert found == [
        {"count": -1, "share": -1.0, "which": 1},
        {"count": 3, "share": 0.5, "which": 0},
    ]
    assert [list(map(type, one.values())) for one in found] == [[int, float, int]] * 2


def test_receiver_learns_a_set_size_from_the_first_packet(tmp_path: Path) -> None:
    """Until then it sees the table's size, two packets; the sender has set it to one packet."""
    first, then = (f"set_size(env, task_at(env, 3), {n})" for n in (8192, 100))
    text = body("on_begin", first, then)
    text += (
        "\n\ndef on_task(env, now, task):"
        "\n    if env.host.host == 1:"
        "\n        log_row(env, now, flow_bytes(env, task_at(env, 0)), task.index)\n"
    )
    load = load_of(tmp_path, text, [0], size=8192, log_rows=9)
    one = engine(star(2), load)
    assert done(one) == DONE
    log = one.program_log()
    assert log is not None
    assert log["which"].tolist() == [1, 0]
    assert log["event"].tolist() == [8192, 100]
    assert one.flow_states().sent_packets.tolist() == [1]


def test_words_go_with_a_flow(tmp_path: Path) -> None:
    """Once the flow arrives, the receiver's program has the numbers that the sender's set last."""
    text = body("on_begin", WORDS(3), "set_words(env, task_at(env, 3), -7, 1 << 62)")
    text += (
        "\n\ndef on_task(env, now, task):"
        "\n    if task.kind == RECEIVE:"
        "\n        log_row(env, now, word_of(env, task, 0), word_of(env, task, 1))\n"
    )
    one = engine(star(2), load_of(tmp_path, text, [0], log_rows=9))
    assert done(one) == DONE
    log = one.program_log()
    assert log is not None
    assert log["event"].tolist() == [-7]
    assert log["which"].tolist() == [1 << 62]


def test_log_rows_are_ordered_by_host_and_call(tmp_path: Path) -> None:
    """Each host has its own room for rows. A snapshot contains the rows."""
    text = body("on_begin", "log_row(env, now, 7, -(1 << 62))")
    text += (
        "\n\ndef on_task(env, now, task):"
        "\n    log_row(env, now, task.index, task.kind == COMPUTE)"
        "\n    log_row(env, now, 1 - task.index, 0)\n"
    )
    load = load_of(tmp_path, text, [0, 3], log_rows=[9, 1_000_000_000])
    one = engine(star(2), load)
    assert done(one) == DONE
    log = one.program_log()
    assert log is not None
    assert list(log) == ["host", "time_ps", "event", "which"]
    rows = list(zip(*(column.tolist() for column in log.values()), strict=True))
    assert rows == [
        (0, 0, 7, -(1 << 62)),
        (0, 1000, 1, 1),
        (0, 1000, 0, 0),
        (0, 3000, 2, 1),
        (0, 3000, -1, 0),
        (1, 500, 1, 1),
        (1, 500, 0, 0),
    ]
    taken = one.snapshot()["hosts.log"]
    assert taken.shape == (7, 3)
    assert taken.raw.size == 7 * 3 * 8
    other = engine(star(2), load)
    other.restore(one.snapshot())
    assert other.digest() == one.digest()
    again = other.program_log()
    assert again is not None
    assert all(np.array_equal(again[name], log[name]) for name in log)


def test_fraction_in_a_log_row_is_an_error(tmp_path: Path) -> None:
    load = load_of(tmp_path, body("on_begin", "log_row(env, now, 1, 0.5)"), [], log_rows=1)
    with raises(RunError, "on_begin", "host 0", "float"):
        run(engine(star(2), load))


def test_invalid_numbers_of_log_rows_are_rejected(tmp_path: Path) -> None:
    text = body("on_begin", "pass")
    for rows, words in (
        ([1, 2, 3], ("(3,)", "(2,)")),
        (-1, ("-1", "host 0")),
        ([0, 1 << 31], ("2147483648", "host 1")),
        (0.5, "log_rows"),
    ):
        with raises_input("log_rows", words, file="mine.py"):
            load_of(tmp_path, text, [], log_rows=rows)
    with raises_input("log_rows", key="LOG"):
        load_of(tmp_path, text + "\nLOG = ()\n", [], log_rows=1)
    ring = PluginSpec(registry.find("traffic", "collective"), {})
    with raises_input("log_rows"):
        Workload(FlowTable([0], [1], 1), log_rows=5).with_program(ring, 2)
