"""What packets look like and how switches treat them, as the simulator reads it.

These are the resolved forms, in bytes and plain numbers, and the table of how a fabric is
written in an experiment. Reading and checking is in `netsim.experiment`.
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

ECMP, ECMP_SYMMETRIC = PATH_FOR_LIFE = ("ecmp", "ecmp_symmetric")
LOAD_BALANCING = (
    *PATH_FOR_LIFE,
    "spray_random",
    "spray_round_robin",
    "spray_permutation",
    "least_loaded",
)
PFC_FRAME_BYTES = 64

REQUIRED = object()
"""In place of a default: the key has to be written."""


@dataclass(frozen=True)
class PacketFormat:
    """Sizes of packets on the wire. A full data packet is payload and header."""

    payload_bytes: int = 4096
    header_bytes: int = 64
    control_bytes: int = 64

    @property
    def data_bytes(self) -> int:
        """A full data packet on the wire."""
        return self.payload_bytes + self.header_bytes


@dataclass(frozen=True)
class Key:
    """How a field of a `Fabric` is written as a key of [fabric].

    ``unit`` is one of a plugin's parameters, or "table". ``default`` is as written; ``none`` is the
    word for None. ``rules`` are bounds and choices. ``doc`` is the key's line in
    `docs/keys.md`.
    """

    unit: str
    default: Any
    doc: str
    none: str | None = None
    rules: Mapping[str, Any] = field(default_factory=dict)


def _key(unit: str, default: Any, doc: str, **rules: Any) -> Any:
    """A field with its row of the table."""
    return field(default=default, metadata={"key": Key(unit, default, doc, rules=rules)})


@dataclass(frozen=True)
class Ecn:
    """RED-like marking: never up to `kmin_bytes`, always above `kmax_bytes`.

    In between a packet is marked with a probability that rises to `pmax`. A single
    threshold is kmin = kmax. `at` says when the queue is looked at: "enqueue"
    (without the packet) or "dequeue" (with it).
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


WAIT, DROP = AT_CIRCUIT_END = ("wait", "drop")
"""What becomes of light under way when a circuit ends: there is none, or it is lost."""

DIRECT, OPPORTUNISTIC, VLB = INDIRECT = ("none", "opportunistic", "vlb")
"""Whether packets go by way of a third switch, and which."""

GUARD = Key("time", "0ps", "time at either end of a day in which no transmission starts")
CLOCK_OFFSET = Key("time", "0ps", "largest clock error of an edge switch", rules={"maximum": "1ms"})


@dataclass(frozen=True)
class CircuitRules:
    """How edge switches use circuits that are there on some days only (netsim/engine/MODEL.md).

    Nothing is started for `guard_ps` at both ends of a day, as each switch's own clock has it,
    which is wrong by up to `clock_offset_ps`. Under OPPORTUNISTIC what waits in classes above
    `indirect_class` may go by way of a third switch, in that class.
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


ECN = Key(
    "table",
    "none",
    "table [fabric.ecn]; false turns off ECN that the transport asks for",
    none="none",
)

CIRCUITS = Key("table", None, "table [fabric.circuits]")


QUEUE_DISCIPLINE = Key(
    "text", "drop_tail", "name or file of the queue discipline, which adds keys of its own"
)


def queue_spec(name: str, packets: PacketFormat | None = None, **params: Any) -> PluginSpec:
    """A built-in or installed queue discipline; ``params``, in bytes and plain numbers, replace
    its defaults, which are those for ``packets``."""
    plugin = registry.find("queue", name)
    packet_bytes = (packets or PacketFormat()).data_bytes
    defaults = resolve_params(
        plugin.params, {}, {}, None, file=None, key="fabric", packet_bytes=packet_bytes
    )
    assert params.keys() <= defaults.keys()
    return PluginSpec(plugin, {**defaults, **params})


@dataclass(frozen=True)
class Fabric:
    """How every switch of the network queues, drops, trims, marks, pauses and spreads.

    What a queue is, what it admits and what is served next is up to ``queue``, a discipline with
    its parameters, whose sizes are in bytes.

    This is the table of the keys of [fabric] that every discipline shares: reading, checking and
    writing them is derived from it. To add one, add a field here, what it must not contradict to
    `_contradictions` (experiment/resolve_fabric.py), and if kernels read it a field of that name to
    `FabricRecord` (engine/kernels/fields.py).
    """

    queue: PluginSpec = field(
        default_factory=lambda: queue_spec(DROP_TAIL),
        metadata={"key": QUEUE_DISCIPLINE, "written": "queue_discipline"},
    )
    load_balancing: str = _key(
        "choice", "ecmp", "how a switch chooses between equal-cost ports", choices=LOAD_BALANCING
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

    @property
    def queue_discipline(self) -> str:
        """The queue discipline as an experiment names it."""
        return self.queue.name

    @property
    def in_products(self) -> bool:
        """Whether any size is in products of rate and delay (netsim/model/port_sizes.py)."""
        ecn = () if self.ecn is None else (self.ecn.kmin_bytes, self.ecn.kmax_bytes)
        return any(isinstance(value, Bdp) for value in (*self.queue.params.values(), *ecn))

    @property
    def trims(self) -> bool:
        """Whether the discipline cuts packets down to their headers, as far as its file tells."""
        return "trim" in vars(self.queue.module)

    @property
    def coupled(self) -> bool:
        """Whether the discipline has the ports of a switch act together; only then it may pause."""
        return bool(getattr(self.queue.module, "COUPLED", False))

    def for_network(self, network: Network, packets: PacketFormat) -> Fabric:
        """This fabric with what its discipline leaves to the network settled.

        Sizes in products of rate and delay stay: they differ from port to port.
        """
        return replace(self, queue=settled(self.queue, network, packets))


def keys_of(table: type[Fabric] | type[Ecn] | type[CircuitRules]) -> dict[str, Key]:
    """The keys of [fabric] that every discipline shares, or of one of its tables, in order."""
    return {one.metadata.get("written", one.name): one.metadata["key"] for one in fields(table)}


def pfc_headroom_bytes(rate_bps: int, round_trip_ps: int, packets: PacketFormat) -> int:
    """Most bytes that can still arrive over one cable after its receiver crossed XOFF.

    The pause frame waits for the packet that is being sent the same way, is sent, and
    travels; the sender then finishes the packet it has begun, and what it sent before
    is still under way. One packet more is the one that crossed XOFF. `round_trip_ps`
    is the cable's delay there and back.
    """
    under_way = -(-rate_bps * round_trip_ps // PS_BITS)
    largest = max(packets.data_bytes, packets.control_bytes)
    return under_way + 3 * largest + PFC_FRAME_BYTES


def longest_headroom_bytes(network: Network, packets: PacketFormat) -> int:
    """`pfc_headroom_bytes` of the cable of a network that needs most."""
    delays_ps = network.port_delay_ps
    round_trips_ps = (delays_ps + delays_ps[network.port_peer]).tolist()
    cables = set(zip(network.port_rate_bps.tolist(), round_trips_ps, strict=True))
    return max((pfc_headroom_bytes(*cable, packets) for cable in cables), default=0)


def packet_counts(size_bytes: NDArray[np.int64], packets: PacketFormat) -> NDArray[np.int64]:
    """Data packets of each flow."""
    return -(-size_bytes // packets.payload_bytes)
