"""Time series: a row per interval of each port class, host and flow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.results.columns import TableSpec
from netsim.results.run_result import Run, Table
from netsim.units import format_time

if TYPE_CHECKING:
    from netsim.engine.engine import Engine
    from netsim.engine.state_views import SeriesReading

SERIES = TableSpec.of(
    "series",
    """
    time_ps            ps       end of the interval, since the start of the run
    interval_ps        ps       length of the interval; the last one may be shorter
    entity             -        port, host or flow
    entity_index       index    number of the port (that of its link), host or flow
    name               -        name of the port (node and number there), the host or the flow
    traffic_class?     index    traffic class of the port; null otherwise
    mean_queue_bytes*  B        port: time-weighted mean of the queue
    max_queue_bytes?   B        port: largest queue in the interval
    sent_bytes         B        bytes whose transmission began, with headers; flow: data only
    drops?             packets  port: packets dropped
    trims?             packets  port: packets trimmed to their header
    ecn_marks?         packets  port: packets marked by ECN
    paused_ps?         ps       port: time for which it was paused
    received_bytes?    B        host: bytes received, with headers
    delivered_bytes?   B        host, flow: payload delivered
    """,
    hash_order=5,
)

TABLES = (SERIES,)
ORDER = 70


def series_table(engine: Engine, found: SeriesReading) -> Table:
    """Return a row per interval of each port class, host and flow. Missing values are negative."""
    network = engine.network
    ports, cls = np.divmod(found.queues.things, engine.fabric.n_link_classes)
    classes = {"traffic_class": np.broadcast_to(cls, (found.end_ps.size, cls.size))}
    hosts, flows = found.hosts.things, found.flows.things
    names = (
        [network.port_name(port) for port in ports.tolist()],
        [network.node_name(host) for host in hosts.tolist()],
        [f"flow {flow}" for flow in flows.tolist()],
    )
    lengths_ps = np.diff(found.end_ps, prepend=0)
    parts = []
    for entity, numbers, named, values in (
        ("port", ports, names[0], classes | found.queues.values),
        ("host", hosts, names[1], found.hosts.values),
        ("flow", flows, names[2], found.flows.values),
    ):
        part: Table = {
            "time_ps": np.tile(found.end_ps, numbers.size),
            "interval_ps": np.tile(lengths_ps, numbers.size),
            "entity": np.full(lengths_ps.size * numbers.size, entity),
            "entity_index": np.repeat(numbers, lengths_ps.size).astype(np.int64),
            "name": np.repeat(np.array(named, dtype=str), lengths_ps.size),
        }
        for name, value in values.items():
            column = np.ascontiguousarray(value.T).reshape(-1)
            part[name] = column.astype(np.float64) if "." in name else column
        parts.append(part)
    columns = dict.fromkeys(name for part in parts for name in part)
    return {name: np.concatenate([_column(part, name) for part in parts]) for name in columns}


def _column(part: Table, name: str) -> np.ndarray:
    """Return a column of a part, or missing values if the part lacks it."""
    if name in part:
        return part[name]
    rows = part["time_ps"].size
    is_float = name == "mean_queue_bytes" or "." in name
    return np.full(rows, np.nan) if is_float else np.full(rows, -1, np.int64)


def report(run: Run) -> dict[str, Any]:
    """Add the table of series, if anything was sampled; return its final interval."""
    engine = run.engine
    found = None if engine is None else engine.series()
    if engine is None or found is None or engine.sampling is None:
        return {}
    run.tables["series"] = series_table(engine, found)
    said = f"sampled every {format_time(found.interval_ps)}"
    if found.interval_ps != found.first_interval_ps:
        said += f", merged to fit {engine.sampling.sample_budget_bytes / 1e6:g} MB"
    return {"series": {"interval_ps": found.interval_ps, "said": said}}


def lines(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the sampling interval."""
    if "series" in summary:
        yield "series", summary["series"]["said"]
