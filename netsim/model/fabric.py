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

from netsim.limits import ALPHA
from netsim.units import parse_queue

if TYPE_CHECKING:
    from netsim.model.network import Network

DROP_TAIL, TRIM, LOSSLESS = MODELS = ("drop_tail", "trim", "lossless")
SHARED_BUFFER, MARKING = "lossless with a shared buffer", "with ECN"
"""Further kinds of fabric, whose keys matter to no others."""

ECMP, ECMP_SYMMETRIC = PATH_FOR_LIFE = ("ecmp", "ecmp_symmetric")
LOAD_BALANCING = (
    *PATH_FOR_LIFE,
    "spray_random",
    "spray_rr",
    "spray_permutation",
    "least_loaded",
)
MAX_CLASSES = 8
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

    ``unit`` is one of a plugin's parameters, "queue" for a size that may be in full packets, or
    "table". ``default`` is as written, ``by_model`` where a model has another one; ``none`` is the
    word for None. ``heeded_by`` names the kinds of fabric to which the key matters, if not to all.
    ``rules`` are bounds and choices. ``doc`` is the key's line in `experiments/README.md`.
    """

    unit: str
    default: Any
    doc: str
    heeded_by: tuple[str, ...] = ()
    none: str | None = None
    by_model: Mapping[str, Any] = field(default_factory=dict)
    rules: Mapping[str, Any] = field(default_factory=dict)

    def default_in(self, model: str, packet_bytes: int) -> Any:
        """The value of a fabric with this model if the key is not written."""
        written = self.by_model.get(model, self.default)
        if written == self.none:
            return None
        return parse_queue(written, packet_bytes) if self.unit == "queue" else written


def _key(unit: str, default: Any, doc: str, **more: Any) -> Any:
    """A field with its row of the table; ``more`` is of `Key`, or one of its rules."""
    names = [name for name in more if name in ("minimum", "maximum", "choices")]
    rules = {name: more.pop(name) for name in names}
    key = Key(unit, default, doc, rules=rules, **more)
    value = key.default_in(DROP_TAIL, PacketFormat().data_bytes)
    return field(default=value, metadata={"key": key})


@dataclass(frozen=True)
class Ecn:
    """RED-like marking: never up to `kmin_bytes`, always above `kmax_bytes`.

    In between a packet is marked with a probability that rises to `pmax`. A single
    threshold is kmin = kmax. `at` says when the queue is looked at: "enqueue"
    (without the packet) or "dequeue" (with it).
    """

    kmin_bytes: int = field(metadata={"key": Key("queue", REQUIRED, "never marked up to here")})
    kmax_bytes: int = field(
        metadata={"key": Key("queue", None, "always above here; kmin_bytes by default")}
    )
    pmax: float = _key("fraction", 1.0, "probability just below kmax")
    at: str = _key("choice", "enqueue", 'or "dequeue"', choices=("enqueue", "dequeue"))


ECN = Key("table", "none", "or ecn = false where the transport asks for ECN", none="none")


@dataclass(frozen=True)
class Fabric:
    """How every switch of the network queues, drops, trims, marks, pauses and spreads.

    Sizes are per port and class, PFC's per ingress port and class, and `shared_buffer_bytes`
    per switch; `headroom_bytes` None stands for what the longest cable needs (`for_network`).

    This is the table of the keys of [fabric]: reading, checking and writing them is derived from
    it. To add one, add a field here, what it must not contradict to `_contradictions`
    (experiment/resolve_fabric.py), its line to `experiments/README.md`, which a test compares, and
    if kernels read it a field of that name to `FabricRecord` (engine/kernels/fields.py).
    """

    model: str = _key(
        "choice",
        "drop_tail",
        "drop_tail, trim (2 classes: headers, data) or lossless (PFC)",
        choices=MODELS,
    )
    load_balancing: str = _key(
        "choice",
        "ecmp",
        "ecmp_symmetric, spray_random, spray_rr, spray_permutation, least_loaded",
        choices=LOAD_BALANCING,
    )
    n_classes: int = _key(
        "count",
        1,
        "strict priorities, 0 first; at most 8",
        by_model={TRIM: 2},
        minimum=1,
        maximum=MAX_CLASSES,
    )
    queue_bytes: int = _key(
        "queue",
        "100pkt",
        "per port and class; 8pkt with trim",
        heeded_by=(DROP_TAIL, TRIM),
        by_model={TRIM: "8pkt"},
    )
    header_queue_bytes: int = _key(
        "queue", "100pkt", "trim: the queue of headers and control packets", heeded_by=(TRIM,)
    )
    header_ratio: int = _key(
        "count",
        10,
        "trim: headers served for each data packet when both wait",
        heeded_by=(TRIM,),
        minimum=1,
    )
    ecn: Ecn | None = field(default=None, metadata={"key": ECN})
    ecn_from_class: int = _key("count", 0, "classes below are not marked", heeded_by=(MARKING,))
    xoff_bytes: int = _key(
        "queue",
        "15pkt",
        "lossless: an ingress port and class pauses above this",
        heeded_by=(LOSSLESS,),
    )
    xon_bytes: int = _key(
        "queue", "12pkt", "lossless: and resumes below this", heeded_by=(LOSSLESS,)
    )
    headroom_bytes: int | None = _key(
        "queue",
        "auto",
        "lossless: room above XOFF; auto is what the cables need",
        heeded_by=(LOSSLESS, SHARED_BUFFER),
        none="auto",
    )
    shared_buffer_bytes: int | None = _key(
        "queue",
        "none",
        "lossless: per switch; XOFF is then alpha * what is free",
        heeded_by=(LOSSLESS, SHARED_BUFFER),
        none="none",
    )
    alpha: float = _key(
        "ratio",
        0.125,
        "the share of what is free that a port and class may hold",
        heeded_by=(SHARED_BUFFER,),
        minimum=1e-6,
        maximum=ALPHA,
    )
    xon_gap_bytes: int = _key(
        "queue", "3KB", "resumes this far below the moving XOFF", heeded_by=(SHARED_BUFFER,)
    )

    @property
    def kinds(self) -> set[str]:
        """What this fabric is, in the words of ``heeded_by``."""
        shared = self.model == LOSSLESS and self.shared_buffer_bytes is not None
        return {SHARED_BUFFER if shared else self.model} | ({MARKING} if self.ecn else set())

    def for_network(self, network: Network, packets: PacketFormat) -> Fabric:
        """This fabric with `headroom_bytes` settled; unchanged if it was settled already."""
        if self.headroom_bytes is not None:
            return self
        delays_ps = network.port_delay_ps
        round_trips_ps = delays_ps + delays_ps[network.port_peer]
        rates_bps = network.port_rate_bps.tolist()
        cables = set(zip(rates_bps, round_trips_ps.tolist(), strict=True))
        needed = (pfc_headroom_bytes(rate, round_trip, packets) for rate, round_trip in cables)
        return replace(self, headroom_bytes=max(needed, default=0))


def keys_of(table: type[Fabric] | type[Ecn]) -> dict[str, Key]:
    """The keys of [fabric], or of its table `ecn`, in the order in which they are written."""
    return {one.name: one.metadata["key"] for one in fields(table)}


def pfc_headroom_bytes(rate_bps: int, round_trip_ps: int, packets: PacketFormat) -> int:
    """Most bytes that can still arrive over one cable after its receiver crossed XOFF.

    The pause frame waits for the packet that is being sent the same way, is sent, and
    travels; the sender then finishes the packet it has begun, and what it sent before
    is still under way. One packet more is the one that crossed XOFF. `round_trip_ps`
    is the cable's delay there and back.
    """
    under_way = -(-rate_bps * round_trip_ps // (8 * 10**12))
    largest = max(packets.data_bytes, packets.control_bytes)
    return under_way + 3 * largest + PFC_FRAME_BYTES


def packet_counts(size_bytes: NDArray[np.int64], packets: PacketFormat) -> NDArray[np.int64]:
    """Data packets of each flow."""
    return -(-size_bytes // packets.payload_bytes)
