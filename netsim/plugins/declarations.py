"""What the modules of plugins declare, checked for its type before anything uses it."""

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
"""The parameters that a queue discipline may have."""

MAX_CONTROL_PER_DATA = 64

QUEUE_FUNCTIONS = ("check", "no_effect", "settle")
"""What a queue discipline may be asked before a run."""

Presets = Mapping[str, Mapping[str, object]]


def read_params(module: ModuleType, kind: str, file: str) -> tuple[Param, ...]:
    """The parameters in PARAMS of a plugin. Raises InputError if they are not declared well."""
    declared = module.PARAMS
    if not isinstance(declared, (list, tuple)):
        raise InputError(f"{declared!r} is not a list of Param", file=file, key="PARAMS")
    params: list[Param] = []
    for index, param in enumerate(declared):
        if not isinstance(param, Param):
            raise InputError("is not a Param", file=file, key=f"PARAMS[{index}]")
        if param.name in RESERVED_PARAMETERS or param.name in [one.name for one in params]:
            message = "this name is taken"
            raise InputError(message, file=file, key=f"PARAMS.{param.name}", code="duplicate")
        if kind == "queue" and param.unit not in QUEUE_UNITS:
            hint = "one of " + ", ".join(QUEUE_UNITS)
            message = f'queue disciplines have no parameters of unit "{param.unit}"'
            raise InputError(message, file=file, key=f"PARAMS.{param.name}", hint=hint)
        if kind != "queue" and param.unit in ("queue", "buffer"):
            message = "only queue disciplines have sizes in packets"
            raise InputError(message, file=file, key=f"PARAMS.{param.name}", hint='"bytes"')
        if kind in ("queue", "transport") and param.each:
            message = "only topologies and traffic patterns have a value for each part"
            raise InputError(message, file=file, key=f"PARAMS.{param.name}", hint="leave out each")
        params.append(param)
    return tuple(params)


def read_presets(module: ModuleType, params: Sequence[Param], file: str) -> Presets:
    """The presets in PRESETS. Raises InputError if one of their values is wrong."""
    presets = _tables(module, "PRESETS", file, 'PRESETS = {"fast": {"window": 8}}')
    for preset, values in presets.items():
        # A preset need not give what the experiment has to.
        checked = [param for param in params if not param.required or param.name in values]
        resolve_params(checked, {}, values, None, file=file, key=f'PRESETS["{preset}"]')
    return presets


def check_transport(module: ModuleType, presets: Presets, file: str) -> None:
    """Raises InputError if what a transport declares besides its state is of a wrong type."""
    fabric = getattr(module, "FABRIC", {})
    if not _is_table(fabric):
        example = 'FABRIC = {"queue_discipline": "drop_tail"}'
        raise InputError(f"{_short(fabric)} is not a dict", file=file, key="FABRIC", hint=example)
    example = 'PRESET_FABRIC = {"fast": {"queue_discipline": "trim"}}'
    for preset in _tables(module, "PRESET_FABRIC", file, example):
        if preset not in presets:
            hint = did_you_mean(preset, presets)
            raise InputError(
                "no such preset", file=file, key=f'PRESET_FABRIC["{preset}"]', hint=hint
            )
    for name, default in (("RELIABLE", True), ("CLOSED_FORM", False), ("KEEPS_RATE", False)):
        value = getattr(module, name, default)
        if not isinstance(value, bool):
            raise InputError(f"{_short(value)} is neither True nor False", file=file, key=name)
    _check_control(getattr(module, "CONTROL_PER_DATA", 1), file)
    trace = getattr(module, "TRACE", None)
    is_list = isinstance(trace, (list, tuple)) and all(isinstance(one, str) for one in trace)
    if trace is not None and not is_list:
        hint = 'TRACE = ("window",)'
        raise InputError(
            f"{_short(trace)} is not a tuple of names", file=file, key="TRACE", hint=hint
        )


def classes_of(module: Any) -> tuple[int, int] | None:
    """The fewest and the most classes that a queue discipline can have; None: any number."""
    classes = getattr(module, "CLASSES", None)
    if classes is None:
        return None
    least, most = classes if isinstance(classes, tuple) else (classes, classes)
    return int(least), int(most)


def check_queue(module: ModuleType, file: str) -> None:
    """Raises InputError if what a queue discipline declares besides its state is wrong."""
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
            hint=f"1 to {CLASSES}; or the fewest and the most, (2, 4); leave it out if "
            "n_traffic_classes of [fabric] decides",
        )
    for name in QUEUE_FUNCTIONS:
        if not callable(getattr(module, name, check_queue)):
            raise InputError("is not a function", file=file, key=name)


def _check_control(value: Any, file: str) -> None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or not 0 <= value <= MAX_CONTROL_PER_DATA:
        raise InputError(
            f"{_short(value)} is not a number of packets",
            file=file,
            key="CONTROL_PER_DATA",
            hint=f"how many control packets answer a data packet, from 0 to "
            f"{MAX_CONTROL_PER_DATA}; 1 if it is not declared",
        )


def _tables(module: ModuleType, name: str, file: str, example: str) -> Presets:
    """A dict of dicts by the names of presets. Raises InputError if it is none."""
    tables = getattr(module, name, {})
    if not _is_table(tables):
        raise InputError(
            f"{_short(tables)} is not a dict of presets", file=file, key=name, hint=example
        )
    for preset, table in tables.items():
        if not _is_table(table):
            raise InputError(
                f"{_short(table)} is not a dict", file=file, key=f'{name}["{preset}"]', hint=example
            )
        if not preset or ":" in preset:
            raise InputError(f'"{preset}" is no name for a preset', file=file, key=name)
    return dict(tables)


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(key, str) for key in value)


def _short(value: object) -> str:
    """A wrong value as it may stand in a message."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
