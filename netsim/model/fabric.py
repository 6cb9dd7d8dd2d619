"""Packet formats, and how switches treat packets: resolved forms in bytes and plain numbers.

It is also the table of the keys of [fabric]; `netsim.experiment` reads and checks them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from netsim.limits import CLASSES, PS_BITS
from netsim.model.port_pairs import HASH, PLANE_BALANCING
from netsim.plugins import registry
from netsim.plugins.calls import settled
from netsim.plugins.params import resolve_params
from netsim.plugins.registry import PluginSpec
from netsim.units import Bdp

if TYPE_CHECKING:
    from netsim.model.network import Network

DROP_TAIL = "drop_tail"

ECMP = "ecmp"
PFC_FRAME_BYTES = 64

REQUIRED = object()
"""Default of a required key."""


@dataclass(frozen=True)
class PacketFormat:
    """Packet sizes on the wire; a full data packet is payload plus header."""

    payload_bytes: int = 4096
    header_bytes: int = 64
    control_bytes: int = 64

    @property
    def data_bytes(self) -> int:
        return self.payload_bytes + self.header_bytes


@dataclass(frozen=True)
class Key:
    """A field of `Fabric` as a key of [fabric].

    ``unit`` is one of a plugin's parameters, or "table". ``default`` is as written; ``none`` is the
    word for None. ``rules`` are bounds and choices. ``doc`` is its line in `docs/keys.md`.
    """

    unit: str
    default: Any
    doc: str
    none: str | None = None
    rules: Mapping[str, Any] = field(default_factory=dict)


def _key(unit: str, default: Any, doc: str, **rules: Any) -> Any:
    """Return a dataclass field with its `Key`."""
    return field(default=default, metadata={"key": Key(unit, default, doc, rules=rules)})


@dataclass(frozen=True)
class Ecn:
    """RED-like ECN marking: never up to `kmin_bytes`, always above `kmax_bytes`.

    In between, the marking probability rises to `pmax`. A single threshold is kmin = kmax. `at` is
    when the queue is measured: "enqueue" (without the packet) or "dequeue" (with it).
    """

    kmin_bytes: int | Bdp = field(
        metadata={"key": Key("queue", REQUIRED, "queue up to which no packet is marked")}
    )
    kmax_bytes: int | Bdp = field(
        metadata={
            "key": Key(
                "queue", None, "queue above which every packet is marked; default: kmin_bytes"
            )
        }
    )
    pmax: float = _key("fraction", 1.0, "marking probability just below kmax_bytes")
    at: str = _key(
        "choice",
        "enqueue",
        "whether the queue is measured at enqueue, without the packet, or at dequeue, with it",
        choices=("enqueue", "dequeue"),
    )
    last_hop: bool = _key("bool", True, "whether ports that lead to hosts mark")


WAIT, DROP = AT_CIRCUIT_END = ("wait", "drop")
"""What a port does at the end of a circuit: hold packets that do not fit, or lose them."""

DIRECT, OPPORTUNISTIC, VLB = INDIRECT = ("none", "opportunistic", "vlb")
"""Whether packets may go through a third switch, and which."""

GUARD = Key("time", "0ps", "time at either end of a day in which no transmission starts")
CLOCK_OFFSET = Key("time", "0ps", "largest clock error of an edge switch", rules={"maximum": "1ms"})


@dataclass(frozen=True)
class CircuitRules:
    """How edge switches use circuits (netsim/engine/MODEL.md).

    No transmission starts within `guard_ps` of either end of a day by the switch's clock, which is
    wrong by up to `clock_offset_ps`. OPPORTUNISTIC lets packets in classes above `indirect_class`
    go through a third switch, in that class.
    """

    guard_ps: int = field(default=0, metadata={"key": GUARD, "written": "guard"})
    clock_offset_ps: int = field(
        default=0, metadata={"key": CLOCK_OFFSET, "written": "clock_offset"}
    )
    at_circuit_end: str = _key(
        "choice",
        WAIT,
        "wait: hold packets for the next day; drop: lose packets in flight at a circuit's end",
        choices=AT_CIRCUIT_END,
    )
    indirect: str = _key(
        "choice", DIRECT, "whether packets may go through a third switch", choices=INDIRECT
    )
    indirect_class: int = _key("count", 0, "opportunistic: class of indirect packets")


HOST_JITTER = Key(
    "time",
    "0ps",
    "longest random delay of a packet on its host's link; a host's flows then take random turns",
    rules={"maximum": "1ms"},
)

ECN = Key(
    "table",
    "none",
    "table [fabric.ecn]; false disables the transport's ECN",
    none="none",
)

CIRCUITS = Key("table", None, "table [fabric.circuits]")


QUEUE_DISCIPLINE = Key(
    "text", DROP_TAIL, "name or file of the queue discipline, which adds keys of its own"
)

ROUTING = Key(
    "text",
    ECMP,
    "name or file of the routing algorithm, by which switches choose ports; adds keys of its own",
)


def queue_spec(name: str, packets: PacketFormat | None = None, **params: Any) -> PluginSpec:
    """Return a built-in or installed queue discipline with parameters in bytes and plain
    numbers. ``params`` replace its defaults for ``packets``."""
    return _spec("queue", name, packets, params)


def routing_spec(name: str, **params: Any) -> PluginSpec:
    """Return a built-in or installed routing algorithm, like `queue_spec`."""
    return _spec("routing", name, None, params)


def _spec(
    kind: str, name: str, packets: PacketFormat | None, params: Mapping[str, Any]
) -> PluginSpec:
    plugin = registry.find(kind, name)
    packet_bytes = (packets or PacketFormat()).data_bytes
    defaults = resolve_params(
        plugin.params, {}, {}, None, file=None, key="fabric", packet_bytes=packet_bytes
    )
    assert params.keys() <= defaults.keys()
    return PluginSpec(plugin, {**defaults, **params})


@dataclass(frozen=True)
class Fabric:
    """How all switches of the network queue, drop, trim, mark, pause and route packets.

    ``queue`` is the queue discipline with its parameters, sizes in bytes; ``routing`` the routing
    algorithm.

    This is also the table of the keys of [fabric] that are no plugin's; reading, checking and
    writing derive from it. To add a key, add a field here, its conflicts to `_contradictions`
    (experiment/resolve_fabric.py) and, if kernels read it, a field of that name to `FabricRecord`
    (engine/kernels/fields.py).
    """

    queue: PluginSpec = field(
        default_factory=lambda: queue_spec(DROP_TAIL),
        metadata={"key": QUEUE_DISCIPLINE, "written": "queue_discipline"},
    )
    routing: PluginSpec = field(
        default_factory=lambda: routing_spec(ECMP), metadata={"key": ROUTING}
    )
    plane_balancing: str = _key(
        "choice",
        HASH,
        "how a host with several ports chooses one for a packet",
        choices=PLANE_BALANCING,
    )
    n_traffic_classes: int = _key(
        "count",
        1,
        "traffic classes, strict priority, 0 first; at most 8",
        minimum=1,
        maximum=CLASSES,
    )
    ecn: Ecn | None = field(default=None, metadata={"key": ECN})
    ecn_from_class: int = _key("count", 0, "first class that is marked")
    circuits: CircuitRules | None = field(default=None, metadata={"key": CIRCUITS})
    host_jitter_ps: int = field(default=0, metadata={"key": HOST_JITTER, "written": "host_jitter"})
    allow_deadlock: bool = _key(
        "bool", False, "with PFC: also run networks whose links can wait for each other in a cycle"
    )

    @property
    def queue_discipline(self) -> str:
        return self.queue.name

    @property
    def plugins(self) -> dict[str, PluginSpec]:
        """The plugins by their keys in [fabric]."""
        return {"queue_discipline": self.queue, "routing": self.routing}

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of all plugins, whose names differ."""
        return {**self.queue.params, **self.routing.params}

    @property
    def one_path(self) -> bool:
        """Whether packets of a flow with the same entropy take one path."""
        return bool(getattr(self.routing.module, "ONE_PATH", False))

    @property
    def symmetric(self) -> bool:
        """Whether control packets must cross the same cables as data (`check_symmetric`)."""
        return bool(getattr(self.routing.module, "SYMMETRIC", False))

    @property
    def has_bdp_sizes(self) -> bool:
        """Whether any size is a bandwidth-delay product (netsim/model/port_sizes.py)."""
        ecn = () if self.ecn is None else (self.ecn.kmin_bytes, self.ecn.kmax_bytes)
        return any(isinstance(value, Bdp) for value in (*self.queue.params.values(), *ecn))

    @property
    def marks_last_hop(self) -> bool:
        """Whether ports that lead to hosts mark like others."""
        return self.ecn is None or self.ecn.last_hop

    @property
    def trims(self) -> bool:
        """Whether the discipline has a `trim` handler, which cuts packets to their headers."""
        return "trim" in vars(self.queue.module)

    @property
    def coupled(self) -> bool:
        """Whether the discipline has the ports of a switch act together, which pausing
        requires."""
        return bool(getattr(self.queue.module, "COUPLED", False))

    @property
    def pauses(self) -> bool:
        """Whether the discipline has a `pause` service, which pauses neighbors with PFC."""
        return "pause" in vars(self.queue.module)

    @property
    def n_levels(self) -> int:
        """Number of levels of each traffic class; without PFC there is only one."""
        return int(getattr(self.routing.module, "LEVELS", 1)) if self.pauses else 1

    @property
    def n_link_classes(self) -> int:
        """Number of classes at links and ports: traffic classes times levels."""
        return self.n_traffic_classes * self.n_levels

    def for_network(self, network: Network, packets: PacketFormat) -> Fabric:
        """Return this fabric with network-dependent parameters of its plugins settled.
        Bandwidth-delay products stay, as they differ by port."""
        return replace(
            self,
            queue=settled(self.queue, network, packets),
            routing=settled(self.routing, network, packets),
        )


