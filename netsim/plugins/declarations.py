"""Check the types of plugin modules' declarations, before anything uses them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from netsim.errors import InputError, did_you_mean
from netsim.limits import CLASSES
from netsim.params import REQUIRED, Param, chosen, resolve_params

RESERVED_PARAMETERS = ("kind",)

OF_ALL_TRAFFIC = (
    Param("start", "time", "0s", "start of the traffic, added to its own start times"),
    Param(
        "start_jitter",
        "time",
        "0s",
        "each flow that starts at a time starts later by a random part of this, drawn by flow",
        source="Floyd and Jacobson, On traffic phase effects in packet-switched gateways, 1991",
    ),
)
"""Parameters that every traffic pattern has."""

OF_JOBS = (
    Param(
        "hosts",
        chosen("hosts", 'a number, or a list such as [0, "4..7"]', int, str),
        REQUIRED,
        "hosts of the job: a number, or a list of hosts in the order of ranks",
        minimum=1,
    ),
)
"""Additional parameters of a traffic pattern that is one of several jobs."""

QUEUE_UNITS = (
    *("time", "bytes", "queue", "buffer", "rate"),
    *("count", "fraction", "ratio", "bool", "choice"),
)
"""Units of parameters that a queue discipline may have."""

MAX_CONTROL_PER_DATA = 64

BOTH_FUNCTIONS = ("check", "no_effect", "settle")
QUEUE_FUNCTIONS = (*BOTH_FUNCTIONS, "port_state")
"""Optional functions of a queue discipline or routing algorithm that run before a simulation."""

ROUTING_FUNCTIONS = (*BOTH_FUNCTIONS, "legs", "tables")  # such functions of a routing algorithm

ROUTING_UNITS = tuple(unit for unit in QUEUE_UNITS if unit not in ("queue", "buffer"))
"""Units of parameters that a routing algorithm may have."""

UNITS_OF_KIND = {"queue": QUEUE_UNITS, "routing": ROUTING_UNITS}

ROUTING_FLAGS = ("COUPLED", "VIA", "ONE_PATH", "SYMMETRIC", "WEIGHTED")

MAX_FLOW_ROWS = 1 << 20
MAX_HOPS = 255  # most links that a packet may cross

Presets = Mapping[str, Mapping[str, object]]


def read_params(module: ModuleType, kind: str, file: str) -> tuple[Param, ...]:
    """Return the parameters in PARAMS, and the parameters of all plugins of the kind. Raises
    InputError if a declaration is wrong."""
    declared = module.PARAMS
    if not isinstance(declared, (list, tuple)):
        raise InputError(f"{declared!r} must be a list of Param", file=file, key="PARAMS")
    of_all = OF_ALL_TRAFFIC if kind == "traffic" else ()
    reserved = (*RESERVED_PARAMETERS, *(param.name for param in of_all))
    reserved += tuple(param.name for param in OF_JOBS if kind == "traffic")
    params: list[Param] = []
    for index, param in enumerate(declared):
        if not isinstance(param, Param):
            raise InputError("must be a Param", file=file, key=f"PARAMS[{index}]")
        key = f"PARAMS.{param.name}"
        if param.name in reserved or param.name in [one.name for one in params]:
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
    return (*params, *of_all)


def read_presets(module: ModuleType, params: Sequence[Param], file: str) -> Presets:
    """Return the presets in PRESETS. Raises InputError if a value is wrong."""
    presets = _tables(module, "PRESETS", file, 'PRESETS = {"fast": {"window": 8}}')
    for preset, values in presets.items():
        # A preset may leave out required parameters.
        checked = [param for param in params if not param.required or param.name in values]
        resolve_params(checked, {}, values, None, file=file, key=f'PRESETS["{preset}"]')
    return presets


class Declarations:
    """The declarations of a plugin's ``file``."""

    def __init__(self, module: ModuleType, file: str) -> None:
        self.module, self.file = module, file

    def get(self, name: str, default: Any = None) -> Any:
        """Return a declared value."""
        return getattr(self.module, name, default)

    def wrong(self, name: str, message: str, hint: str | None = None) -> InputError:
        """Return the error for a declaration."""
        return InputError(message, file=self.file, key=name, hint=hint)

    def flag(self, name: str) -> bool:
        """Return a declared bool; False if it is missing."""
        value = self.get(name, False)
        if not isinstance(value, bool):
            raise self.wrong(name, f"{_short(value)} is neither True nor False")
        return value

    def check_functions(self, names: Sequence[str]) -> None:
        """Raise InputError if one of these names is declared but is not a function."""
        for name in names:
            if not callable(self.get(name, len)):
                raise self.wrong(name, "must be a function")


