"""A transport's file: its checked declarations and its handlers.

`multi_transport.py` joins those of a run.
"""

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
)
from netsim.engine.kernels.fields import (
    HostRecord,
    PacketRecord,
    ParameterRecord,
    RxRecord,
    TxRecord,
)
from netsim.engine.kernels.handlers import BUILT, HANDLERS, SENT
from netsim.engine.kernels.layout import (
    HOST_FIELDS,
    MAX_TIMERS,
    PACKET_FIELDS,
    PARAMETER_FIELDS,
    RX_FIELDS,
    TX_FIELDS,
    record_of,
)

SETTABLE = {
    "tx": ("prio", "entropy", "retransmits"),
    "rx": ("prio", "entropy"),
    BUILT: ("seq", "aux", "prio", "entropy", "kind", "ecn"),
    SENT: ("seq", "aux", "prio", "entropy", "ecn", "size_bytes"),
}
"""Engine fields that a transport may set, besides its own."""

DECLARATIONS = (
    *("PARAMS", "PRESETS", "FABRIC", "PRESET_FABRIC"),
    *("TX_STATE", "RX_STATE", "HOST_STATE", "PACKET_FIELDS"),
    *("TX_TIMERS", "RX_TIMERS", "HOST_TIMERS", "TX_BITMAPS", "RX_BITMAPS"),
    *("CONTROL_PER_DATA", "RELIABLE", "CLOSED_FORM", "TRACE"),
)
"""Names that a transport may declare."""


@dataclass(frozen=True)
class Protocol:
    """A transport's state fields, timers, bitmaps, parameters and handlers."""

    modules: tuple[ModuleType, ...]
    tx: np.dtype
    rx: np.dtype
    host: np.dtype
    packet: np.dtype
    pars: tuple[np.dtype, ...]
    tx_timers: int
    rx_timers: int
    host_timers: int
    tx_bitmaps: int
    rx_bitmaps: int
    handlers: Mapping[str, FunctionType]
    own_names: tuple[Mapping[str, str], ...] = ({},)
    """For each transport: record names of fields that its file calls otherwise."""

    def has(self, handler: str) -> bool:
        """Return whether the transport defines this handler."""
        return self.handlers[handler] is not HANDLERS[handler].default

    @property
    def features(self) -> dict[str, bool]:
        """Specialization constants of a transport."""
        return {
            "HAS_RANK": self.has("rank"),
            "TELEMETRY": self.has("on_forward"),
        }


def read_protocol(module: ModuleType, params: Mapping[str, Any], name: str) -> Protocol:
    """Check a transport's declarations. Raises InputError."""
    declared = PluginFile(module, name)
    return Protocol(
        modules=(module,),
        tx=record_of(TxRecord, *declared.fields("TX_STATE", TX_FIELDS, MAX_STATE_BYTES)),
        rx=record_of(RxRecord, *declared.fields("RX_STATE", RX_FIELDS, MAX_STATE_BYTES)),
        host=record_of(HostRecord, *declared.fields("HOST_STATE", HOST_FIELDS, MAX_STATE_BYTES)),
        packet=record_of(
            PacketRecord, *declared.fields("PACKET_FIELDS", PACKET_FIELDS, MAX_PACKET_BYTES)
        ),
        pars=(record_of(ParameterRecord, *declared.parameters(params, PARAMETER_FIELDS)),),
        tx_timers=declared.count("TX_TIMERS", MAX_TIMERS - 1),
        rx_timers=declared.count("RX_TIMERS", MAX_TIMERS),
        host_timers=declared.count("HOST_TIMERS", MAX_TIMERS),
        tx_bitmaps=declared.count("TX_BITMAPS", 16),
        rx_bitmaps=declared.count("RX_BITMAPS", 16),
        handlers={name: declared.handler(handler) for name, handler in HANDLERS.items()},
    )