def keys_of(table: type[Fabric] | type[Ecn] | type[CircuitRules]) -> dict[str, Key]:
    """Return the keys of [fabric] that are no plugin's, or of one of its tables, in order."""
    return {one.metadata.get("written", one.name): one.metadata["key"] for one in fields(table)}


def pfc_headroom_bytes(rate_bps: int, round_trip_ps: int, packets: PacketFormat) -> int:
    """Return the most bytes that can arrive over a cable after its receiver crosses XOFF.

    The pause frame waits for the packet being sent in that direction, is sent, and propagates. The
    sender then finishes the packet that it has started, and earlier bytes are still in flight.
    Another packet is the one that crossed XOFF. `round_trip_ps` is the cable's delay in both
    directions.
    """
    in_flight = -(-rate_bps * round_trip_ps // PS_BITS)
    largest = max(packets.data_bytes, packets.control_bytes)
    return in_flight + 3 * largest + PFC_FRAME_BYTES


def longest_headroom_bytes(network: Network, packets: PacketFormat) -> int:
    """Return the largest `pfc_headroom_bytes` of a network's cables."""
    delays_ps = network.port_delay_ps
    round_trips_ps = (delays_ps + delays_ps[network.port_peer]).tolist()
    cables = set(zip(network.port_rate_bps.tolist(), round_trips_ps, strict=True))
    return max((pfc_headroom_bytes(*cable, packets) for cable in cables), default=0)


def packet_counts(size_bytes: NDArray[np.int64], packets: PacketFormat) -> NDArray[np.int64]:
    """Return the number of data packets of each flow."""
    return -(-size_bytes // packets.payload_bytes)
