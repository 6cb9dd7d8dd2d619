"""Packet formats, and how switches treat packets: resolved forms in bytes and plain numbers.

It is also the table of the keys of [fabric]; `netsim.experiment` reads and checks them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.frozen import frozen
from netsim.limits import CLASSES, PACKET_BYTES, PS_BITS, SIZE_BYTES
from netsim.model.arithmetic import byte_quotient, send_time
from netsim.model.columns import Ints
from netsim.model.network import Network
from netsim.model.port_pairs import HASH, PLANE_BALANCING
from netsim.model.routing import COUNT_MASK, NO_ROUTE
from netsim.params import (
    REQUIRED,
    Params,
    Unit,
    declared,
    key,
    resolve_params,
    table_of,
    wrong_type,
)
from netsim.plugins import registry
from netsim.plugins.declarations import classes_of
from netsim.plugins.registry import PluginSpec, settled
from netsim.units import Bdp, format_bytes, format_port_size, format_time, parse_port_size

DROP_TAIL = "drop_tail"

ECMP = "ecmp"
PFC_FRAME_BYTES = 64

LARGEST = f"{PACKET_BYTES}B"
PortQueues = tuple[tuple[str, int | Bdp], ...]
"""Patterns of ports, and their queue sizes."""

MAX_WEIGHT = 1000  # of a class


def _time(doc: str, name: str) -> Any:
    return key("time", "0ps", doc, maximum="1ms", name=name)


@frozen
class Nic:
    """[packets.nic]: how long a host's port takes to process the packets that it receives."""

    data_interval_ps: int = _time("least time between two data packets", "data_interval")
    data_delay_ps: int = _time("further delay of a data packet", "data_delay")
    ack_interval_ps: int = _time("least time between two ACKs, NACKs or pulls", "ack_interval")
    ack_delay_ps: int = _time("further delay of an ACK, NACK or pull", "ack_delay")
    cnp_interval_ps: int = _time("least time between two CNPs", "cnp_interval")
    cnp_delay_ps: int = _time("further delay of a CNP", "cnp_delay")


@frozen
class PacketFormat:
    """[packets]: sizes on the wire; a full data packet is payload plus header."""

    payload_bytes: int = key(
        "bytes", "4096B", "data bytes of a full packet", minimum="1B", maximum=LARGEST
    )
    header_bytes: int = key("bytes", "64B", "header of a data packet", maximum=LARGEST)
    control_bytes: int = key(
        "bytes", "64B", "an ACK, NACK, PULL or trimmed header", minimum="1B", maximum=LARGEST
    )
    cut_through_bytes: int | None = key(
        "bytes",
        None,
        "cut-through: a switch forwards a packet once it has this much of it, if none of its ports "
        "is faster than the packet's link; none: store and forward",
        minimum="1B",
        maximum=LARGEST,
        none="none",
    )
    nic: Nic | None = key(
        table_of(Nic), None, "table [packets.nic], processing of received packets; none: no time"
    )

    @property
    def data_bytes(self) -> int:
        return self.payload_bytes + self.header_bytes

    def conflicts(self, _: Mapping[str, Any]) -> Iterator[InputError]:
        """Yield the error for packets that are too large."""
        if self.data_bytes > PACKET_BYTES:
            message = f"packet size {self.data_bytes} exceeds {PACKET_BYTES} bytes"
            hint = "reduce payload or header"
            yield InputError(message, key="payload_bytes", hint=hint, code="out_of_range")


@frozen
class Ecn:
    """RED-like ECN marking: never up to `kmin_bytes`, always above `kmax_bytes`.

    In between, the marking probability rises to `pmax`. A single threshold is kmin = kmax. `at` is
    when the queue is measured: "enqueue" (without the packet) or "dequeue" (with it).
    """

    kmin_bytes: int | Bdp = key("queue", REQUIRED, "queue up to which no packet is marked")
    kmax_bytes: int | Bdp = key(
        "queue",
        None,
        "queue above which every packet is marked; default: kmin_bytes",
        none="kmin_bytes",
    )
    pmax: float = key("fraction", 1.0, "marking probability just below kmax_bytes")
    at: str = key(
        "choice",
        "enqueue",
        "whether the queue is measured at enqueue, without the packet, or at dequeue, with it",
        choices=("enqueue", "dequeue"),
    )
    last_hop: bool = key("bool", True, "whether ports that lead to hosts mark")

    def __post_init__(self) -> None:
        if self.kmax_bytes is None:
            object.__setattr__(self, "kmax_bytes", self.kmin_bytes)


