"""Flows of an htsim connection matrix (.cm file), with start times and triggers.

    Nodes 4
    Connections 3
    Triggers 1
    0->1 id 1 start 0 size 2000000 send_done_trigger 7
    2->1 id 2 start 0 size 2000000 recv_done_trigger 7
    1->3 id 3 trigger 7 size 2000000
    trigger id 7 barrier count 2

A flow with `trigger` starts when that trigger fires. One flow fires a `oneshot` or `multishot`
trigger; `count` flows fire a `barrier`. Both `send_done_trigger` and `recv_done_trigger` fire when
the flow completes. `prio` is ignored. Whatever dependencies cannot express is an error: a trigger
fired by any one of several flows, a multishot trigger with several targets, and link failures.

htsim's versions disagree on the unit of `start`, so `start_unit` selects it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np

from netsim.common.inputs import at_line, read_lines, user_path, whole
from netsim.common.memory import require_room
from netsim.errors import errors_at
from netsim.flows import FlowTable, Rng, TrafficContext
from netsim.limits import HORIZON_PS
from netsim.model.checks import HORIZON
from netsim.network import Network
from netsim.params import REQUIRED, Param, Params
from netsim.units import written

PARAMS = [
    Param("file", "file", REQUIRED, "the .cm file"),
    Param("start_unit", "choice", "ps", "unit of start times", choices=("ps", "us")),
    Param("endless", "bytes", None, "size of endless flows, which have size 0 in the file"),
]

PS_PER_UNIT = {"ps": 1, "us": 10**6}
HEADERS = ("Nodes", "Connections", "Triggers")
# Digits are limited, since the number becomes an exact fraction.
_NUMBER = re.compile(r"[+-]?[0-9]{1,30}(\.[0-9]{0,30})?([eE][+-]?[0-9]{1,2})?", re.ASCII)
TRIGGER_KINDS = ("oneshot", "multishot", "barrier")

DEPENDENCY_BYTES = 50  # memory of one dependency between flows


@dataclass
class _Trigger:
    """A trigger: the flows that fire it and the flows that it starts, by index."""

    line: int = 0  # line of its declaration; 0: none yet
    kind: str = ""
    count: int = 0
    fired_by: list[int] = field(default_factory=list)
    starting: list[int] = field(default_factory=list)
    first_use: int = 0


@dataclass
class _Matrix:
    path: Path
    ps_per_unit: int
    endless: int | None
    header: dict[str, tuple[int, int]] = field(default_factory=dict)  # name -> (line, number)
    src: list[int] = field(default_factory=list)
    dst: list[int] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    triggers: dict[int, _Trigger] = field(default_factory=dict)
    declared: int = 0


def flows(params: Params, network: Network, rng: Rng, context: TrafficContext) -> FlowTable:
    path = user_path(params["file"], context.directory)
    matrix = _Matrix(path, PS_PER_UNIT[params["start_unit"]], params["endless"])
    for line, text in read_lines(path):
        words = text.split()
        if "->" in words[0]:
            _read_connection(matrix, line, words)
        elif words[0] == "trigger":
            _read_trigger(matrix, line, words)
        elif words[0] in HEADERS:
            _read_header(matrix, line, words)
        elif words[0] in ("failure", "Failures"):
            if words != ["Failures", "0"]:
                raise at_line(path, line, "link failures are not supported")
        else:
            raise at_line(path, line, f"unknown word {written(words[0])}")
    _check_counts(matrix, network.n_hosts)
    table = FlowTable(
        np.array(matrix.src, np.int64),
        np.array(matrix.dst, np.int64),
        np.array(matrix.size, np.int64),
        np.array(matrix.start, np.int64),
    )
    if matrix.triggers:
        table.wait_for(_dependencies(matrix))
    return table


def _read_header(matrix: _Matrix, line: int, words: list[str]) -> None:
    if len(words) != 2:
        raise at_line(matrix.path, line, f"{words[0]} needs one number")
    matrix.header[words[0]] = (line, _whole(matrix, line, words[0], words[1]))


def _read_connection(matrix: _Matrix, line: int, words: list[str]) -> None:
    flow = len(matrix.src)
    src, _, dst = words[0].partition("->")
    source, target = _whole(matrix, line, "source", src), _whole(matrix, line, "destination", dst)
    if source == target:
        raise at_line(matrix.path, line, f"host {source} sends to itself")
    values = _pairs(matrix, line, words[1:])
    known = {"id", "start", "size", "trigger", "send_done_trigger", "recv_done_trigger", "prio"}
    for word in values:
        if word not in known:
            raise at_line(matrix.path, line, f"unknown word {written(word)} in a connection")
    if ("start" in values) == ("trigger" in values):
        raise at_line(matrix.path, line, "a connection needs either a start or a trigger")
    size = _whole(matrix, line, "size", values.get("size", ""))
    if size < 1 and matrix.endless is None:
        hint = 'traffic.endless = "1GB" gives it a size, and stop.max_time ends the run'
        raise at_line(matrix.path, line, "endless flow (size 0)", hint)
    size = size or matrix.endless or 0
    matrix.src.append(source)
    matrix.dst.append(target)
    matrix.size.append(size)
    matrix.start.append(_start_ps(matrix, line, values.get("start", "0")))
    matrix.lines.append(line)
    if "trigger" in values:
        _use(matrix, line, values["trigger"]).starting.append(flow)
    for word in ("send_done_trigger", "recv_done_trigger"):
        if word in values:
            _use(matrix, line, values[word]).fired_by.append(flow)


def _read_trigger(matrix: _Matrix, line: int, words: list[str]) -> None:
    kinds = [word for word in words[1:] if word in TRIGGER_KINDS]
    values = _pairs(matrix, line, [word for word in words[1:] if word not in TRIGGER_KINDS])
    if len(kinds) != 1 or not set(values) <= {"id", "count"}:
        raise at_line(
            matrix.path,
            line,
            "a trigger needs an id, a kind and possibly a count",
            "for example: trigger id 7 barrier count 2",
        )
    trigger = _use(matrix, line, values.get("id", ""))
    if trigger.kind:
        raise at_line(matrix.path, line, f"duplicate trigger (see line {trigger.line})")
    trigger.line, trigger.kind = line, kinds[0]
    trigger.count = _whole(matrix, line, "count", values.get("count", "0"))
    matrix.declared += 1


def _pairs(matrix: _Matrix, line: int, words: list[str]) -> dict[str, str]:
    if len(words) % 2:
        raise at_line(matrix.path, line, f"{written(words[-1])} has no value")
    values = dict(zip(words[::2], words[1::2], strict=True))
    if 2 * len(values) != len(words):
        raise at_line(matrix.path, line, "duplicate word")
    return values


def _use(matrix: _Matrix, line: int, word: str) -> _Trigger:
    number = _whole(matrix, line, "trigger", word)
    return matrix.triggers.setdefault(number, _Trigger(first_use=line))


def _whole(matrix: _Matrix, line: int, what: str, word: str) -> int:
    try:
        number = whole(word)
    except ValueError:
        number = -1
    if number < 0:
        raise at_line(matrix.path, line, f"the {what} {written(word)} is not a whole number")
    return number


def _start_ps(matrix: _Matrix, line: int, word: str) -> int:
    if not _NUMBER.fullmatch(word):
        raise at_line(matrix.path, line, f"the start {written(word)} is not a number")
    start = Fraction(word) * matrix.ps_per_unit
    if start.denominator != 1:
        raise at_line(matrix.path, line, f"the start {word} is not a whole number of picoseconds")
    if not 0 <= start < HORIZON_PS:
        what = "negative" if start < 0 else f"too late: {HORIZON}"
        raise at_line(matrix.path, line, f"the start {word} is {what}")
    return int(start)


def _check_counts(matrix: _Matrix, n_hosts: int) -> None:
    actual = {"Connections": len(matrix.src), "Triggers": matrix.declared}
    for word, count in actual.items():
        line, announced = matrix.header.get(word, (0, count))
        if announced != count:
            raise at_line(matrix.path, line, f"{announced} {word} announced, {count} found")
    line, nodes = matrix.header.get("Nodes", (0, n_hosts))
    if nodes > n_hosts:
        raise at_line(matrix.path, line, f"{nodes} nodes, but the network has {n_hosts} hosts")
    for flow_line, src, dst in zip(matrix.lines, matrix.src, matrix.dst, strict=True):
        if max(src, dst) >= nodes:
            raise at_line(
                matrix.path, flow_line, f"host {max(src, dst)} does not exist (0..{nodes - 1})"
            )


def _dependencies(matrix: _Matrix) -> list[list[int]]:
    """Return, for each flow, the flows that it waits for."""
    after: list[list[int]] = [[] for _ in matrix.src]
    n = sum(len(one.fired_by) * len(one.starting) for one in matrix.triggers.values())
    with errors_at(file=matrix.path):
        require_room(DEPENDENCY_BYTES * n, what=f"{n:,} dependencies of flows")
    for number, trigger in matrix.triggers.items():
        line = trigger.line or trigger.first_use
        if not trigger.kind:
            raise at_line(matrix.path, line, f"trigger {number} is not declared")
        if not trigger.starting:
            continue
        needed = trigger.count if trigger.kind == "barrier" else 1
        if len(trigger.fired_by) != needed:
            raise at_line(
                matrix.path,
                line,
                f"trigger {number} ({trigger.kind}) needs {needed} flows that fire it, "
                f"not {len(trigger.fired_by)}",
            )
        if trigger.kind == "multishot" and len(trigger.starting) > 1:
            raise at_line(
                matrix.path,
                line,
                f"trigger {number} fires once, so it starts one flow, not {len(trigger.starting)}",
            )
        for flow in trigger.starting:
            after[flow] = trigger.fired_by
    return after
