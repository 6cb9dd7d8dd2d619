"""Checked declarations and handlers of a routing algorithm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from netsim.engine.compiling.plugin_file import (
    PluginFile,
    functions_of,
)
from netsim.engine.kernels.fields import (
    Declared,
    PacketRecord,
    PortChoiceRecord,
    RouterRecord,
    RoutingPortRecord,
)
from netsim.engine.kernels.handlers import ROUTING_HANDLERS
from netsim.engine.kernels.layout import fields_of, record_of
from netsim.engine.kernels.routing import (
    flow_row,
    held,
    publish,
    published,
    set_level,
    set_via,
    via_of,
)

ROUTING_SETTABLE = {"port": ("draws",)}
"""Engine fields that a routing algorithm may set, besides its own."""

ROUTING_DECLARATIONS = (
    *("PARAMS", "PRESETS", "COUPLED", "VIA", "LEVELS", "ONE_PATH", "SYMMETRIC", "MAX_HOPS"),
    *("PORT_STATE", "PORT_SALTS", "SWITCH_STATE", "PLANE_STATE", "PACKET_FIELDS"),
    *("FLOW_TABLE", "FLOW_ROWS", "PUBLISHED"),
)
"""Names that a routing algorithm may declare."""

ONLY_COUPLED = ("on_depart", "on_tick")
OTHERS = tuple(name for name in ROUTING_HANDLERS if name[:6] != "choose")
FLOW_ROWS, MAX_PUBLISHED = 1024, 1024
"""Default number of rows of a flow table, and most values that a switch publishes."""

VIA = "via"  # field of a packet: the group that it goes via, plus 1

Salt = tuple[str, int, int, int]
"""Field of a port that is filled with a hash: its name, purpose, and two numbers a and b, for draws
of entity ``a * number + b``."""


@dataclass(frozen=True)
class RoutingAlgorithm:
    """A routing algorithm's state, parameters, handlers and features. ``packet`` has none of the
    transports' fields. ``ahead``: its choices depend on nothing that a run changes. ``uses`` are
    the functions that handlers refer to."""

    module: ModuleType
    port: np.dtype
    switch: np.dtype
    packet: np.dtype
    row: np.dtype
    plane: np.dtype
    par: np.dtype
    coupled: bool
    ahead: bool
    salts: tuple[Salt, ...]
    handlers: Mapping[str, FunctionType]
    features: Mapping[str, int]
    uses: frozenset[Callable[..., Any]]

    @property
    def n_rows(self) -> int:
        """Rows of a flow table."""
        return int(self.features["FLOW_ROWS"])


def read_routing(module: ModuleType, params: Mapping[str, Any], name: str) -> RoutingAlgorithm:
    """Check a routing algorithm's declarations. Raises InputError."""
    declared = PluginFile(module, name)
    coupled, via = declared.flag("COUPLED"), declared.flag(VIA.upper())
    salts = _salts(declared)
    state = declared.fields("PORT_STATE", fields_of(RoutingPortRecord))
    row = declared.fields("FLOW_TABLE")
    packet = declared.names("PACKET_FIELDS", (*fields_of(PacketRecord), VIA))
    for one in (one for one, *_ in salts if one in (*state, *fields_of(RoutingPortRecord))):
        raise declared.wrong("PORT_SALTS", f"duplicate or reserved field {one}")
    handlers = {name: declared.handler(row) for name, row in ROUTING_HANDLERS.items()}
    has = {name: handlers[name] is not row.default for name, row in ROUTING_HANDLERS.items()}
    used = functions_of(module, [handlers[name] for name in handlers if has[name]])
    needs = [name for name in ONLY_COUPLED if has[name]]
    needs += ["SWITCH_STATE"] if getattr(module, "SWITCH_STATE", ()) else []
    needs += [f"{one.__name__}()" for one in (held, publish) if one in used]
    if needs and not coupled:
        what = f"{needs[0]}, which it calls," if needs[0][-1] == ")" else ""
        message = f"{what} requires coupled ports".strip()
        hint = "COUPLED = True has the ports of a switch simulated in the order of time"
        raise declared.wrong("COUPLED" if what else needs[0], message, hint)
    if (set_via in used or via_of in used) and not via:
        raise declared.wrong("VIA", "set_via() and via_of() require it", "VIA = True")
    if set_level in used and getattr(module, "LEVELS", 1) == 1:
        raise declared.wrong("LEVELS", "set_level() requires it", "LEVELS = 2")
    if flow_row in used and not row:
        raise declared.wrong("FLOW_TABLE", "flow_row() requires it", 'FLOW_TABLE = ("last_ps",)')
    n_published = declared.count("PUBLISHED", MAX_PUBLISHED)
    if (publish in used or published in used) and not n_published:
        raise declared.wrong("PUBLISHED", "publish() and published() require it", "PUBLISHED = 1")
    if n_published and "publish_delay" not in params:
        hint = 'Param("publish_delay", "time", "2us", "age of published values")'
        raise declared.wrong("PUBLISHED", "requires a parameter publish_delay", hint)
    if has["on_tick"] and "tick" not in params:
        hint = 'Param("tick", "time", "10us", "period")'
        raise declared.wrong("on_tick", "requires a parameter tick", hint)
    own = (*state, *(one for one, *_ in salts))
    return RoutingAlgorithm(
        module=module,
        port=record_of(RoutingPortRecord, *own),
        switch=declared.record("SWITCH_STATE", RouterRecord, padded=True),
        packet=record_of(PacketRecord, *packet, *([VIA] if via else [])),
        row=record_of(Declared, *(row or ("unused",))),
        plane=declared.record("PLANE_STATE", PortChoiceRecord),
        par=declared.parameters(params),
        coupled=coupled,
        ahead=declared.flag("ONE_PATH") and not (own or row) and not any(has[n] for n in OTHERS),
        salts=salts,
        handlers=handlers,
        features={
            "HAS_AT_SOURCE": has["at_source"],
            "HAS_AT_SWITCH": has["at_switch"],
            "HAS_ON_ROUTE": has["on_route"],
            "HAS_ON_DEPART": has["on_depart"],
            "HAS_ON_TICK": has["on_tick"],
            "VIA": via,
            "N_PUBLISHED": n_published,
            "FLOW_ROWS": int(getattr(module, "FLOW_ROWS", FLOW_ROWS)) if row else 0,
            "ONE_FLOW_TABLE": coupled,
        },
        uses=frozenset(used),
    )


def _salts(declared: PluginFile) -> tuple[Salt, ...]:
    """Return PORT_SALTS. Raises InputError if it has another form."""
    salts = getattr(declared.module, "PORT_SALTS", ())
    for salt in salts if isinstance(salts, tuple) else [salts]:
        kinds = [type(one) for one in salt] if isinstance(salt, Sequence) else []
        if kinds != [str, int, int, int] or not str(salt[0]).isidentifier():
            hint = 'PORT_SALTS = (("salt", 128, 1, 0),): field, purpose, and entity 1 * number + 0'
            raise declared.wrong("PORT_SALTS", f"{salt!r} is not a salt", hint)
    return tuple(salts)
