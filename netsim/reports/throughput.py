"""Throughput and latency measured within the window of [measure]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from netsim.common.terminal import time_text
from netsim.engine.state_views import Readings, packets_of
from netsim.model.columns import Flags, Floats, Ints
from netsim.model.fabric import packet_counts
from netsim.model.paths import pattern_saturation
from netsim.model.patterns import destinations
from netsim.model.traffic import traffic_rng
from netsim.plugins.registry import legs_of
from netsim.results.columns import Metric, TableSpec
from netsim.results.comparison import margin_95
from netsim.results.run_result import Run, Table

MEASURED_HOSTS = TableSpec.of(
    "measured_hosts",
    """
    host             host  host
    name             -     its name
    offered_bytes    B     payload of the flows that it started in the window; for flows longer than
        the window, what it can send in it
    offered_load     1     the same with headers, as a share of its rate
    accepted_bytes   B     payload of its flows that was delivered in the window
    accepted_load    1     the same with headers, as a share of its rate
    received_bytes   B     payload that was delivered to it in the window
    received_load    1     the same with headers, as a share of its rate
    latency_mean_ps  ps    mean completion time of the flows that it started in the window, if
        delivered
    """,
)

MEASURED_BATCHES = TableSpec.of(
    "measured_batches",
    """
    window_batch     index  batch of the window
    start_ps         ps     start of the batch
    end_ps           ps     end of the batch
    flow_class*      -      name of the flow class, or empty
    offered_load     1      load of the flows that started in the batch; for flows longer than the
        window, what hosts can send in it
    accepted_load    1      load that was delivered in the batch
    latency_mean_ps  ps     mean completion time of the flows that started in it
    """,
)

TABLES = (MEASURED_HOSTS, MEASURED_BATCHES)
ORDER = 15

TITLES = {"latency_mean_ps": "latency\nmean", "latency_p99_ps": "latency\np99"}
TITLES |= {"offered_load": "offered", "accepted_load": "accepted"}
"""Columns that are printed."""

SWEEP = tuple(
    replace(one, title=TITLES.get(one.name, ""), path=f"throughput.{one.path}")
    for one in Metric.each("""
offered_load       1      offered_load       load of the flows that started in the window of
    [measure], with headers, as a share of the rate of all hosts that send; for flows longer
    than the window, what hosts can send in it
accepted_load      1      accepted_load      load that was delivered in the window, whenever its
    flows started
accepted_interval  1      accepted_interval  half of the 95 % interval of accepted_load, from batch
    means
excess_load        1      excess_load        offered minus accepted load, by which the backlog grows
excess_interval    1      excess_interval    half of the 95 % interval of excess_load
worst_host_load    1      worst_host.accepted_load  accepted load of the host with the lowest share
    of its own offered load
latency_mean_ps    ps     latency_ps.mean    mean completion time of the flows that started in the
    window, if delivered
latency_p50_ps     ps     latency_ps.p50     median completion time of the flows that started in the
    window; none if half of them are undelivered
latency_p99_ps     ps     latency_ps.p99     99th percentile of the completion time of the flows
    that started in the window
latency_p999_ps    ps     latency_ps.p999    99.9th percentile of the completion time of the flows
    that started in the window
flows_injected     flows  flows_injected     flows that started in the window
flows_undelivered  flows  flows_undelivered  those of them that were not delivered by the end of the
    drain
mean_hops          1      mean_hops          mean number of links that packets crossed, control
    packets included
busiest_link_utilization  1  busiest_link.utilization  utilization of the most loaded link in the
    window
busiest_link       -      busiest_link.name  that link
saturation_bound   1      saturation_bound   offered load at which some link is full if switches
    divide the traffic's pattern evenly over the routes of the topology
