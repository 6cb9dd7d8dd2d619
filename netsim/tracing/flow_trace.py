"""`FlowTrace`: a flow and the table of what happened to it."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.bounds.ideal import ideal_times
from netsim.engine.kernels.packets import ACK, CNP, DATA, NACK, PULL
from netsim.engine.kernels.packets import TRIMMED as TRIMMED_KIND
from netsim.engine.kernels.trace import (
    ARRIVED,
    CREATED,
    DROPPED,
    FORWARDED,
    GIVEN,
    LOST,
    MARKED,
    PAUSED,
    PORT,
    RECEIVED,
    RESUMED,
    RX,
    SENT,
    TIMER_NAMES,
    TRIMMED,
    TX,
    UNROUTABLE,
    WHAT,
    TraceEntries,
)
from netsim.errors import InputError, did_you_mean
from netsim.model.fabric import PATH_FOR_LIFE, packet_counts
from netsim.model.lanes import lanes_used
from netsim.running.drive import FINISHED
from netsim.tracing.journeys import Journeys, follow

if TYPE_CHECKING:
    import polars as pl

    from netsim.engine.engine import Engine
    from netsim.experiment import Point
    from netsim.model.network import Network
    from netsim.plugins.registry import PluginUse

EVENTS = {
    SENT: "send",
    ARRIVED: "arrive",
    FORWARDED: "forward",
    DROPPED: "drop",
    TRIMMED: "trim",
    MARKED: "mark",
    LOST: "lose",
    RECEIVED: "receive",
    CREATED: "create",
    TX: "sender",
    RX: "receiver",
    PAUSED: "pause",
    RESUMED: "resume",
    UNROUTABLE: "no route",
    GIVEN: "give",
}
"""Names of events; sender and receiver are copies of the state of that side."""

KINDS = {
    DATA: "DATA",
    TRIMMED_KIND: "TRIMMED",
    ACK: "ACK",
    NACK: "NACK",
    PULL: "PULL",
    CNP: "CNP",
}

ENGINE_STATE = {"tx": ("sent_packets", "retransmits"), "rx": ("got_bytes",)}
"""State that the engine keeps for every transport."""


@dataclass(frozen=True)
class FlowTrace:
    """What one flow did.

    `events` is a polars DataFrame whose columns are described in `netsim.results.COLUMNS["trace"]`;
    ``tx.…`` and ``rx.…`` are the state of the sender and the receiver. `state` are those of them
    that the transport wants to be shown, or that change. `way` is that of its data, "" if the
    network has one only. `fct_ps` and `acked_ps` are None for what
    the trace does not reach. `stopped_because` is "finished", "time", "idle" or "interrupted".
    """

    point: str
    transport: str
    flow: int
    src: str
    dst: str
    size_bytes: int
    n_packets: int
    start_ps: int
    fct_ps: int | None
    acked_ps: int | None
    ideal_ps: int
    way: str
    events: pl.DataFrame
    state: tuple[str, ...]
    stopped_because: str
    warnings: tuple[str, ...] = ()

    def with_warnings(self, warnings: Sequence[str]) -> FlowTrace:
        """The same with more warnings."""
        return replace(self, warnings=(*self.warnings, *warnings))


def flow_trace(
    engine: Engine,
    entries: TraceEntries,
    flow: int,
    point: Point,
    transport: PluginUse,
    stopped_because: str,
) -> FlowTrace:
    """The trace of a flow from what a recording engine gave, up to the flow's end."""
    states = engine.flow_states()
    times = (states.start_ps, states.done_ps, states.acked_ps)
    start_ps, done_ps, acked_ps = (int(column[flow]) for column in times)
    if stopped_because == FINISHED:
        entries = entries.until(max(done_ps, acked_ps))
    network, flows = engine.network, engine.flows
    multipath = point.fabric.load_balancing not in PATH_FOR_LIFE
    lanes = lanes_used(network, flows, point.fabric.planes, point.seed)
    flows = flows.of_sizes(states.size_bytes)
    ideal = ideal_times(network, flows, point.packets, multipath=multipath, lanes=lanes)
    own_names = engine.own_names(flow)
    events, changing = event_table(network, entries, transport.module, own_names)
    return FlowTrace(
        point=point.name,
        transport=transport.name,
        flow=flow,
        src=network.node_name(int(flows.src[flow])),
        dst=network.node_name(int(flows.dst[flow])),
        size_bytes=int(flows.size_bytes[flow]),
        n_packets=int(packet_counts(flows.size_bytes, point.packets)[flow]),
        start_ps=start_ps,
        fct_ps=done_ps - start_ps if done_ps >= 0 else None,
        acked_ps=acked_ps - start_ps if acked_ps >= 0 else None,
        ideal_ps=int(ideal.fct_ps[flow]),
        way=network.way_name(int(lanes.data_to[lanes.first[flow]])),
        events=events,
        state=shown_state(transport.module, changing),
        stopped_because=stopped_because,
    )


