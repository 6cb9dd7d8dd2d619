"""Tasks of hosts, and the flows between them, listed in a CSV or JSON file.

Each row is a task, numbered from 0. A task starts as soon as all tasks it waits for are done; hosts
interact only through flows. Leave a cell empty, or a column out, if it does not apply:

- kind: compute, send, receive or join;
- host: host of the task;
- duration, with a unit ("1.5us"): time of a compute task; for send and receive, software time
  before the flow or after its delivery (default 0);
- stream: compute tasks of one stream of a host run in the order of their rows (default 0);
- to, size: destination host and size ("2MB") of a send task's flow;
- class: traffic class of a send task's flow (default 0);
- done_when: a send task is done when sent (every packet was sent once; default) or acked (the
  transport knows that all data has arrived);
- of: the send task whose flow a receive task waits for;
- after: tasks of the same host that this one waits for, separated by spaces;
- label: a name, for the results.

A CSV file names its columns in the first line. Empty lines and lines that begin with # are skipped.
A JSON file is a list of objects with these keys; `after` may be a list of numbers. The flows belong
to the send tasks, in the order of their rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from netsim.common.inputs import user_path, whole
from netsim.errors import InputError, did_you_mean
from netsim.flows import RECEIVE, SEND, FlowTable, Rng, TaskTable, TrafficContext, Workload
from netsim.limits import CLASSES, COUNT
from netsim.model.workload import DONE_WHEN, KINDS
from netsim.network import Network
from netsim.params import REQUIRED, Param, Params
from netsim.traffic._rows import Rows, each, fail_at, read_csv, read_json
from netsim.units import parse_bytes, parse_time_ps, written

PARAMS = [Param("file", "file", REQUIRED, "a .csv or .json file")]

NEEDED = {"compute": ("duration",), "send": ("to", "size"), "receive": ("of",), "join": ()}
ALLOWED = {
    "compute": ("stream",),
    "send": ("duration", "class", "done_when"),
    "receive": ("duration",),
    "join": (),
}
"""Cells that a task of each kind must have (NEEDED) and may have, beyond the cells of all kinds."""

OF_ALL = ("kind", "host", "after", "label")
COLUMNS = (*OF_ALL, "duration", "stream", "to", "size", "class", "done_when", "of")


def flows(params: Params, network: Network, rng: Rng, context: TrafficContext) -> Workload:
    """Return the tasks in the order of the file, and the flows of its send tasks."""
    path = user_path(params["file"], context.directory)
    rows = read_json(path) if path.suffix == ".json" else read_csv(path)
    _check_columns(rows)
    context.reserve(rows.n_rows, key="traffic.file")
    kinds = np.array(each(rows, "kind", _one_of(KINDS)), np.int64)
    _check_cells(rows, kinds)
    host = _numbers(rows, "host", network.n_hosts, "hosts")
    n_traffic_classes = CLASSES if context.n_traffic_classes is None else context.n_traffic_classes
    cls = _numbers(rows, "class", n_traffic_classes, "classes", default=0)
    to = _numbers(rows, "to", network.n_hosts, "hosts")
    fail_at(rows, to == host, lambda row: f"host {host[row]} sends to itself")
    size = _cells(rows, "size", parse_bytes, 0)
    fail_at(rows, (size < 1) & (kinds == SEND), lambda _: "size: at least 1 B")
    sends = np.flatnonzero(kinds == SEND)
    if not sends.size:
        raise InputError("has no send task", file=str(rows.path))
    tasks = TaskTable(
        kinds,
        host,
        _cells(rows, "duration", parse_time_ps, 0),
        stream=_numbers(rows, "stream", COUNT, "streams", default=0),
        flow=_flow_of_each(rows, kinds, to, host),
        done_when=_cells(rows, "done_when", _one_of(DONE_WHEN), 0),
        label=list(rows.columns["label"]) if "label" in rows.columns else None,
    )
    tasks.wait_for(_after(rows, host))
    for task in tasks.find_cycle(sends.size)[:1]:
        raise rows.error(task, "depends on itself")
    return Workload(FlowTable(host[sends], to[sends], size[sends], cls=cls[sends]), tasks)


def _check_columns(rows: Rows) -> None:
    file = str(rows.path)
    for name in rows.columns:
        if name not in COLUMNS:
            hint = did_you_mean(name, COLUMNS)
            raise InputError(f"unknown column {written(name)}", file=file, hint=hint)
    for name in ("kind", "host"):
        if name not in rows.columns:
            raise InputError(f"column {name} is missing", file=file, code="missing")
    if not rows.n_rows:
        raise InputError("has no tasks", file=file)


def _check_cells(rows: Rows, kinds: NDArray[np.int64]) -> None:
    """Check that each task has the cells that its kind needs, and no others."""
    for number, kind in enumerate(KINDS):
        for name in COLUMNS:
            cells = rows.columns.get(name, ("",) * rows.n_rows)
            filled = np.array([bool(str(cell).strip()) for cell in cells])
            if name in NEEDED[kind]:
                bad, what = ~filled, f"{name}: missing in a {kind} task"
            elif name not in OF_ALL and name not in ALLOWED[kind]:
                bad, what = filled, f"{name}: not allowed in a {kind} task"
            else:
                continue
            fail_at(rows, bad & (kinds == number), lambda _, what=what: what)  # type: ignore[misc]


def _one_of(names: tuple[str, ...]) -> Callable[[str], int]:
    """Return a function that converts a name to its index."""

    def convert(cell: str) -> int:
        name = cell.strip()
        if name not in names:
            raise InputError(f"{written(name)} is none of {', '.join(names)}")
        return names.index(name)

    return convert


def _cells(rows: Rows, name: str, convert: Callable[[str], int], default: int) -> NDArray[np.int64]:
    """Return a column of numbers, ``default`` for empty cells or a missing column."""
    if name not in rows.columns:
        return np.full(rows.n_rows, default, np.int64)
    return np.array(each(rows, name, lambda cell: convert(cell) if cell.strip() else default))


def _numbers(rows: Rows, name: str, n: int, of_what: str, default: int = -1) -> NDArray[np.int64]:
    """Return a column of numbers from 0 to n - 1."""
    numbers = _cells(rows, name, whole, default)
    filled = [str(cell).strip() != "" for cell in rows.columns.get(name, ("",) * rows.n_rows)]
    bad = ((numbers < 0) | (numbers >= n)) & (np.array(filled) | (name == "host"))
    fail_at(rows, bad, lambda row: f"{name} {numbers[row]}: {of_what} are 0..{n - 1}")
    return numbers


def _flow_of_each(
    rows: Rows, kinds: NDArray[np.int64], to: NDArray[np.int64], host: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the flow of each send and receive task; -1 for others."""
    flow = np.where(kinds == SEND, np.cumsum(kinds == SEND) - 1, -1)
    of = _numbers(rows, "of", rows.n_rows, "tasks")
    receives = kinds == RECEIVE
    fail_at(rows, receives & (kinds[of] != SEND), lambda row: f"task {of[row]} is not a send task")
    fail_at(
        rows,
        receives & (to[of] != host),
        lambda row: f"task {of[row]} sends to host {to[of[row]]}, not to host {host[row]}",
    )
    again = np.zeros(rows.n_rows, bool)
    found = np.flatnonzero(receives)
    again[found] = True
    again[found[np.unique(of[found], return_index=True)[1]]] = False
    fail_at(rows, again, lambda row: f"task {of[row]} already has a receive task")
    return np.where(receives, flow[of], flow)


def _after(rows: Rows, host: NDArray[np.int64]) -> list[list[int]]:
    if "after" not in rows.columns:
        return [[] for _ in range(rows.n_rows)]
    after: list[list[int]] = each(
        rows, "after", lambda cell: [whole(word) for word in cell.split()]
    )
    for row, before in enumerate(after):
        for task in before:
            if not 0 <= task < rows.n_rows:
                raise rows.error(row, f"after: task {task} does not exist")
            if host[task] != host[row]:
                raise rows.error(
                    row,
                    f"after: task {task} is on host {host[task]}, not host {host[row]} "
                    "(use a send and a receive task)",
                )
    return after