""")
)

FEWEST_BATCHES = 5  # minimum number of batches after joining
MIN_ROUND_TRIPS = 10  # round trips below which a warm-up is reported as short
MAX_CORRELATION = 0.2  # lag-1 correlation of batch means above which batches are joined in pairs

PERCENTILES = {"p50": 50.0, "p99": 99.0, "p999": 99.9}


def batch_mean(values: Floats) -> dict[str, Any]:
    """Return the mean of 20 batches, the half-width of its 95 % confidence interval, and the number
    and lag-1 correlation of the batches behind that interval.

    Adjacent batches are joined in pairs while they are correlated. A. M. Law, "Simulation Modeling
    and Analysis", section 9.5.3.
    """
    while True:
        apart = values - values.mean()
        square = float((apart**2).sum())
        correlation = float((apart[1:] * apart[:-1]).sum()) / square if square > 0 else 0.0
        if correlation <= MAX_CORRELATION or values.size // 2 < FEWEST_BATCHES:
            break
        values = values.reshape(-1, 2).mean(axis=1)
    return {
        "mean": float(values.mean()),
        "interval": margin_95(values.tolist()),
        "batches": values.size,
        "correlation": correlation,
    }


class _Window:
    """Offered and accepted bytes in the window, flow by flow."""

    def __init__(self, run: Run, readings: Readings) -> None:
        point, scenario, network = run.point, run.scenario, run.scenario.network
        packets = point.packets
        self.edges_ps, self.header_bytes = readings.edges_ps, packets.header_bytes
        self.seconds = float(np.diff(self.edges_ps[[0, -1]])[0]) / 1e12
        self.host_bps = np.add.reduceat(network.nic_rate_bps, network.first_nic[:-1]).astype(float)
        self.senders_bps = float(self.host_bps[np.unique(scenario.messages.src)].sum())
        segments, flows = scenario.segments, scenario.flows
        table = run.tables["flows"]
        self.src, self.dst = table["src"].astype(np.int64), table["dst"].astype(np.int64)
        self.group, self.start_ps = scenario.class_of_flow[: self.src.size], table["start_ps"]
        self.fct_ps = table["fct_ps"]

        def of_messages(values: Ints) -> Ints:
            return values if segments is None else segments.at_destination(values)

        self.size_bytes = table["size_bytes"]
        self.packets = of_messages(packet_counts(flows.size_bytes, packets))
        before, after = readings.received_bytes
        self.accepted_bytes = of_messages(after - before)
        moved = packets_of(after, packets.payload_bytes) - packets_of(before, packets.payload_bytes)
        self.accepted_packets = of_messages(moved)
        self.batch = np.searchsorted(self.edges_ps, self.start_ps, side="right") - 1
        self.injected = (self.batch >= 0) & (self.start_ps < self.edges_ps[-1])
        bits = 8 * (self.size_bytes + self.packets * self.header_bytes)
        send_ps = 1e12 * bits / self.host_bps[self.src]
        # Flows longer than the window offer what their host can send in each batch; other flows
        # offer all bytes when they start.
        longest_ps = self.edges_ps[-1] - self.edges_ps[0]
        self.long = np.flatnonzero((send_ps > longest_ps) & (self.start_ps >= 0))
        start, length = self.start_ps[self.long, None], send_ps[self.long, None]
        self.long_parts = np.diff(np.clip((self.edges_ps - start) / length, 0, 1), axis=1)
        self.offered_part = self.injected.astype(float)
        self.offered_part[self.long] = self.long_parts.sum(axis=1)

    def offered(self, which: Flags) -> list[Floats]:
        """Return the payload and the packets that some flows offer in each batch."""
        whole, part = which & self.injected, which[self.long]
        whole[self.long] = False
        at, n = self.batch[whole], self.edges_ps.size - 1
        return [
            np.bincount(at, column[whole], n) + column[self.long[part]] @ self.long_parts[part]
            for column in (self.size_bytes, self.packets)
        ]

    def load(self, n_bytes: Any, packets: Any, bps: Any, seconds: Any) -> Any:
        """Return payload plus its packet headers as a fraction of a rate."""
        return (n_bytes + packets * self.header_bytes) * 8 / (bps * seconds)


def report(run: Run) -> dict[str, Any]:
    """Add the tables of hosts and batches, and the payload of flows in the window; return the
    figures of all flows and each class."""
    readings = run.readings
    if readings is None or run.engine is None:
        return {}
    window = _Window(run, readings)
    run.tables["flows"]["window_bytes"] = window.accepted_bytes
    hosts = run.tables["measured_hosts"] = _hosts(run, window)
    everyone = np.ones(window.src.size, bool)
    n_flow_classes = 1 + len(run.point.classes)
    figures, batches = _figures(window, readings, everyone, slice(0, n_flow_classes))
    figures |= {"worst_host": _worst_host(hosts), **_of_links(run, readings)}
    figures["saturation_bound"] = _bound(run)
    longest_ps = int(run.engine.flow_states().base_rtt_ps.max(initial=1))
    figures["warmup_round_trips"] = int(window.edges_ps[0]) / longest_ps
    parts = [batches]
    if run.point.classes:
        parts, found = [], []
        for k, name in enumerate(("", *(one.name for one in run.point.classes))):
            of_class, batches = _figures(window, readings, window.group == k, slice(k, k + 1))
            found.append({"flow_class": name, **of_class})
            parts.append({"flow_class": np.full(batches["window_batch"].size, name), **batches})
        figures["flow_classes"] = found
    names = list(parts[0])
    run.tables["measured_batches"] = {
        name: np.concatenate([part[name] for part in parts]) for name in names
    }
    return {"throughput": figures}


def _figures(
    window: _Window, readings: Readings, which: Flags, groups: slice
) -> tuple[dict[str, Any], Table]:
    """Return the figures and the batches of the flows in `which`; `groups` are their columns in
    the readings."""
    injected = window.injected & which
    n = window.edges_ps.size - 1
    of_batch = window.batch[injected]
    seconds = np.diff(window.edges_ps) / 1e12
    n_bytes, packets = window.offered(which)
    offered = window.load(n_bytes, packets, window.senders_bps, seconds)
    received = np.diff(readings.of_groups[:, :, groups].sum(axis=2), axis=0)
    accepted = window.load(received[:, 0], received[:, 1], window.senders_bps, seconds)
    fct_ps = window.fct_ps[injected]
    done = fct_ps >= 0
    counts = np.bincount(of_batch[done], minlength=n)
    sums = np.bincount(of_batch[done], fct_ps[done], n)
    latency = np.divide(sums, counts, out=np.full(n, np.nan), where=counts > 0)
    batches: Table = {
        "window_batch": np.arange(n),
        "start_ps": window.edges_ps[:-1],
        "end_ps": window.edges_ps[1:],
        "offered_load": offered,
        "accepted_load": accepted,
        "latency_mean_ps": latency,
    }
    mean, excess = batch_mean(accepted), batch_mean(offered - accepted)
    payload = int(received[:, 0].sum())
    found = {
        "offered_load": float(offered @ seconds) / window.seconds,
        "accepted_load": float(accepted @ seconds) / window.seconds,
        "accepted_interval": mean["interval"],
        "batches": mean["batches"],
        "correlation": mean["correlation"],
        "excess_load": excess["mean"],
        "excess_interval": excess["interval"],
        "accepted_bytes": payload,
        "goodput_bps": payload * 8 / window.seconds,
        "flows_injected": int(injected.sum()),
        "flows_undelivered": int((~done).sum()),
        "latency_ps": _latency(fct_ps, latency),
    }
    return found, batches


def _latency(fct_ps: Ints, of_batches: Floats) -> dict[str, float | None]:
    """Return statistics of completion times; percentiles count undelivered flows as infinite."""
    done = np.sort(fct_ps[fct_ps >= 0])
    found: dict[str, float | None] = dict.fromkeys(("mean", "interval", *PERCENTILES, "max"))
    if not done.size:
        return found
    found |= {"mean": float(done.mean()), "max": float(done[-1])}
    if np.isfinite(of_batches).all():
        found["interval"] = batch_mean(of_batches)["interval"]
    for name, percent in PERCENTILES.items():
        rank = int(np.ceil(percent / 100 * fct_ps.size)) - 1
        found[name] = float(done[rank]) if rank < done.size else None
    return found


def _hosts(run: Run, window: _Window) -> Table:
    """Return one row per host."""
    network = run.scenario.network
    n, injected, src, dst = network.n_hosts, window.injected, window.src, window.dst
    done = injected & (window.fct_ps >= 0)
    counts = np.bincount(src[done], minlength=n)
    sums = np.bincount(src[done], window.fct_ps[done], n)
    table: Table = {
        "host": np.arange(n),
        "name": np.array([network.node_name(host) for host in range(n)]),
    }
    offered = window.offered_part * window.size_bytes, window.offered_part * window.packets
    accepted = window.accepted_bytes, window.accepted_packets
    for name, host, moved in (
        ("offered", src, offered),
        ("accepted", src, accepted),
        ("received", dst, accepted),
    ):
        n_bytes, packets = (np.bincount(host, one, n).astype(np.int64) for one in moved)
        table[f"{name}_bytes"] = n_bytes
        table[f"{name}_load"] = window.load(n_bytes, packets, window.host_bps, window.seconds)
    table["latency_mean_ps"] = np.divide(sums, counts, out=np.full(n, np.nan), where=counts > 0)
    return table


def _worst_host(hosts: Table) -> dict[str, Any] | None:
    """Return the host with the smallest accepted share of its offered load."""
    offered = hosts["offered_load"]
    senders = np.flatnonzero(offered > 0)
    if not senders.size:
        return None
    worst = senders[np.argmin(hosts["accepted_load"][senders] / offered[senders])]
    return {name: hosts[name][worst].item() for name in ("name", "offered_load", "accepted_load")}


def _of_links(run: Run, readings: Readings) -> dict[str, Any]:
    """Return the mean number of hops, the busiest link, and the switches' counts in the window."""
    network = run.scenario.network
    n_traffic_classes = run.scenario.fabric.n_link_classes
    seconds = float(readings.edges_ps[-1] - readings.edges_ps[0]) / 1e12
    sent = readings.in_window("sent_bytes").reshape(-1, n_traffic_classes).sum(axis=1)
    utilization = sent * 8 / (network.port_rate_bps * seconds)
    busiest = int(utilization.argmax())
    far = int(network.port_node[network.port_peer[busiest]])
    ends = (network.port_name(busiest), network.node_name(far))
    arrived, crossed = np.diff(readings.arrivals, axis=0)[0].tolist()
    names = ("drops", "trims", "ecn_marks", "pfc_pauses")
    return {
        "mean_hops": crossed / arrived if arrived else None,
        "busiest_link": {"name": " -> ".join(ends), "utilization": float(utilization[busiest])},
        **{name: int(readings.in_window(name).sum()) for name in names},
    }