@frozen
class LinkRetry:
    """Link-level retry (LLR): a port resends lost packets, by go-back-N.

    Ultra Ethernet 1.0.1, 5.1; the limits are a port's in SAI's proposal of 2025-11.
    """

    max_replays: int | None = key(
        "count",
        1,
        "replays without progress after which packets are lost; 255 in hardware: unlimited",
        optional=True,
        none="unlimited",
    )
    replay_timeout_ps: int | None = key(
        "time",
        None,
        "from the end of a packet until it is sent again, unless a NACK arrives first; auto: twice "
        "the loop of the port",
        none="auto",
        maximum="1s",
        name="replay_timeout",
    )
    max_frames: int = key(
        "count", 512, "packets in the replay buffer of a port", minimum=1, maximum=1 << 14
    )
    max_bytes: int | None = key(
        "buffer",
        None,
        "bytes in it at which no other packet starts; auto: a loop's bytes and a packet",
        none="auto",
        minimum="1B",
    )

    def check(self, network: Network, packets: PacketFormat) -> None:
        """Raise InputError, without a file, if these values do not suit the network."""
        if network.circuits is not None and network.circuits.change:
            message = "conflicts with circuits: answers cannot cross a circuit in time"
            raise InputError(message, key="fabric.llr", hint="remove it")
        longest_ps = int(retry_loops(network, packets)[1].max(initial=0))
        if self.replay_timeout_ps is not None and self.replay_timeout_ps < longest_ps:
            message = f"{format_time(self.replay_timeout_ps)} is shorter than the loop of a port"
            hint = f"at least {format_time(longest_ps)}"
            raise InputError(message, key="fabric.llr.replay_timeout", hint=hint)


ANSWER_BYTES = 8  # an ACK or NACK of LLR


def retry_loops(network: Network, packets: PacketFormat) -> tuple[Ints, Ints]:
    """Return two int64[n_ports]: the time from a packet's arrival at the other end until its answer
    arrives, and the whole loop, from the start of the largest packet until that answer."""
    q20, delay_ps = byte_quotient(network.port_rate_bps), network.port_delay_ps
    answer_ps = (send_time(ANSWER_BYTES, q20) + delay_ps)[network.port_peer]
    largest = max(packets.data_bytes, packets.control_bytes)
    return answer_ps, send_time(largest, q20) + delay_ps + answer_ps


WAIT, DROP = AT_CIRCUIT_END = ("wait", "drop")
"""A port's behavior at the end of a circuit: hold packets that do not fit, or lose them."""

DIRECT, OPPORTUNISTIC, VLB = INDIRECT = ("none", "opportunistic", "vlb")
"""Whether packets may go through a third switch, and which."""


@frozen
class CircuitRules:
    """How edge switches use circuits (netsim/engine/MODEL.md).

    No transmission starts within `guard_ps` of either end of a day by the switch's clock, which is
    off by up to `clock_offset_ps`. OPPORTUNISTIC lets packets in classes above `indirect_class` go
    through a third switch, in that class.
    """

    guard_ps: int = key(
        "time", "0ps", "time at either end of a day in which no transmission starts", name="guard"
    )
    clock_offset_ps: int = key(
        "time", "0ps", "largest clock error of an edge switch", maximum="1ms", name="clock_offset"
    )
    at_circuit_end: str = key(
        "choice",
        WAIT,
        "wait: hold packets for the next day; drop: lose packets in flight at a circuit's end",
        choices=AT_CIRCUIT_END,
    )
    indirect: str = key(
        "choice", DIRECT, "whether packets may go through a third switch", choices=INDIRECT
    )
    indirect_class: int = key("count", 0, "opportunistic: class of indirect packets")

    def conflicts(self, given: Mapping[str, Any]) -> Iterator[InputError]:
        """Yield the error for a class without effect."""
        if "indirect_class" in given and self.indirect != OPPORTUNISTIC:
            message = f'has no effect with indirect = "{self.indirect}"'
            hint = f'remove it, or use indirect = "{OPPORTUNISTIC}"'
            yield InputError(message, key="indirect_class", hint=hint, code="no_effect")


