"""A program that breaks a rule is rejected with the line when its experiment is read."""

from __future__ import annotations

from pathlib import Path

from lint_case import check, check_rows

from netsim.engine.compiling import lint
from netsim.plugins import registry

SOUND = '''
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


def test_correct_programs_have_no_errors(tmp_path: Path) -> None:
    assert check(tmp_path, SOUND, "traffic") == []
    for name in registry.names("traffic"):
        plugin = registry.find("traffic", name)
        lint.check(plugin, {one.name: 0 for one in plugin.params})


MISTAKES = [
    ("on_task", "task.duration_ps = 5", "task.duration_ps"),
    ("on_task", "following.pending = 0", "task.pending"),
    ("on_task", "env.host.n_tasks = 1", "env.host.n_tasks"),
    ("on_begin", "env.par.gap = 1", "env.par.gap"),
    ("helper", "other.start_ps = 1", "task.start_ps"),
    ("on_begin", "a = env.host.sen", ("env.host", "sen")),
    ("on_begin", "a = env.par.file", ("env.par", "file")),
    ("on_begin", "a = env.engine", ("env", "engine")),
    ("on_timer", "start(env, now)", "start()"),
    ("on_task", "log_row(env, now, 1)", ("log_row()", "1")),
    (
        "helper",
        "log_row(env, 1, 2, 3, other)",
        ("log_row()", "3", "2"),
    ),
]


def test_broken_rule_is_reported_with_its_line(tmp_path: Path) -> None:
    check_rows(tmp_path, SOUND, "traffic", MISTAKES)


FILES = [
    ("def on_timer(env, now, k)", "def on_timer(env, now)", "on_timer takes 2 arguments"),
    ("def on_begin(", "def on_began(", "on_began is not a handler and is unused"),
    ("TIMERS = 2", "TIMERS = 99", "99 is not a whole number from 0 to 15"),
    ('("seen",', '("n_tasks", "seen",', "field n_tasks is reserved by the engine"),
    (
        '"event", ',
        '("event", float), ',
        "holds ('event', <class 'float'>), and a log",
    ),
    ('"event", ', '"host", ', "field host is reserved by the engine"),
    ('LOG = ("event", "who")', "", "log_row() needs LOG"),
    ("LOG = ", "LOGS = ", "LOGS is not a declaration and is unused"),
    ("HOST_STATE", "HOST_STATES", "HOST_STATES is not a declaration and is unused"),
]


def test_invalid_declarations_are_reported(tmp_path: Path) -> None:
    for old, new, expected in FILES:
        messages = [one.message for one in check(tmp_path, SOUND.replace(old, new, 1), "traffic")]
        assert any(message.startswith(expected) for message in messages)