def _bound(run: Run) -> float | None:
    """Return the load at which the traffic pattern fills a link; None without a pattern, with
    multi-port hosts, or if routing takes unknown detours."""
    point, network = run.point, run.scenario.network
    params, several = point.traffic.params, network.n_host_ports != network.n_hosts
    routing = point.fabric.routing
    legs = legs_of(routing)
    if legs is None and getattr(routing.module, "VIA", False):
        return None
    alone = not (point.classes or run.scenario.faults or network.circuits or several)
    if not alone or "pattern" not in params or params.get("rack_hosts") is not None:
        return None
    to = destinations(params, network, traffic_rng(point.seed))
    return pattern_saturation(network, to, legs=legs)


def lines(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the loads and latencies."""
    found = summary.get("throughput")
    if found is None:
        return
    loads = (
        f"{found['offered_load']:.4f} / {found['accepted_load']:.4f} "
        f"± {found['accepted_interval']:.4f}"
    )
    yield "offered / accepted load", loads
    worst, busiest = found["worst_host"], found["busiest_link"]
    if worst is not None:
        shares = f"{worst['accepted_load']:.4f} of {worst['offered_load']:.4f}"
        yield "worst host", f"{worst['name']}, {shares}"
    latency = found["latency_ps"]
    times = " / ".join(time_text(latency[name]) for name in ("mean", "p50", "p99", "p999"))
    yield "latency mean / p50 / p99 / p99.9", times
    yield "not delivered", f"{found['flows_undelivered']:,} of {found['flows_injected']:,} flows"
    if found["mean_hops"] is not None:
        yield "hops", f"{found['mean_hops']:.3f}"
    yield "busiest link", f"{busiest['name']}, {busiest['utilization']:.1%}"
    if found["warmup_round_trips"] < MIN_ROUND_TRIPS:
        text = f"only {found['warmup_round_trips']:.1f} round trips of the longest path"
        yield "warm-up", f"{text} ({MIN_ROUND_TRIPS} at least)"
