"""The trace of a flow: its tables of events and segments."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING

import numpy as np

from netsim.engine.kernels import trace as event
from netsim.engine.kernels.packets import ACK, CNP, DATA, NACK, PULL, TRIMMED
from netsim.errors import InputError, did_you_mean
from netsim.frozen import frozen
from netsim.model.network import Network
from netsim.tracing.segments import OrderedTrace

if TYPE_CHECKING:
    import polars as pl


EVENTS = {
    event.SENT: "send",
    event.ARRIVED: "arrive",
    event.FORWARDED: "forward",
    event.DROPPED: "drop",
    event.TRIMMED: "trim",
    event.MARKED: "mark",
    event.LOST: "lost",
    event.RECEIVED: "receive",
    event.CREATED: "create",
    event.TX: "sender",
    event.RX: "receiver",
    event.PAUSED: "pause",
    event.RESUMED: "resume",
    event.UNROUTABLE: "unroutable",
    event.SENT_INDIRECT: "indirect",
    event.HELD: "hold",
    event.REPLAYED: "replay",
    event.ASKED: "asked",
    event.SET: "set",
}
"""Names of events; sender and receiver are copies of that side's state."""

NOT_SHOWN = (EVENTS[event.ASKED], EVENTS[event.SET])  # explain other events; not in the table

KINDS = {DATA: "DATA", TRIMMED: "TRIMMED", ACK: "ACK", NACK: "NACK", PULL: "PULL", CNP: "CNP"}

ENGINE_STATE = {"tx": ("sent_packets", "retransmits"), "rx": ("received_bytes",)}
"""State that the engine keeps for every transport."""


@frozen
class FlowTrace:
    """The events of one flow and its completion time by cause.

    `events` is a polars DataFrame, described in `netsim.results.COLUMNS["trace"]`; its ``tx.…`` and
    ``rx.…`` columns are the state of sender and receiver. `state` names the fields that the
    transport lists in TRACE, or else the fields that change. `segments` (`COLUMNS["segments"]`)
    splits the completion time and is empty for an incomplete flow. `routing_table` is the table of
    the flow's data, "" if the network has only one. `fct_ps` and `acked_ps` are None if the trace
    ends earlier. `stop_reason` is the run's status.
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
    routing_table: str
    events: pl.DataFrame
    segments: pl.DataFrame
    state: tuple[str, ...]
    stop_reason: str
    warnings: tuple[str, ...] = ()  # changes since the result was written


@cache
def kind_names(module: ModuleType) -> dict[int, str]:
    """Return the names of packet kinds: the engine's, and the constants that a transport sends,
    like ``GRANT`` in ``send(env, rx, GRANT, ...)`` or ``PARITY`` in ``pkt.kind = PARITY``.
    """
    names = dict(KINDS)
    for node in _nodes(module):
        used: ast.expr | None = None
        if isinstance(node, ast.Call) and len(node.args) > 2:
            used = node.args[2] if ast.unparse(node.func) == "send" else None
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
            used = node.value if node.targets[0].attr == "kind" else None
        if isinstance(used, ast.Name) and isinstance(getattr(module, used.id, None), int):
            names.setdefault(getattr(module, used.id), used.id)
    return names


@cache
def timer_names(module: ModuleType) -> dict[tuple[str, int], str]:
    """Return timer names by side and number, like ``RTO`` in ``set_timer(…, tx, RTO, …)``."""
    names: dict[tuple[str, int], str] = {}
    for node in _nodes(module):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "set_timer":
            side, used = [*node.args[2:4], None, None][:2]
            if isinstance(side, ast.Name) and isinstance(used, ast.Name):
                number = getattr(module, used.id, None)
                if isinstance(number, int):
                    names.setdefault((side.id, number), used.id)
    return names


def _nodes(module: ModuleType) -> Iterator[ast.AST]:
    """Yield the syntax nodes of a module's source; none if it has no source."""
    try:
        yield from ast.walk(ast.parse(inspect.getsource(module)))
    except (OSError, TypeError, SyntaxError):
        return


