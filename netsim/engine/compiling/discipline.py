"""A queue discipline's file: its checked declarations and its handlers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from netsim.engine.compiling.plugin_file import (
    MAX_PACKET_BYTES,
    MAX_STATE_BYTES,
    PluginFile,
    functions_of,
)
from netsim.engine.kernels.fields import (
    CommonParameters,
    PacketRecord,
    PortRecord,
    QueueRecord,
    SwitchRecord,
)
from netsim.engine.kernels.layout import (
    COMMON_PARAMETERS,
    PACKET_FIELDS,
    PORT_FIELDS,
    QUEUE_FIELDS,
    SWITCH_FIELDS,
    padded_record_of,
    record_of,
)
from netsim.engine.kernels.queue_handlers import COMING, LEAVING, QUEUE_HANDLERS
from netsim.engine.kernels.queue_services import pause, pop_tail, resume, wait_until

QUEUE_SETTABLE = {
    COMING: ("aux", "prio", "entropy", "ecn"),
    LEAVING: ("aux", "prio", "entropy", "ecn"),
}
"""Engine fields that a discipline may set, besides its own."""

QUEUE_DECLARATIONS = (
    *("PARAMS", "PRESETS", "CLASSES", "COUPLED"),
    *("PORT_STATE", "CLASS_STATE", "SWITCH_STATE", "PACKET_FIELDS"),
)
"""Names that a queue discipline may declare."""

ONLY_COUPLED = ("on_arrival", "on_departure")


@dataclass(frozen=True)
class Discipline:
    """A queue discipline's state, parameters, handlers and features.

    ``packet`` has none of the transports' fields.
    """

    module: ModuleType
    port: np.dtype
    queue: np.dtype
    switch: np.dtype
    packet: np.dtype
    par: np.dtype
    coupled: bool
    handlers: Mapping[str, FunctionType]
    features: Mapping[str, bool]


def read_discipline(module: ModuleType, params: Mapping[str, Any], name: str) -> Discipline:
    """Check a queue discipline's declarations. Raises InputError."""
    declared = PluginFile(module, name)
    coupled = declared.flag("COUPLED")
    switch = declared.fields("SWITCH_STATE", SWITCH_FIELDS, MAX_STATE_BYTES)
    if switch and not coupled:
        hint = "COUPLED = True has the ports of a switch simulated in the order of time"
        raise declared.wrong("SWITCH_STATE", "ports that share state are coupled", hint)
    handlers = {name: declared.handler(row) for name, row in QUEUE_HANDLERS.items()}
    has = {name: handlers[name] is not row.default for name, row in QUEUE_HANDLERS.items()}
    for handler in ONLY_COUPLED:
        if has[handler] and not coupled:
            raise declared.wrong(handler, "is called if ports are coupled", "COUPLED = True")
    used = functions_of(module, [handlers[name] for name in handlers if has[name]])
    return Discipline(
        module=module,
        port=padded_record_of(
            PortRecord, *declared.fields("PORT_STATE", PORT_FIELDS, MAX_STATE_BYTES)
        ),
        queue=padded_record_of(
            QueueRecord, *declared.fields("CLASS_STATE", QUEUE_FIELDS, MAX_STATE_BYTES)
        ),
        switch=padded_record_of(SwitchRecord, *switch),
        packet=record_of(
            PacketRecord, *declared.fields("PACKET_FIELDS", PACKET_FIELDS, MAX_PACKET_BYTES)
        ),
        par=record_of(CommonParameters, *declared.parameters(params, COMMON_PARAMETERS)),
        coupled=coupled,
        handlers=handlers,
        features={
            "HAS_ON_ARRIVAL": has["on_arrival"],
            "HAS_CHOOSE_CLASS": has["choose_class"],
            "HAS_CHOOSE_PACKET": has["choose_packet"],
            "HAS_ON_SEND": has["on_send"],
            "HAS_ON_DEPARTURE": has["on_departure"],
            "HAS_PREDICT_PAUSE": has["predict_pause"],
            "MOVES_PACKETS": pop_tail in used,
            "IS_SHAPED": has["choose_class"] and wait_until in used,
            "HAS_PFC": pause in used or resume in used,
        },
    )