def queue_spec(name: str, packets: PacketFormat | None = None, **params: Any) -> PluginSpec:
    """Return a built-in or installed queue discipline with parameters in bytes and plain
    numbers. ``params`` replace its defaults for ``packets``."""
    return _spec("queue", name, packets, params)


def routing_spec(name: str, **params: Any) -> PluginSpec:
    """Return a built-in or installed routing algorithm, like `queue_spec`."""
    return _spec("routing", name, None, params)


def _spec(kind: str, name: str, packets: PacketFormat | None, params: Params) -> PluginSpec:
    plugin = registry.find(kind, name)
    packet_bytes = (packets or PacketFormat()).data_bytes
    defaults = resolve_params(
        plugin.params, {}, {}, None, file=None, key="fabric", packet_bytes=packet_bytes
    )
    assert params.keys() <= defaults.keys()
    return PluginSpec(plugin, {**defaults, **params})


def _port_queues(value: object, packet_bytes: int) -> PortQueues:
    """Return the patterns of ports and their queue sizes."""
    if not isinstance(value, Mapping) or not value:
        raise wrong_type(
            value, "not a table of sizes", 'write it like { "leaf* -> spine*" = "1GB" }'
        )
    queues = []
    for pattern, size in value.items():
        try:
            queues.append((pattern, parse_port_size(size, packet_bytes)))
        except InputError as error:
            raise error.with_suffix(f'for "{pattern}"') from None
    return tuple(queues)


def _written_queues(queues: PortQueues) -> dict[str, str]:
    return {pattern: format_port_size(size) for pattern, size in queues}


