"""Programs: workloads whose handlers start tasks during the run, as checked data.

`netsim/engine/MODEL.md` defines what they do, `netsim/program.py` what their files contain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import InputError, did_you_mean
from netsim.limits import COUNT
from netsim.model.columns import column_of, first_of
from netsim.plugins.registry import PluginSpec

Ints = NDArray[np.int64]

HANDLER_NAMES = ("on_begin", "on_task", "on_timer")
"""A traffic pattern whose file has one of these functions is a program."""

Columns = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class ProgramSpec:
    """A program in a run: its file and parameters, its tasks, and initial values of its fields.

    It has ``n_tasks`` tasks from ``first_task`` on. ``task_state`` has an entry for each task,
    ``host_state`` for each host; ``log_rows`` (int64[n_hosts]) is the number of log rows that each
    host may write. It cannot set the size of ``relayed`` flows (int64[...], numbers of flows of the
    run).
    """

    use: PluginSpec
    first_task: int
    n_tasks: int
    task_state: Columns
    host_state: Columns
    log_rows: NDArray[np.int64]
    relayed: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def name(self) -> str:
        return self.use.name


def is_program(module: ModuleType) -> bool:
    return any(hasattr(module, name) for name in HANDLER_NAMES)


def program_spec(
    use: PluginSpec,
    n_tasks: int,
    n_hosts: int,
    task_state: Mapping[str, ArrayLike],
    host_state: Mapping[str, ArrayLike],
    log_rows: ArrayLike = 0,
) -> ProgramSpec:
    """Return the program of a workload's tasks. Raises InputError for values that fit no field."""
    module, file = use.module, str(use.plugin.path)
    return ProgramSpec(
        use=use,
        first_task=0,
        n_tasks=n_tasks,
        task_state=_columns(module, "TASK_STATE", task_state, n_tasks, file),
        host_state=_columns(module, "HOST_STATE", host_state, n_hosts, file),
        log_rows=_log_rows(module, log_rows, n_hosts, file),
    )


def _log_rows(module: ModuleType, given: ArrayLike, n_hosts: int, file: str) -> Ints:
    """Return int64[n_hosts], the number of log rows that each host may write."""
    try:
        rows: Ints = column_of(given, n_hosts, np.int64, "log_rows")
    except InputError as error:
        raise error.at(file=file) from None
    for host in first_of((rows < 0) | (rows > COUNT)):
        hint = "0 to 2^31 - 1 for each host"
        message = f"log_rows of host {host} is out of range ({rows[host]})"
        raise InputError(message, file=file, hint=hint)
    if rows.any() and not getattr(module, "LOG", ()):
        message = "missing, but there are log_rows"
        raise InputError(message, file=file, key="LOG", hint='LOG = ("event",)')
    return rows


def _columns(
    module: ModuleType, declared: str, given: Mapping[str, ArrayLike], n: int, file: str
) -> Columns:
    """Return the initial values of the fields of a record; their declarations have been checked."""
    declarations = getattr(module, declared, ())
    fields: dict[str, Any] = dict(
        field if isinstance(field, tuple) else (field, int) for field in declarations
    )
    columns = {}
    for name, values in given.items():
        key = f"{declared.lower()}.{name}"
        if name not in fields:
            hint = did_you_mean(name, fields) if fields else f'{declared} = ("{name}",)'
            raise InputError(f"unknown field of {declared}", file=file, key=key, hint=hint)
        column, kind = np.asarray(values), fields[name]
        shape = (n, kind) if isinstance(kind, int) else (n,)
        if column.ndim and column.shape != shape:
            raise InputError(f"shape {column.shape} must be {shape}", file=file, key=key)
        allowed = (np.integer, np.bool_, np.floating) if kind is float else (np.integer, np.bool_)
        if column.size and not any(np.issubdtype(column.dtype, one) for one in allowed):
            raise InputError(f"must not contain {column.dtype}", file=file, key=key)
        dtype = np.float64 if kind is float else np.int64
        columns[name] = np.broadcast_to(column.astype(dtype), shape)
    return columns