def check_transport(module: ModuleType, presets: Presets, file: str) -> None:
    """Raise InputError if a transport's declarations, except its state, have a wrong type."""
    declared = Declarations(module, file)
    fabric = declared.get("FABRIC", {})
    if not _is_table(fabric):
        example = 'FABRIC = {"queue_discipline": "drop_tail"}'
        raise declared.wrong("FABRIC", f"{_short(fabric)} must be a dict", example)
    example = 'PRESET_FABRIC = {"fast": {"queue_discipline": "trim"}}'
    for preset in _tables(module, "PRESET_FABRIC", file, example):
        if preset not in presets:
            hint = did_you_mean(preset, presets)
            raise declared.wrong(f'PRESET_FABRIC["{preset}"]', "unknown preset", hint)
    declared.check_functions(("check",))
    for name in ("RELIABLE", "CLOSED_FORM", "KEEPS_RATE"):
        declared.flag(name)
    control = declared.get("CONTROL_PER_DATA", 1)
    is_number = isinstance(control, (int, float)) and not isinstance(control, bool)
    if not is_number or not math.isfinite(control) or not 0 <= control <= MAX_CONTROL_PER_DATA:
        hint = f"control packets per data packet, 0 to {MAX_CONTROL_PER_DATA} (default 1)"
        message = f"{_short(control)} is not a number of packets"
        raise declared.wrong("CONTROL_PER_DATA", message, hint)
    trace = declared.get("TRACE")
    is_list = isinstance(trace, (list, tuple)) and all(isinstance(one, str) for one in trace)
    if trace is not None and not is_list:
        message = f"{_short(trace)} must be a tuple of names"
        raise declared.wrong("TRACE", message, 'TRACE = ("window",)')


def classes_of(module: Any) -> tuple[int, int] | None:
    """Return the minimum and maximum number of classes of a queue discipline; None: any."""
    classes = getattr(module, "CLASSES", None)
    if classes is None:
        return None
    least, most = classes if isinstance(classes, tuple) else (classes, classes)
    return int(least), int(most)


def check_queue(module: ModuleType, file: str) -> None:
    """Raise InputError if a queue discipline's declarations, except its state, are wrong."""
    declared = Declarations(module, file)
    declared.check_functions(QUEUE_FUNCTIONS)
    classes = declared.get("CLASSES")
    ends = classes if isinstance(classes, tuple) and len(classes) == 2 else (classes,)
    if classes is not None and not (
        all(_is_count(end, CLASSES) for end in ends) and ends[0] <= ends[-1]
    ):
        hint = f"1 to {CLASSES}, or a range like (2, 4); remove it to use n_traffic_classes"
        raise declared.wrong("CLASSES", f"{_short(classes)} is not a number of classes", hint)


def check_routing(module: ModuleType, file: str) -> None:
    """Raise InputError if a routing algorithm's declarations, except its state, are wrong."""
    declared = Declarations(module, file)
    declared.check_functions(ROUTING_FUNCTIONS)
    flags = {name: declared.flag(name) for name in ROUTING_FLAGS}
    if flags["SYMMETRIC"] and not flags["ONE_PATH"]:
        raise InputError("requires ONE_PATH = True", file=file, key="SYMMETRIC", code="conflict")
    levels, rows = declared.get("LEVELS", 1), declared.get("FLOW_ROWS", 1)
    if not _is_count(levels, CLASSES):
        hint = f"virtual channels, 1 to {CLASSES}"
        raise declared.wrong("LEVELS", f"{_short(levels)} is not a number of levels", hint)
    if not _is_count(rows, MAX_FLOW_ROWS) or rows & (rows - 1):
        hint = f"a power of two, at most {MAX_FLOW_ROWS}"
        raise declared.wrong("FLOW_ROWS", f"{_short(rows)} is not a number of rows", hint)
    hops = declared.get("MAX_HOPS")
    if hops is not None and not callable(hops) and not _is_count(hops, MAX_HOPS):
        hint = f"links, 1 to {MAX_HOPS}, or a function of the network"
        raise declared.wrong("MAX_HOPS", f"{_short(hops)} is not a number of links", hint)


def _is_count(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most


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
