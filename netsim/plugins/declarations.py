"""Check the types of what plugin modules declare, before anything uses it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from netsim.errors import InputError, did_you_mean
from netsim.limits import CLASSES
from netsim.plugins.params import Param, resolve_params

RESERVED_PARAMETERS = ("kind",)

QUEUE_UNITS = (
    *("time", "bytes", "queue", "buffer", "rate"),
    *("count", "fraction", "ratio", "bool", "choice"),
)
"""Units of parameters that a queue discipline may have."""

MAX_CONTROL_PER_DATA = 64

QUEUE_FUNCTIONS = ("check", "no_effect", "settle")
"""Optional functions of a queue discipline or routing algorithm that run before a simulation."""

ROUTING_FUNCTIONS = (*QUEUE_FUNCTIONS, "legs", "tables")
"""Those of a routing algorithm."""

ROUTING_UNITS = tuple(unit for unit in QUEUE_UNITS if unit not in ("queue", "buffer"))
"""Units of parameters that a routing algorithm may have."""

UNITS_OF_KIND = {"queue": QUEUE_UNITS, "routing": ROUTING_UNITS}

ROUTING_FLAGS = ("COUPLED", "VIA", "ONE_PATH", "SYMMETRIC")

MAX_FLOW_ROWS = 1 << 20
MAX_HOPS = 255
"""Most links that a packet may cross."""

Presets = Mapping[str, Mapping[str, object]]


def read_params(module: ModuleType, kind: str, file: str) -> tuple[Param, ...]:
    """Return the parameters in PARAMS. Raises InputError if a declaration is wrong."""
    declared = module.PARAMS
    if not isinstance(declared, (list, tuple)):
        raise InputError(f"{declared!r} must be a list of Param", file=file, key="PARAMS")
    params: list[Param] = []
    for index, param in enumerate(declared):
        if not isinstance(param, Param):
            raise InputError("must be a Param", file=file, key=f"PARAMS[{index}]")
        key = f"PARAMS.{param.name}"
        if param.name in RESERVED_PARAMETERS or param.name in [one.name for one in params]:
            raise InputError("duplicate or reserved name", file=file, key=key, code="duplicate")
        units = UNITS_OF_KIND.get(kind)
        if units is not None and param.unit not in units:
            message = f'unit "{param.unit}" is not allowed in a {kind} file'
            raise InputError(message, file=file, key=key, hint="use " + ", ".join(units))
        if units is None and param.unit in ("queue", "buffer"):
            message = f'unit "{param.unit}" is only for queue disciplines'
            raise InputError(message, file=file, key=key, hint='use "bytes"')
        if kind in ("queue", "routing", "transport") and param.each:
            message = "`each` is only for topologies and traffic patterns"
            raise InputError(message, file=file, key=key, hint="remove it")
        params.append(param)
    return tuple(params)


def read_presets(module: ModuleType, params: Sequence[Param], file: str) -> Presets:
    """Return the presets in PRESETS. Raises InputError if a value is wrong."""
    presets = _tables(module, "PRESETS", file, 'PRESETS = {"fast": {"window": 8}}')
    for preset, values in presets.items():
        # A preset may leave out required parameters.
        checked = [param for param in params if not param.required or param.name in values]
        resolve_params(checked, {}, values, None, file=file, key=f'PRESETS["{preset}"]')
    return presets


def check_transport(module: ModuleType, presets: Presets, file: str) -> None:
    """Raise InputError if a transport's declarations, except its state, have a wrong type."""
    fabric = getattr(module, "FABRIC", {})
    if not _is_table(fabric):
        example = 'FABRIC = {"queue_discipline": "drop_tail"}'
        raise InputError(f"{_short(fabric)} must be a dict", file=file, key="FABRIC", hint=example)
    example = 'PRESET_FABRIC = {"fast": {"queue_discipline": "trim"}}'
    for preset in _tables(module, "PRESET_FABRIC", file, example):
        if preset not in presets:
            hint, key = did_you_mean(preset, presets), f'PRESET_FABRIC["{preset}"]'
            raise InputError("unknown preset", file=file, key=key, hint=hint)
    for name in ("RELIABLE", "CLOSED_FORM", "KEEPS_RATE", "ROCEV2"):
        value = getattr(module, name, False)
        if not isinstance(value, bool):
            raise InputError(f"{_short(value)} must be True or False", file=file, key=name)
    _check_control(getattr(module, "CONTROL_PER_DATA", 1), file)
    trace = getattr(module, "TRACE", None)
    is_list = isinstance(trace, (list, tuple)) and all(isinstance(one, str) for one in trace)
    if trace is not None and not is_list:
        message = f"{_short(trace)} must be a tuple of names"
        raise InputError(message, file=file, key="TRACE", hint='TRACE = ("window",)')