def shown_state(module: ModuleType, changing: Sequence[str]) -> tuple[str, ...]:
    """Return the state columns listed in the transport's TRACE, or else the columns that change.
    Raises InputError if TRACE names an undeclared field."""
    wanted = getattr(module, "TRACE", None)
    if wanted is None:
        return tuple(changing)
    declared = [*declared_state(module, "tx"), *declared_state(module, "rx")]
    for name in wanted:
        if name not in declared:
            hint = did_you_mean(name, declared)
            raise InputError(
                f"unknown field {name!r}", file=module.__file__, key="TRACE", hint=hint
            )
    return tuple(n for n in changing if n.partition(".")[2].partition("[")[0] in wanted)


def event_table(
    network: Network,
    ordered: OrderedTrace,
    transport: ModuleType,
    own_names: Mapping[str, str] = MappingProxyType({}),
) -> tuple[pl.DataFrame, list[str]]:
    """Return the event table, and the transport's state columns that change."""
    import polars as pl

    entries, node, row, is_packet = ordered.entries, ordered.node, ordered.row, ordered.is_packet
    packets, far = ordered.packets, ordered.far
    time, port, what, value = entries.T[:4]
    is_copy = (what == event.TX) | (what == event.RX)
    names = np.array([network.node_name(n) for n in range(network.n_nodes)])
    leaves = is_packet & (what != event.RECEIVED) & (what != event.CREATED)

    def of_packet(name: str) -> pl.Series:
        return _masked(ordered.of_packets(name), is_packet)

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
            "packet": _masked(ordered.packet, ordered.packet >= 0),
            "kind": _masked(kind_column, is_packet),
            "seq": of_packet("seq"),
            "aux": of_packet("aux"),
            "size_bytes": of_packet("size_bytes"),
            "traffic_class": of_packet("prio"),
            "ecn": of_packet("ecn"),
            "entropy": of_packet("entropy"),
            "hops": of_packet("hops"),
            "is_retransmit": _masked(
                ordered.is_retransmit, (what == event.SENT) & (kind_column != "")
            ),
            "queue_bytes": _masked(value, at_switch),
            "wait_ps": _masked(ordered.wait_ps, ordered.wait_ps >= 0),
            "rtt_ps": _masked(ordered.rtt_ps, ordered.rtt_ps >= 0),
            "timer": _masked(
                np.array(event.TIMER_NAMES).take(value, mode="clip"), is_copy & (value >= 0)
            ),
        }
    )
    changing: list[str] = []
    for side, which, sides in (("tx", event.TX, ordered.tx), ("rx", event.RX, ordered.rx)):
        copies = sides[row[what == which]]
        own = {name: own_names.get(name, name) for name in declared_state(transport, side)}
        for name, column in _columns(side, copies, own).items():
            if name.partition(".")[2] not in ENGINE_STATE[side] and (column != column[:1]).any():
                changing.append(name)
            full = np.zeros(len(entries), column.dtype)
            full[what == which] = column
            table = table.with_columns(_masked(full, what == which).alias(name))
    return table.filter(~pl.col("event").is_in(NOT_SHOWN)), changing


def _masked(values: np.ndarray, valid: np.ndarray) -> pl.Series:
    """Return the values as a series, null where not valid."""
    import polars as pl

    return pl.select(pl.when(pl.Series(valid)).then(pl.Series(values))).to_series()


def declared_state(transport: ModuleType, side: str) -> list[str]:
    """Return the names of the state fields that a transport declares for a side, "tx" or "rx"."""
    fields = getattr(transport, f"{side.upper()}_STATE", ())
    return [field if isinstance(field, str) else field[0] for field in fields]


def _columns(side: str, copies: np.ndarray, own: Mapping[str, str]) -> dict[str, np.ndarray]:
    """Return the columns of the engine's state and of the transport's own, one per array element.
    `own` maps the transport's names to names in the record."""
    columns = {}
    for name, field in {**{name: name for name in ENGINE_STATE[side]}, **own}.items():
        values = copies[field]
        if values.ndim == 1:
            columns[f"{side}.{name}"] = values
        else:
            for k in range(values.shape[1]):
                columns[f"{side}.{name}[{k}]"] = values[:, k]
    return columns