def kind_names(module: ModuleType) -> dict[int, str]:
    """Names of packet kinds: those of the engine, and the constants that a transport sends.

    That is ``GRANT`` in ``send(env, rx, GRANT, ...)``, ``PARITY`` in ``pkt.kind = PARITY``.
    """
    names = dict(KINDS)
    try:
        tree = ast.parse(inspect.getsource(module))
    except (OSError, TypeError, SyntaxError):
        return names
    for node in ast.walk(tree):
        used: ast.expr | None = None
        if isinstance(node, ast.Call) and len(node.args) > 2:
            used = node.args[2] if ast.unparse(node.func) == "send" else None
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
            used = node.value if node.targets[0].attr == "kind" else None
        if isinstance(used, ast.Name) and isinstance(getattr(module, used.id, None), int):
            names.setdefault(getattr(module, used.id), used.id)
    return names


def shown_state(module: ModuleType, changing: Sequence[str]) -> tuple[str, ...]:
    """The state columns that the transport names in TRACE; without that, those that change.

    Raises InputError if TRACE names a field that is not declared.
    """
    wanted = getattr(module, "TRACE", None)
    if wanted is None:
        return tuple(changing)
    declared = [*declared_state(module, "tx"), *declared_state(module, "rx")]
    for name in wanted:
        if name not in declared:
            hint = did_you_mean(name, declared)
            raise InputError(
                f"names {name!r}, no field", file=module.__file__, key="TRACE", hint=hint
            )
    return tuple(n for n in changing if n.partition(".")[2].partition("[")[0] in wanted)


def event_table(
    network: Network,
    recorded: TraceEntries,
    transport: ModuleType,
    own_names: Mapping[str, str] = MappingProxyType({}),
) -> tuple[pl.DataFrame, list[str]]:
    """The events in the order of time, and the state columns of the transport that change.

    At one instant, events stand in the order of nodes and ports, and at one port in the order in
    which they happened: that does not depend on the lengths of windows.
    """
    import polars as pl

    entries = recorded.entries
    node = network.port_node[entries[:, 1]].astype(np.int64)
    order = np.lexsort((_places(entries), node, entries[:, 0]))
    row = np.empty(len(entries), np.int64)  # of each entry, in the array that it belongs to
    kept = entries[:, WHAT]
    for which in (kept < TX, kept == TX, kept == RX):
        row[which] = np.arange(np.count_nonzero(which))
    entries, node, row = entries[order], node[order], row[order]
    time, port, what, value = entries.T
    far = network.port_node[network.port_peer[port]].astype(np.int64)
    is_packet, is_copy = what < TX, (what == TX) | (what == RX)
    packets = recorded.packets[row[is_packet]]
    journeys = _follow(entries, packets, is_packet, node, far)
    names = np.array([network.node_name(n) for n in range(network.n_nodes)])
    leaves = is_packet & (what != RECEIVED) & (what != CREATED)

    def of_packet(name: str) -> pl.Series:
        column = np.zeros(len(entries), np.int64)
        column[is_packet] = packets[name]
        return _masked(column, is_packet)

    kinds = kind_names(transport)
    kind = np.array([kinds.get(k, f"kind {k}") for k in range(16)])
    kind_column = np.full(len(entries), "", dtype=kind.dtype)
    kind_column[is_packet] = kind[packets["kind"]]
    at_switch = is_packet & (node >= network.n_hosts)
    table = pl.DataFrame(
        {
            "time_ps": time,
            "event": np.array([EVENTS.get(w, "") for w in range(max(EVENTS) + 1)])[what],
            "node": node,
            "node_name": names[node],
            "to_name": _masked(names[far], leaves),
            "port": port,
            "packet": _masked(journeys.packet, journeys.packet >= 0),
            "kind": _masked(kind_column, is_packet),
            "seq": of_packet("seq"),
            "aux": of_packet("aux"),
            "size_bytes": of_packet("size_bytes"),
            "class": of_packet("prio"),
            "ecn": of_packet("ecn"),
            "entropy": of_packet("entropy"),
            "hops": of_packet("hops"),
            "again": _masked(journeys.again, (what == SENT) & (kind_column != "")),
            "queue_bytes": _masked(value, at_switch),
            "wait_ps": _masked(journeys.wait_ps, journeys.wait_ps >= 0),
            "rtt_ps": _masked(journeys.rtt_ps, journeys.rtt_ps >= 0),
            "timer": _masked(_timer_names(value), is_copy & (value >= 0)),
        }
    )
    changing: list[str] = []
    for side, which, sides in (("tx", TX, recorded.tx), ("rx", RX, recorded.rx)):
        copies = sides[row[what == which]]
        own = {name: own_names.get(name, name) for name in declared_state(transport, side)}
        for name, column in _columns(side, copies, own).items():
            if name.partition(".")[2] not in ENGINE_STATE[side] and (column != column[:1]).any():
                changing.append(name)
            full = np.zeros(len(entries), column.dtype)
            full[what == which] = column
            table = table.with_columns(_masked(full, what == which).alias(name))
    return table, changing


