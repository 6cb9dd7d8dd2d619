"""Time series: a row per interval of each port class, host and flow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.results.columns import TableSpec
from netsim.results.run_result import Run
from netsim.units import format_time

if TYPE_CHECKING:
    from netsim.engine.engine import Engine
    from netsim.engine.state_views import SeriesReading
    from netsim.results.run_result import Table

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


PORT, HOST, FLOW = "port", "host", "flow"


def series_table(engine: Engine) -> Table | None:
    """Return the samples, None without sampling. Missing values are below zero."""
    found = engine.series()
    if found is None:
        return None
    network, classes = engine.network, engine.fabric.n_link_classes
    ports, cls = np.divmod(found.queues, classes)
    parts = [
        _rows(
            found,
            PORT,
            ports,
            [network.port_name(port) for port in ports.tolist()],
            {
                "traffic_class": np.broadcast_to(cls, found.max_bytes.shape),
                "mean_queue_bytes": found.mean_bytes,
                "max_queue_bytes": found.max_bytes,
                "sent_bytes": found.queue_sent_bytes,
                "drops": found.drops,
                "trims": found.trims,
                "ecn_marks": found.ecn_marks,
                "paused_ps": found.paused_ps,
            },
        ),
        _rows(
            found,
            HOST,
            found.hosts,
            [network.node_name(host) for host in found.hosts.tolist()],
            {
                "sent_bytes": found.host_sent_bytes,
                "received_bytes": found.host_received_bytes,
                "delivered_bytes": found.host_delivered_bytes,
            },
        ),
        _rows(
            found,
            FLOW,
            found.flows,
            [f"flow {flow}" for flow in found.flows.tolist()],
            {
                "sent_bytes": found.flow_sent_bytes,
                "delivered_bytes": found.flow_delivered_bytes,
                **{name: values.astype(np.float64) for name, values in found.fields.items()},
            },
        ),
    ]
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: np.concatenate([_column(part, name) for part in parts]) for name in names}


def _rows(
    found: SeriesReading,
    what: str,
    numbers: np.ndarray,
    names: list[str],
    values: Mapping[str, Any],
) -> Table:
    """Return the rows of all entities of one kind."""
    n = len(found.end_ps)
    lengths = np.diff(found.end_ps, prepend=0)
    return {
        "time_ps": np.tile(found.end_ps, len(names)),
        "interval_ps": np.tile(lengths, len(names)),
        "entity": np.full(n * len(names), what),
        "entity_index": np.repeat(numbers, n).astype(np.int64),
        "name": np.repeat(np.array(names, dtype=str), n),
        **{name: np.ascontiguousarray(value.T).reshape(-1) for name, value in values.items()},
    }


def _column(part: Table, name: str) -> np.ndarray:
    """Return a column of a part, or missing values if it has none."""
    if name in part:
        return part[name]
    rows = part["time_ps"].size
    is_float = name == "mean_queue_bytes" or "." in name
    return np.full(rows, np.nan) if is_float else np.full(rows, -1, np.int64)


def series_metrics(engine: Engine) -> dict[str, Any]:
    """Return the final interval of the series."""
    found = engine.series()
    if found is None or engine.sampling is None:
        return {}
    said = f"sampled every {format_time(found.interval_ps)}"
    if found.interval_ps != found.first_interval_ps:
        said += f", merged to fit {engine.sampling.sample_budget_bytes / 1e6:g} MB"
    return {"series": {"interval_ps": found.interval_ps, "said": said}}


def report(run: Run) -> dict[str, Any]:
    """Add the table of series, if anything was sampled; return its interval."""
    table = None if run.engine is None else series_table(run.engine)
    if run.engine is None or table is None:
        return {}
    run.tables["series"] = table
    return series_metrics(run.engine)


def lines(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the sampling interval."""
    if "series" in summary:
        yield "series", summary["series"]["said"]
