"""Tasks of hosts, and the flows between them, listed in a CSV or JSON file.

One row is one task, known by its number, from 0. A host's tasks start at the instant in which all
that they wait for is done; hosts see nothing of one another but flows. A cell that does not
concern a task is empty, and a column that concerns none may be left out:

- kind: compute, send, receive or join;
- host: where;
- duration: with a unit ("1.5us"); how long a compute task takes, and of send and receive tasks the
  time that software takes before the flow or after its delivery (0 if empty);
- stream: of a compute task; those of one stream of a host run in the order of their rows (0 if
  empty);
- to, size: of a send task, the host that its flow goes to, and how much with a unit ("2MB");
- class: of a send task, the traffic class of its flow (0 if empty);
- done_when: of a send task, sent (as every packet was sent once; if empty) or acked (the
  transport knows that all has arrived);
- of: of a receive task, the send task whose flow it waits for;
- after: tasks of the same host, separated by spaces, that it waits for;
- label: a name, for the results.

A CSV file names its columns in the first line; lines that begin with # and empty lines are left
out. A JSON file is a list of objects, one for each task, with these columns as keys, of which a
task has those that concern it; `after` may be a list of numbers. The flows are those of the send
tasks, in the order of their rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError, did_you_mean
from netsim.flows import RECEIVE, SEND, FlowTable, TaskTable, TrafficContext, Workload
from netsim.inputs import user_path, whole
from netsim.limits import CLASSES, COUNT
from netsim.model.tasks import DONE_WHEN, KINDS
from netsim.network import Network
from netsim.params import REQUIRED, Param
from netsim.traffic._rows import Rows, each, fail_at, read_csv, read_json
from netsim.units import parse_bytes, parse_time_ps, written

PARAMS = [Param("file", "file", REQUIRED, "the list, a .csv or a .json file")]

NEEDED = {"compute": ("duration",), "send": ("to", "size"), "receive": ("of",), "join": ()}
ALLOWED = {
    "compute": ("stream",),
    "send": ("duration", "class", "done_when"),
    "receive": ("duration",),
    "join": (),
}
"""By kind, the cells that a task must have and may have, beside those that all have."""

OF_ALL = ("kind", "host", "after", "label")
COLUMNS = (*OF_ALL, "duration", "stream", "to", "size", "class", "done_when", "of")


def flows(
    params: Mapping[str, Any], network: Network, rng: np.random.Generator, context: TrafficContext
) -> Workload:
    """The tasks in the order of the file, and the flows of its send tasks."""
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
        raise InputError("has no send task", file=str(rows.path), hint="a run simulates packets")
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
        raise rows.error(task, "waits, through others, for itself")
    return Workload(FlowTable(host[sends], to[sends], size[sends], cls=cls[sends]), tasks)


def _check_columns(rows: Rows) -> None:
    file = str(rows.path)
    for name in rows.columns:
        if name not in COLUMNS:
            hint = did_you_mean(name, COLUMNS)
            raise InputError(f"column {written(name)} is not known", file=file, hint=hint)
    for name in ("kind", "host"):
        if name not in rows.columns:
            raise InputError(f"there is no column {name}", file=file, code="missing")
    if not rows.n_rows:
        raise InputError("has no tasks", file=file)


def _check_cells(rows: Rows, kinds: NDArray[np.int64]) -> None:
    """Each task has the cells that its kind needs, and none that mean nothing to it."""
    for number, kind in enumerate(KINDS):
        for name in COLUMNS:
            cells = rows.columns.get(name, ("",) * rows.n_rows)
            filled = np.array([bool(str(cell).strip()) for cell in cells])
            if name in NEEDED[kind]:
                bad, what = ~filled, f"{name}: a {kind} task needs it"
            elif name not in OF_ALL and name not in ALLOWED[kind]:
                bad, what = filled, f"{name}: means nothing to a {kind} task"
            else:
                continue
            fail_at(rows, bad & (kinds == number), lambda _, what=what: what)  # type: ignore[misc]


def _one_of(names: tuple[str, ...]) -> Callable[[str], int]:
    """A conversion of a name into its place."""

    def convert(cell: str) -> int:
        name = cell.strip()
        if name not in names:
            raise InputError(f"{written(name)} is none of {', '.join(names)}")
        return names.index(name)

    return convert


def _cells(rows: Rows, name: str, convert: Callable[[str], int], default: int) -> NDArray[np.int64]:
    """A column of numbers; ``default`` where a cell is empty or there is no such column."""
    if name not in rows.columns:
        return np.full(rows.n_rows, default, np.int64)
    return np.array(each(rows, name, lambda cell: convert(cell) if cell.strip() else default))


def _numbers(rows: Rows, name: str, n: int, of_what: str, default: int = -1) -> NDArray[np.int64]:
    """The same for numbers from 0 to n - 1."""
    numbers = _cells(rows, name, whole, default)
    filled = [str(cell).strip() != "" for cell in rows.columns.get(name, ("",) * rows.n_rows)]
    bad = ((numbers < 0) | (numbers >= n)) & (np.array(filled) | (name == "host"))
    fail_at(rows, bad, lambda row: f"{name} {numbers[row]}: {of_what} are 0..{n - 1}")
    return numbers


def _flow_of_each(
    rows: Rows, kinds: NDArray[np.int64], to: NDArray[np.int64], host: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The flow of each send and receive task; of others -1."""
    flow = np.where(kinds == SEND, np.cumsum(kinds == SEND) - 1, -1)
    of = _numbers(rows, "of", rows.n_rows, "tasks")
    receives = kinds == RECEIVE
    fail_at(rows, receives & (kinds[of] != SEND), lambda row: f"task {of[row]} is no send task")
    fail_at(
        rows,
        receives & (to[of] != host),
        lambda row: f"task {of[row]} sends to host {to[of[row]]}, not to host {host[row]}",
    )
    again = np.zeros(rows.n_rows, bool)
    found = np.flatnonzero(receives)
    again[found] = True
    again[found[np.unique(of[found], return_index=True)[1]]] = False
    fail_at(rows, again, lambda row: f"the flow of task {of[row]} has a receive task already")
    return np.where(receives, flow[of], flow)


def _after(rows: Rows, host: NDArray[np.int64]) -> list[list[int]]:
    """Which tasks each one waits for."""
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
                    f"after: task {task} is on host {host[task]}, this one on host {host[row]}; "
                    "a send and a receive task join two hosts",
                )
    return after