def classes_of(module: Any) -> tuple[int, int] | None:
    """Return the minimum and maximum number of classes of a queue discipline; None: any."""
    classes = getattr(module, "CLASSES", None)
    if classes is None:
        return None
    least, most = classes if isinstance(classes, tuple) else (classes, classes)
    return int(least), int(most)


def check_queue(module: ModuleType, file: str) -> None:
    """Raise InputError if a queue discipline's declarations, except its state, are wrong."""
    _check_functions(module, file, QUEUE_FUNCTIONS)
    classes = getattr(module, "CLASSES", None)
    ends: tuple[Any, ...] = (classes,)
    if isinstance(classes, tuple) and len(classes) == 2:
        ends = classes
    counts = all(isinstance(end, int) and not isinstance(end, bool) for end in ends)
    if classes is not None and not (counts and 1 <= ends[0] <= ends[-1] <= CLASSES):
        raise InputError(
            f"{_short(classes)} is not a number of classes",
            file=file,
            key="CLASSES",
            hint=f"1 to {CLASSES}, or a range like (2, 4); remove it to use n_traffic_classes",
        )


def check_routing(module: ModuleType, file: str) -> None:
    """Raise InputError if a routing algorithm's declarations, except its state, are wrong."""
    _check_functions(module, file, ROUTING_FUNCTIONS)
    for name in ROUTING_FLAGS:
        value = getattr(module, name, False)
        if not isinstance(value, bool):
            raise InputError(f"{_short(value)} must be True or False", file=file, key=name)
    if getattr(module, "SYMMETRIC", False) and not getattr(module, "ONE_PATH", False):
        raise InputError("requires ONE_PATH = True", file=file, key="SYMMETRIC", code="conflict")
    levels = getattr(module, "LEVELS", 1)
    if not _is_count(levels, CLASSES):
        hint = f"virtual channels, 1 to {CLASSES}"
        raise InputError(
            f"{_short(levels)} is not a number of levels", file=file, key="LEVELS", hint=hint
        )
    rows = getattr(module, "FLOW_ROWS", 1)
    if not _is_count(rows, MAX_FLOW_ROWS) or rows & (rows - 1):
        hint = f"a power of two, at most {MAX_FLOW_ROWS}"
        raise InputError(
            f"{_short(rows)} is not a number of rows", file=file, key="FLOW_ROWS", hint=hint
        )
    hops = getattr(module, "MAX_HOPS", None)
    if hops is not None and not callable(hops) and not _is_count(hops, MAX_HOPS):
        hint = f"links, 1 to {MAX_HOPS}, or a function of the network"
        raise InputError(
            f"{_short(hops)} is not a number of links", file=file, key="MAX_HOPS", hint=hint
        )


def _check_functions(module: ModuleType, file: str, names: tuple[str, ...]) -> None:
    for name in names:
        if not callable(getattr(module, name, check_queue)):
            raise InputError("must be a function", file=file, key=name)


def _is_count(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most


def _check_control(value: Any, file: str) -> None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or not 0 <= value <= MAX_CONTROL_PER_DATA:
        raise InputError(
            f"{_short(value)} is not a number of packets",
            file=file,
            key="CONTROL_PER_DATA",
            hint=f"control packets per data packet, 0 to {MAX_CONTROL_PER_DATA} (default 1)",
        )


def _tables(module: ModuleType, name: str, file: str, example: str) -> Presets:
    """Return a dict of dicts, one per preset. Raises InputError if it is not one."""
    tables = getattr(module, name, {})
    if not _is_table(tables):
        message = f"{_short(tables)} must be a dict of presets"
        raise InputError(message, file=file, key=name, hint=example)
    for preset, table in tables.items():
        if not _is_table(table):
            message, key = f"{_short(table)} must be a dict", f'{name}["{preset}"]'
            raise InputError(message, file=file, key=key, hint=example)
        if not preset or ":" in preset:
            raise InputError(f'"{preset}" is not a preset name', file=file, key=name)
    return dict(tables)


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(key, str) for key in value)


def _short(value: object) -> str:
    """Return a wrong value, shortened for a message."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