@frozen
class Fabric:
    """How all switches of the network queue, drop, trim, mark, pause and route packets.

    ``queue`` is the queue discipline with its parameters, sizes in bytes; ``routing`` the routing
    algorithm.

    It is also the table of the keys of [fabric] that no plugin declares. To add a key, add a field
    here and, if kernels read it, a field of that name to `FabricRecord` (engine/kernels/fields.py).
    """

    queue: PluginSpec = field(
        default_factory=lambda: queue_spec(DROP_TAIL),
        metadata=declared(
            "text",
            DROP_TAIL,
            "name or file of the queue discipline, which adds its own keys",
            name="queue_discipline",
        ),
    )
    routing: PluginSpec = field(
        default_factory=lambda: routing_spec(ECMP),
        metadata=declared(
            "text",
            ECMP,
            "name or file of the routing algorithm, which chooses ports; adds its own keys",
        ),
    )
    plane_balancing: str = key(
        "choice",
        HASH,
        "how a host with several ports chooses one for a packet; hash: one for each flow, and "
        "queue pairs of a message take the ports in turn",
        choices=PLANE_BALANCING,
    )
    n_traffic_classes: int = key(
        "count",
        1,
        "traffic classes, 0 first; at most 8",
        minimum=1,
        maximum=CLASSES,
    )
    class_weights: str | None = key(
        "text",
        None,
        'weights by which ports serve their classes, in groups, the first group first: "1 > 3:1" '
        "serves class 0 first, then classes 1 and 2 as 3 to 1; none: by the discipline's rule, "
        "mostly class 0 first",
    )
    port_queue_bytes: PortQueues | None = key(
        Unit("sizes by port", _port_queues, _written_queues, in_packets=True),
        None,
        "queue_bytes of ports that match patterns as in outputs.ports, "
        '{ "leaf* -> spine*" = "1GB" }; of several patterns the last counts',
    )
    ecn: Ecn | None = key(
        table_of(Ecn), None, "table [fabric.ecn]; false disables the transport's ECN"
    )
    ecn_from_class: int = key("count", 0, "first class that is marked")
    circuits: CircuitRules | None = key(table_of(CircuitRules), None, "table [fabric.circuits]")
    llr: LinkRetry | None = key(
        table_of(LinkRetry), None, "table [fabric.llr], or true: links send lost packets again"
    )
    host_jitter_ps: int = key(
        "time",
        "0ps",
        "longest random delay of a packet on its host's link; a host's flows then take random "
        "turns",
        maximum="1ms",
        name="host_jitter",
    )
    allow_deadlock: bool = key(
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
        """Whether any size is a bandwidth-delay product (`port_sizes`)."""
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
        """Whether the discipline has the ports of a switch act together, which pausing requires."""
        return bool(getattr(self.queue.module, "COUPLED", False))

    @property
    def pauses(self) -> bool:
        """Whether the discipline can stop neighbors: by PFC, or by withholding credit."""
        return (
            not vars(self.queue.module).keys().isdisjoint(("pause", "repeat_pauses", "has_credit"))
        )

    @property
    def stops_by(self) -> str:
        """How a discipline with `pauses` stops neighbors: "PFC" or "credits"."""
        return "credits" if "has_credit" in vars(self.queue.module) else "PFC"

    @property
    def n_levels(self) -> int:
        """Number of levels of each traffic class; without PFC there is only one."""
        return int(getattr(self.routing.module, "LEVELS", 1)) if self.pauses else 1

    @property
    def n_link_classes(self) -> int:
        """Number of classes at links and ports: traffic classes times levels."""
        return self.n_traffic_classes * self.n_levels

    @property
    def weight_groups(self) -> list[list[int]]:
        """The weights of the classes, group by group. Raises ValueError if they are not numbers."""
        groups = (self.class_weights or "").split(">")
        return [[int(weight) for weight in group.split(":")] for group in groups]

    def _wrong_weights(self) -> Iterator[InputError]:
        try:
            weights = [weight for group in self.weight_groups for weight in group]
        except ValueError:
            message = f'"{self.class_weights}" is not a list of weights'
            yield InputError(message, key="class_weights", hint='like "1 > 3:1"')
            return
        if len(weights) != self.n_traffic_classes:
            message = f"{len(weights)} weights for {self.n_traffic_classes} classes"
            hint = "one for each of n_traffic_classes"
            yield InputError(message, key="class_weights", hint=hint)
        if not all(1 <= weight <= MAX_WEIGHT for weight in weights):
            message = f'"{self.class_weights}" has a weight out of range'
            hint = f"1 to {MAX_WEIGHT}"
            yield InputError(message, key="class_weights", hint=hint, code="out_of_range")

    def conflicts(self, _: Mapping[str, Any]) -> Iterator[InputError]:
        """Yield the conflicts between values other than sizes."""
        if self.class_weights is not None:
            yield from self._wrong_weights()
        least, most = classes_of(self.queue.module) or (1, CLASSES)
        if not least <= self.n_traffic_classes <= most:
            hint = f"exactly {least}" if least == most else f"{least} to {most}"
            discipline = f'queue_discipline = "{self.queue_discipline}"'
            message = f"{self.n_traffic_classes} conflicts with {discipline}"
            yield InputError(message, key="n_traffic_classes", hint=hint)
        if self.n_link_classes > CLASSES:
            message = f"{self.n_traffic_classes} conflicts with the {self.n_levels} levels of "
            message += f'routing = "{self.routing.name}"'
            hint = f"at most {CLASSES // self.n_levels}"
            yield InputError(message, key="n_traffic_classes", hint=hint)
        if self.port_queue_bytes and "queue_bytes" not in self.queue.params:
            message = f'has no effect with queue_discipline = "{self.queue_discipline}"'
            hint = "which has no queue_bytes: remove it, or use drop_tail or another that has"
            yield InputError(message, key="port_queue_bytes", hint=hint, code="no_effect")
        if self.ecn and self.ecn_from_class >= self.n_traffic_classes:
            message = f"class {self.ecn_from_class} does not exist"
            hint = f"0 to {self.n_traffic_classes - 1}"
            yield InputError(message, key="ecn_from_class", hint=hint)
        rules = self.circuits or CircuitRules()
        if rules.indirect == OPPORTUNISTIC and rules.indirect_class + 1 >= self.n_traffic_classes:
            message = f"no class above {rules.indirect_class} for indirect packets: "
            message += f"n_traffic_classes is {self.n_traffic_classes}"
            hint = "use a lower class, or more classes, with data in the higher ones"
            yield InputError(message, key="circuits.indirect_class", hint=hint)
        if rules.indirect != DIRECT and self.symmetric:
            message = f'"{rules.indirect}" conflicts with routing = "{self.routing.name}"'
            hint = f'use indirect = "{DIRECT}", or another routing'
            yield InputError(message, key="circuits.indirect", hint=hint)

    def for_network(self, network: Network, packets: PacketFormat) -> Fabric:
        """Return this fabric with network-dependent parameters of its plugins settled.
        Bandwidth-delay products stay: they differ by port. Raises InputError, without a file."""
        if self.llr is not None:
            self.llr.check(network, packets)
        return replace(
            self,
            queue=settled(self.queue, network, packets),
            routing=settled(self.routing, network, packets),
        )


def pfc_headroom_bytes(rate_bps: int, round_trip_ps: int, packets: PacketFormat) -> int:
    """Return the most bytes that can arrive over a cable after its receiver crosses XOFF.

    The pause frame waits for the packet being sent in that direction, is sent, and propagates. The
    sender then finishes the packet that it has started, and earlier bytes are still in flight. One
    more packet is the one that crossed XOFF. `round_trip_ps` is the cable's delay in both
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


def cut_through_q20(network: Network) -> Ints:
    """Return int64[n_ports], for each link the largest `byte_quotient` with which the switch at its
    end still cuts through; -1 if the end is a host."""
    fastest = np.full(network.n_nodes, np.iinfo(np.int64).max)
    np.minimum.at(fastest, network.port_node, byte_quotient(network.port_rate_bps))
    fastest[: network.n_hosts] = -1
    limit: Ints = fastest[network.port_node[network.port_peer]]
    return limit


def needed_bytes(network: Network, packets: PacketFormat) -> Ints:
    """Return int64[n_ports], the bytes of a packet that must arrive at the end of each link: the
    header if the switch there cuts through, else the whole packet (PACKET_BYTES).
    """
    cuts = byte_quotient(network.port_rate_bps) <= cut_through_q20(network)
    return np.where(cuts, packets.cut_through_bytes or PACKET_BYTES, PACKET_BYTES)


def left_ps(
    network: Network, packets: PacketFormat, port: Ints, sent: tuple[Ints, Ints], size_bytes: Ints
) -> Ints:
    """Return when packets left `port`; with cut-through, when their headers did. `sent` are the
    start of each transmission and its arrival, which at a host includes the time of the NIC."""
    start_ps, arrival_ps = sent
    sent_ps: Ints = arrival_ps - network.port_delay_ps[port]
    if packets.nic is None:
        return sent_ps
    to_host = network.port_node[network.port_peer[port]] < network.n_hosts
    end_ps = start_ps + send_time(size_bytes, byte_quotient(network.port_rate_bps)[port])
    return np.where(to_host, np.minimum(sent_ps, end_ps), sent_ps)


def after_header_ps(network: Network, packets: PacketFormat, port: Ints, size_bytes: Ints) -> Ints:
    """Return the time from a packet's arrival until its last bit follows, for packets that `port`
    sent at its rate as built. It is 0 without cut-through."""
    quotient = byte_quotient(network.port_rate_bps)[port]
    header = np.minimum(size_bytes, needed_bytes(network, packets)[port])
    return send_time(size_bytes, quotient) - send_time(header, quotient)


def packet_counts(size_bytes: NDArray[np.int64], packets: PacketFormat) -> NDArray[np.int64]:
    """Return the number of data packets of each flow."""
    return -(-size_bytes // packets.payload_bytes)


# --- queues by port -------------------------------------------------------------------------------

AT_ONCE = 1 << 20  # pairs of edge switches whose paths are followed together

MAX_PAIRS = 1 << 22
"""Pairs of edge switches of a network whose paths are followed: all in networks of up to 2,048 edge
switches, else pairs from evenly spaced edge switches."""


@frozen(eq=False)
class PortSizes:
    """Fabrics that differ only in sizes, and which one each port has.

    There is one of ``fabrics`` for each kind of port, with sizes in bytes; a kind has the rate
    ``rate_bps`` and the base round trip ``round_trip_ps`` of its network. ``kind`` is
    int64[n_ports].
    """

    fabrics: tuple[Fabric, ...]
    rate_bps: tuple[int, ...]
    round_trip_ps: tuple[int, ...]
    kind: Ints


OwnQueues = Sequence[tuple[Ints, int | Bdp]]
"""Ports and the size of their queues."""


def settle_sizes(
    fabric: Fabric,
    network: Network,
    packets: PacketFormat,
    rate_bps: Ints | None = None,
    queues: OwnQueues = (),
) -> tuple[Fabric, PortSizes | None]:
    """Return a settled fabric with sizes in bytes if these are the same at all ports, else the
    sizes of all ports. Raises the same InputErrors as `port_sizes`."""
    if not sizes_differ(fabric, network):
        return fabric, None
    sizes = port_sizes(fabric, network, packets, rate_bps, queues)
    return (sizes.fabrics[0], None) if len(sizes.fabrics) == 1 else (fabric, sizes)


def sizes_differ(fabric: Fabric, network: Network) -> bool:
    own = network.switch_queue_bytes is not None
    own = own or fabric.port_queue_bytes is not None
    return fabric.has_bdp_sizes or own or not fabric.marks_last_hop


def port_sizes(
    fabric: Fabric,
    network: Network,
    packets: PacketFormat,
    rate_bps: Ints | None = None,
    queues: OwnQueues = (),
) -> PortSizes:
    """Return the sizes of a settled fabric at each port, for `rate_bps` instead of its own rate,
    with other `queues` at some.

    Ports of hosts, which have no queues, are of kind 0. Raises InputError, without a file, for a
    size that is too large, and for switches with their own queue size if the discipline has no
    `queue_bytes`.
    """
    round_trips = base_round_trips(network, packets)
    n = network.n_host_ports
    switch = network.port_node[n:] - network.n_hosts
    own = _own_queues(fabric, network)[switch]
    rate_bps = network.port_rate_bps if rate_bps is None else rate_bps
    unmarked = (network.port_peer[n:] < n) & (not fabric.marks_last_hop)
    round_trip_ps = round_trips[network.switch_network[switch]]
    for ports, size in queues:
        for at in (ports[ports >= n] - n).tolist():
            rate, trip = int(rate_bps[n + at]), int(round_trip_ps[at])
            own[at] = size.at(rate, trip) if isinstance(size, Bdp) else size
    columns = [rate_bps[n:], round_trip_ps, own, unmarked]
    kinds, kind = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    rates, trips, owns, plain = kinds.T.tolist()
    return PortSizes(
        fabrics=tuple(map(fabric_at, [fabric] * len(kinds), rates, trips, owns, plain)),
        rate_bps=tuple(rates),
        round_trip_ps=tuple(trips),
        kind=np.concatenate([np.zeros(n, np.int64), kind.reshape(-1).astype(np.int64)]),
    )


def _own_queues(fabric: Fabric, network: Network) -> Ints:
    """Return int64[n_switches], the queue sizes of switches that have their own, 0 for others."""
    own = network.switch_queue_bytes
    if own is None:
        return np.zeros(network.n_switches, np.int64)
    for switch in np.flatnonzero(own)[: "queue_bytes" not in fabric.queue.params].tolist():
        raise InputError(
            f'"{fabric.queue_discipline}" has no queue_bytes, but {network.switch_names[switch]} '
            f"has its own queue size ({format_bytes(int(own[switch]))})",
            key="fabric.queue_discipline",
        )
    return own


def fabric_at(
    fabric: Fabric, rate_bps: int, round_trip_ps: int, own_bytes: int = 0, unmarked: int = 0
) -> Fabric:
    """Return the fabric, in bytes, of a port with this rate and base round trip. If `own_bytes`
    is not 0, it is the queue size of the port's switch. An `unmarked` port's queue never reaches
    the ECN thresholds."""

    def in_bytes(value: Any) -> Any:
        return value.at(rate_bps, round_trip_ps) if isinstance(value, Bdp) else value

    params = {name: in_bytes(value) for name, value in fabric.queue.params.items()}
    if own_bytes:
        params["queue_bytes"] = own_bytes
    ecn = fabric.ecn
    if ecn is not None:
        kmin, kmax = in_bytes(ecn.kmin_bytes), in_bytes(ecn.kmax_bytes)
        if unmarked:
            kmin = kmax = SIZE_BYTES
        ecn = replace(ecn, kmin_bytes=kmin, kmax_bytes=kmax)
    return replace(fabric, queue=replace(fabric.queue, params=params), ecn=ecn)


def base_round_trips(network: Network, packets: PacketFormat) -> Ints:
    """Return int64[n_networks], the longest times of a full packet plus a control packet, in ps.

    Each maximum is over all pairs of hosts' ports (`MAX_PAIRS` in large networks), on first
    shortest paths without queueing.
    """
    needed = needed_bytes(network, packets)
    out = longest_paths(network, np.minimum(packets.data_bytes, needed))
    return out + longest_paths(network, np.minimum(packets.control_bytes, needed))


def longest_paths(network: Network, size_bytes: Ints | int) -> Ints:
    """Return int64[n_networks], the longest time in ps of a single packet between two hosts' ports,
    with this many bytes (at each port) before it arrives. Only pairs that have a route, in any
    table, count."""
    cross_ps = send_time(size_bytes, byte_quotient(network.port_rate_bps)) + network.port_delay_ps
    host_ports = np.arange(network.n_host_ports)
    group = network.first_group[network.port_network] + network.port_group
    up_ps, down_ps = np.zeros(network.n_groups, np.int64), np.zeros(network.n_groups, np.int64)
    np.maximum.at(up_ps, group, cross_ps[host_ports])
    np.maximum.at(down_ps, group, cross_ps[network.port_peer[host_ports]])
    longest = np.zeros(network.first_group.size - 1, np.int64)
    for number, table, src, dst in _pairs(network):
        switch = network.edge_switch[src].astype(np.int64)
        first, end = network.first_group[number : number + 2].tolist()
        to = table * (end - first) + dst - first
        time_ps = up_ps[src] + down_ps[dst]
        going = np.flatnonzero(network.route[network.route_first[switch] + to] != NO_ROUTE)
        switch, to, joined = switch[going], to[going], going
        while True:
            on = network.route[network.route_first[switch] + to] & COUNT_MASK > 0
            going, switch, to = going[on], switch[on], to[on]
            if not going.size:
                break
            port = network.first_port(switch, to)
            time_ps[going] += cross_ps[port]
            switch = network.next_switch(port)
        longest[number] = max(longest[number], int(time_ps[joined].max(initial=0)))
    return longest


def _pairs(network: Network) -> Iterator[tuple[int, int, Ints, Ints]]:
    """Yield a network's number, a routing table and pairs of groups, in batches."""
    first = network.first_group.tolist()
    for number, (begin, end) in enumerate(pairwise(first)):
        step = max(1, AT_ONCE // (end - begin))
        every = np.arange(begin, end)
        sources = every[:: -(-every.size // max(1, MAX_PAIRS // every.size))]
        for at in range(0, sources.size, step):
            some = sources[at : at + step]
            pairs = np.repeat(some, every.size), np.tile(every, some.size)
            for table in range(network.n_tables):
                yield number, table, *pairs