def _places(entries: np.ndarray) -> np.ndarray:
    """The port of each entry; of a packet that a port sends for another one, that other one."""
    ports, what = entries[:, PORT].copy(), entries[:, WHAT]
    for given in np.flatnonzero(what == GIVEN).tolist():
        behind = given + 1
        while what[behind] != FORWARDED:  # it may be marked before
            ports[behind] = ports[given]
            behind += 1
        ports[behind] = ports[given]
        if behind + 1 < what.size and what[behind + 1] == LOST:
            ports[behind + 1] = ports[given]
    return ports


def _follow(
    entries: np.ndarray,
    packets: np.ndarray,
    is_packet: np.ndarray,
    node: np.ndarray,
    far: np.ndarray,
) -> Journeys:
    about: list[Any] = [None] * len(entries)
    heads = zip(
        packets["kind"].tolist(), packets["seq"].tolist(), packets["time"].tolist(), strict=True
    )
    for i, head in zip(np.flatnonzero(is_packet).tolist(), heads, strict=True):
        about[i] = head
    return follow([tuple(e) for e in entries.tolist()], about, node.tolist(), far.tolist())


def _masked(values: np.ndarray, valid: np.ndarray) -> pl.Series:
    """The values, null where they are not valid."""
    import polars as pl

    return pl.select(pl.when(pl.Series(valid)).then(pl.Series(values))).to_series()


def declared_state(transport: ModuleType, side: str) -> list[str]:
    """Names of the state fields that a transport declares for a side, "tx" or "rx"."""
    fields = getattr(transport, f"{side.upper()}_STATE", ())
    return [field if isinstance(field, str) else field[0] for field in fields]


def _columns(side: str, copies: np.ndarray, own: Mapping[str, str]) -> dict[str, np.ndarray]:
    """What the engine keeps and the transport's own fields, arrays taken apart.

    ``own`` has the names of these, each with that in the record.
    """
    columns = {}
    for name, field in {**{name: name for name in ENGINE_STATE[side]}, **own}.items():
        values = copies[field]
        if values.ndim == 1:
            columns[f"{side}.{name}"] = values
        else:
            for k in range(values.shape[1]):
                columns[f"{side}.{name}[{k}]"] = values[:, k]
    return columns


def _timer_names(codes: np.ndarray) -> np.ndarray:
    """Names of timers by their code; of other numbers, anything."""
    return np.array(TIMER_NAMES).take(codes, mode="clip")
