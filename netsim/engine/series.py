"""Series: their initial arrays, merging of intervals, and their results. `kernels/series.py` writes
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from netsim.engine.compiling.declarations import Protocol
from netsim.engine.kernels.layout import INF, LEVEL, SAMPLE, SERIES_CLOCK, LinkState
from netsim.engine.kernels.series import (
    AREA_BITS,
    AREA_MASK,
    BINS,
    BINS_APART,
    EXACT_BITS,
    NIC,
    RECEIVER,
    SENDER,
    STEP_BITS,
    bin_of,
)
from netsim.engine.records import aligned_zeros
from netsim.errors import InputError
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.model.sampling import MIN_INTERVALS, Sampling
from netsim.units import format_bytes

if TYPE_CHECKING:
    from netsim.engine.state import State

Ints = NDArray[np.int64]

NIC_WORDS = ("sent_bytes", "received_bytes", "payload_bytes")
TX_WORDS = ("sent_bytes",)
RX_WORDS = ("received_bytes",)
"""Words kept of a host and of both sides of a flow, before the requested fields."""


def words_of(sampling: Sampling, protocol: Protocol) -> Ints:
    """Return int64[3, ...]: words kept of hosts, senders and receivers, padded with -1."""
    own: dict[str, list[str]] = {
        side: [name.partition(".")[2] for name in sampling.fields if name.startswith(f"{side}.")]
        for side in ("tx", "rx")
    }
    chosen = {
        NIC: (protocol.host, NIC_WORDS),
        SENDER: (protocol.tx, (*TX_WORDS, *own["tx"])),
        RECEIVER: (protocol.rx, (*RX_WORDS, *own["rx"])),
    }
    words = np.full((len(chosen), max(len(names) for _, names in chosen.values())), -1, np.int64)
    for kind, (record, names) in chosen.items():
        fields: Any = record.fields
        words[kind, : len(names)] = [fields[name][1] // 8 for name in names]
    return words


def nics_of(hosts: Ints, network: Network) -> Ints:
    """Return all NICs of some hosts, in ascending order."""
    return np.concatenate(
        [np.zeros(0, np.int64)]
        + [np.arange(*network.first_nic[host : host + 2]) for host in hosts.tolist()]
    )


def interval_bytes(sampling: Sampling, network: Network, n_traffic_classes: int) -> int:
    """Return the bytes of the samples of one interval."""
    sides = [sum(name.startswith(side) for name in sampling.fields) for side in ("tx.", "rx.")]
    width = max(len(NIC_WORDS), len(TX_WORDS) + sides[0], len(RX_WORDS) + sides[1])
    watched = nics_of(sampling.hosts, network).size + 2 * sampling.flows.size
    return int(sampling.ports.size * n_traffic_classes * SAMPLE.itemsize + 8 * width * watched)


def intervals(sampling: Sampling, network: Network, n_traffic_classes: int) -> int:
    """Return how many intervals fit. Raises InputError, without a file, for too few."""
    each = max(1, interval_bytes(sampling, network, n_traffic_classes))
    n = sampling.sample_budget_bytes // each & ~1
    if n < MIN_INTERVALS:
        raise InputError(
            f"{format_bytes(sampling.sample_budget_bytes)} hold {n} intervals of these series, "
            f"each of {format_bytes(each)}",
            key="outputs.sample_budget",
            hint=f"at least {format_bytes(MIN_INTERVALS * each)}, or fewer ports, hosts, flows",
        )
    return n


def memory_bytes(
    sampling: Sampling, network: Network, n_traffic_classes: int, simulated_ps: int
) -> int:
    """Return the memory needed by series over a simulated time: samples, levels, table."""
    levels = network.n_ports if sampling.queues else sampling.ports.size
    bins = 8 * BINS_APART if sampling.queues else 0
    taken = int(levels) * n_traffic_classes * (LEVEL.itemsize + bins)
    if sampling.interval_ps is not None:
        most = intervals(sampling, network, n_traffic_classes)
        n = min(most, simulated_ps // sampling.interval_ps + 1)
        taken += (
            4 * n * interval_bytes(sampling, network, n_traffic_classes)
        )  # the table has more columns
    return taken


def build_series(
    sampling: Sampling | None,
    network: Network,
    flows: FlowTable,
    n_traffic_classes: int,
    protocol: Protocol,
) -> dict[str, Any]:
    """Return the arrays of LinkState for series; minimal without any."""
    if sampling is None:
        none = np.zeros(0, np.int64)
        sampling = Sampling(None, none, none, none)
    there = sampling.interval_ps is not None
    clock = np.zeros(1, SERIES_CLOCK)
    clock["end_ps"] = INF
    n = 0
    if there:
        n = intervals(sampling, network, n_traffic_classes)
        clock["interval_ps"] = sampling.interval_ps
        clock["end_ps"] = n * clock["interval_ps"]
    n_rows, level_of, levels = _levels(sampling, network, n_traffic_classes)
    clock["n_rows"] = n_rows
    words = words_of(sampling, protocol)
    watched, first_watched = _watched(sampling, flows, network)
    clock["n_watched"] = len(watched)
    due = np.full(network.n_hosts, INF, np.int64)
    if there:
        due[np.diff(first_watched) > 0] = clock["interval_ps"][0]
    bins = levels.size * BINS_APART if sampling.queues else 0
    return {
        "series_clock": clock,
        "level_of": level_of,
        "levels": levels,
        "samples": aligned_zeros(max(1, n * n_rows), SAMPLE),
        "level_times": np.zeros(max(1, bins), np.int64),
        "series_due": due,
        "first_watched": first_watched,
        "watched": watched,
        "watched_words": words,
        "copies": np.zeros((max(1, n * len(watched)), words.shape[1]), np.int64),
    }


def _levels(sampling: Sampling, network: Network, n_traffic_classes: int) -> tuple[int, Ints, Any]:
    """Return the number of sampled queues, the level of each port's class 0, and the levels."""
    ports = sampling.ports
    if sampling.queues:
        ports = np.union1d(ports, np.arange(network.n_hosts, network.n_ports))
    level_of = np.full(network.n_ports, -1, np.int64)
    level_of[ports] = np.arange(ports.size) * n_traffic_classes
    levels = aligned_zeros(max(1, ports.size * n_traffic_classes), LEVEL)
    levels["first_bin"] = np.arange(levels.size) * BINS_APART
    levels["due_ps"] = INF
    n_rows = 0
    if sampling.interval_ps is not None:
        sampled = (level_of[sampling.ports][:, None] + np.arange(n_traffic_classes)).reshape(-1)
        n_rows = sampled.size
        levels["row"][sampled] = np.arange(n_rows)
        levels["due_ps"][sampled] = sampling.interval_ps
    return n_rows, level_of, levels


def _watched(sampling: Sampling, flows: FlowTable, network: Network) -> tuple[Ints, Ints]:
    """Return the watched records, host by host, and the first of each host."""
    chosen, nics = sampling.flows, nics_of(sampling.hosts, network)
    kinds: list[tuple[int, Any, Any]] = [
        (NIC, nics, np.searchsorted(network.first_nic, nics, side="right") - 1),
        (SENDER, chosen, flows.src[chosen]),
        (RECEIVER, chosen, flows.dst[chosen]),
    ]
    kind = np.concatenate([np.full(numbers.size, kind) for kind, numbers, _ in kinds])
    number = np.concatenate([numbers for _, numbers, _ in kinds])
    host = np.concatenate([hosts for *_, hosts in kinds]).astype(np.int64)
    order = np.argsort(host, kind="stable")
    watched = np.stack([kind, number], axis=1)[order].astype(np.int64)
    counts = np.bincount(host, minlength=network.n_hosts)
    return watched, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def make_room(links: LinkState, end_ps: int) -> None:
    """Double intervals until there is room for those before ``end_ps``, where a run ends."""
    while end_ps > links.series_clock["end_ps"][0]:
        thin(links)


def thin(links: LinkState) -> None:
    """Double every interval by merging pairs."""
    clock = links.series_clock
    interval_ps = int(clock["interval_ps"][0])
    levels = links.levels
    samples = np.asarray(links.samples)
    n_rows = int(clock["n_rows"][0])
    if n_rows:
        sampled = np.flatnonzero(levels["due_ps"] < INF)
        closed = levels["due_ps"][sampled] // interval_ps - 1
        column = levels["row"][sampled] % n_rows
        # The first half of the current interval may be written already.
        half = closed % 2 == 1
        before = samples["max_bytes"][((closed - 1) * n_rows + column)[half]]
        peaks = levels["peak_bytes"][sampled]
        peaks[half] = np.maximum(peaks[half], before)
        levels["peak_bytes"][sampled] = peaks
        levels["row"][sampled] = closed // 2 * n_rows + column
        levels["due_ps"][sampled] = (closed // 2 + 1) * 2 * interval_ps
        pairs = samples.reshape(-1, 2, n_rows)
        largest = pairs["max_bytes"].max(axis=1)
        pairs[: len(pairs), 1]["max_bytes"] = largest
        samples.reshape(-1, n_rows)[: len(pairs)] = pairs[:, 1]
    n_watched = int(clock["n_watched"][0])
    if n_watched:
        width = links.copies.shape[1]
        ends = links.copies.reshape(-1, n_watched, width)
        ends[: len(ends) // 2] = ends[1::2].copy()
    due: Any = links.series_due
    watching = due < INF
    closed = due[watching] // interval_ps - 1
    due[watching] = (closed // 2 + 1) * 2 * interval_ps
    clock["interval_ps"] *= 2
    clock["end_ps"] *= 2


PER_HUNDRED = 99  # percentile of queue levels that is reported
COUNTED = ("sent_bytes", "drops", "trims", "ecn_marks")  # counters of queues in series


@dataclass(frozen=True)
class SeriesReading:
    """Series of a run up to now: copies, int64[intervals, things] except floats.

    Intervals end at `end_ps`, int64[intervals]; the last one ends now. The others last
    `interval_ps`, which is `first_interval_ps`, doubled as often as room required. Things are port
    classes (``port * n_traffic_classes + class``), hosts or flows.
    """

    first_interval_ps: int
    interval_ps: int
    end_ps: Ints
    queues: Ints  # [things]: indices
    mean_bytes: NDArray[np.float64]
    max_bytes: Ints
    queue_sent_bytes: Ints
    drops: Ints
    trims: Ints
    ecn_marks: Ints
    paused_ps: Ints
    hosts: Ints  # [things]
    host_sent_bytes: Ints
    host_received_bytes: Ints
    host_delivered_bytes: Ints
    flows: Ints  # [things]
    flow_sent_bytes: Ints
    flow_delivered_bytes: Ints
    fields: dict[str, np.ndarray]  # values at an interval's end


@dataclass(frozen=True)
class QueueLevels:
    """Time-weighted levels of every port and class over the run; hosts hold nothing."""

    mean_bytes: NDArray[np.float64]
    p99_bytes: Ints


def read_series(
    state: State, sampling: Sampling, network: Network, n_traffic_classes: int, now_ps: int
) -> SeriesReading | None:
    """Return the series up to now, or None. Changes nothing."""
    links = state.links
    if sampling.interval_ps is None:
        return None
    interval_ps = int(links.series_clock["interval_ps"][0])
    end_ps = np.minimum(np.arange(1, -(-now_ps // interval_ps) + 1) * interval_ps, now_ps)
    queues = (sampling.ports[:, None] * n_traffic_classes + np.arange(n_traffic_classes)).reshape(
        -1
    )
    found = _queue_series(state, queues, n_traffic_classes, end_ps, now_ps)
    copies = _copies(state, end_ps)
    hosts = _of_hosts(copies[NIC], sampling, network)
    ports = {name: _in_each(found[name]) for name in (*COUNTED, "paused_ps")}
    fields = {}
    for side, kind, first in (("tx", SENDER, len(TX_WORDS)), ("rx", RECEIVER, len(RX_WORDS))):
        record: Any = np.asarray(getattr(state.hosts, side)).dtype
        names = [name for name in sampling.fields if name.startswith(f"{side}.")]
        for k, name in enumerate(names, first):
            values = np.ascontiguousarray(copies[kind][:, :, k])
            fields[name] = values.view(record[name.partition(".")[2]].base)
    return SeriesReading(
        first_interval_ps=sampling.interval_ps,
        interval_ps=interval_ps,
        end_ps=end_ps,
        queues=queues,
        mean_bytes=found["mean_bytes"],
        max_bytes=found["max_bytes"],
        queue_sent_bytes=ports.pop("sent_bytes"),
        **ports,
        hosts=sampling.hosts,
        host_sent_bytes=_in_each(hosts[:, :, 0]),
        host_received_bytes=_in_each(hosts[:, :, 1]),
        host_delivered_bytes=_in_each(hosts[:, :, 2]),
        flows=sampling.flows,
        flow_sent_bytes=_in_each(copies[SENDER][:, :, 0]),
        flow_delivered_bytes=_in_each(copies[RECEIVER][:, :, 0]),
        fields=fields,
    )


def _of_hosts(of_nics: Ints, sampling: Sampling, network: Network) -> Ints:
    """Sum the counts of each host's NICs: int64[intervals, hosts, words]."""
    n_nics = np.diff(network.first_nic)[sampling.hosts]
    if not n_nics.size:
        return of_nics
    return np.add.reduceat(of_nics, np.cumsum(n_nics) - n_nics, axis=1)


def _in_each(counts: Ints) -> Ints:
    """Return counts per interval from totals at interval ends."""
    return np.diff(counts, axis=0, prepend=0)


class _Pending:
    """Bytes that queues hold since their last change: ``held`` until ``free_at``, then ``after``.
    They differ if a transmission has ended that the engine has yet to process."""

    def __init__(self, state: State, queues: Ints, n_traffic_classes: int, now_ps: int) -> None:
        links = state.links
        port, cls = np.divmod(queues, n_traffic_classes)
        level = links.level_of[port] + cls
        self.levels = np.asarray(links.levels)[level]
        self.held = np.array(links.queues["bytes"][queues])
        size, free_at = links.ports["tx_bytes"][port], links.ports["free_at"][port]
        ended = (size > 0) & (free_at < now_ps) & (links.ports["tx_class"][port] == cls)
        self.free_at = np.where(ended, free_at, now_ps)
        self.after = self.held - np.where(ended, size, 0)

    def area(self, at_ps: Ints) -> tuple[Ints, Ints]:
        """Return the integral of each queue up to some times, in two parts."""
        high, low = self.levels["area_high"], self.levels["area_low"] - self.levels["moment"]
        before = np.minimum(at_ps, self.free_at) - self.levels["since_ps"]
        behind = np.maximum(at_ps - self.free_at, 0)
        for held, span in ((self.held, before), (self.after, behind)):
            high = high + held * (span >> AREA_BITS)
            low = low + held * (span & AREA_MASK)
        return high + (low >> AREA_BITS), low & AREA_MASK


def _queue_series(
    state: State, queues: Ints, n_traffic_classes: int, end_ps: Ints, now_ps: int
) -> dict[str, Any]:
    """Return per queue: totals at the interval ends; mean and maximum within intervals."""
    links, n = state.links, len(end_ps)
    if not queues.size or not n:
        names = (*COUNTED, "paused_ps", "max_bytes", "mean_bytes")
        return {name: np.zeros((n, queues.size), np.int64) for name in names}
    interval_ps = int(links.series_clock["interval_ps"][0])
    samples = np.asarray(links.samples).reshape(-1, queues.size)[:n]
    pending = _Pending(state, queues, n_traffic_classes, now_ps)
    closed = pending.levels["due_ps"] // interval_ps - 1
    open_ = np.arange(n)[:, None] >= closed
    at, begins = end_ps[:, None], np.arange(n)[:, None] * interval_ps

    def filled(name: str, now: Any) -> Ints:
        return np.where(open_, now, samples[name])

    port, cls = np.divmod(queues, n_traffic_classes)
    records = np.asarray(links.queues)[queues]
    paused = (np.asarray(links.ports["paused"])[port] >> cls) & 1
    found = {name: filled(name, records[name]) for name in COUNTED}
    found["paused_ps"] = filled(
        "paused_ps", records["paused_ps"] + paused * (at - records["paused_since"])
    )
    # The level at an interval's start counts too.
    holds = np.where(begins <= pending.free_at, pending.held, pending.after)
    peak = np.maximum(pending.levels["peak_bytes"], pending.held)
    now = np.where(np.arange(n)[:, None] == closed, peak, holds)
    found["max_bytes"] = filled("max_bytes", now)
    high, low = pending.area(at)
    high, low = _in_each(filled("area_high", high)), _in_each(filled("area_low", low))
    found["mean_bytes"] = _area(high, low) / (at - begins)
    return found


def _area(high: Ints, low: Ints) -> NDArray[np.float64]:
    """Return byte-picoseconds from the two parts."""
    return np.asarray(high * float(1 << AREA_BITS) + low, np.float64)


def _copies(state: State, end_ps: Ints) -> dict[int, Ints]:
    """Return int64[intervals, things, words] of each kind, in the order of indices."""
    links, hosts, n = state.links, state.hosts, len(end_ps)
    watched: Any = links.watched
    interval_ps = int(links.series_clock["interval_ps"][0])
    copies = links.copies[: n * len(watched)]
    copies = copies.reshape(n, len(watched), links.copies.shape[1])
    host_of = np.repeat(np.arange(len(links.series_due)), np.diff(links.first_watched))
    closed = links.series_due[host_of] // interval_ps - 1
    found, words = {}, np.asarray(links.watched_words)
    for kind, side in ((NIC, hosts.nics), (SENDER, hosts.tx), (RECEIVER, hosts.rx)):
        mine = np.flatnonzero(watched[:, 0] == kind)
        mine = mine[np.argsort(watched[mine, 1], kind="stable")]
        records: Any = np.ascontiguousarray(np.asarray(side)[watched[mine, 1]])
        now = records.view(np.int64).reshape(mine.size, records.itemsize // 8)[:, words[kind]]
        written = np.arange(n)[:, None, None] < closed[mine][None, :, None]
        found[kind] = np.where(written, copies[:, mine], now[None])
    return found


def queue_levels(state: State, n_traffic_classes: int, now_ps: int) -> QueueLevels:
    """Return mean and percentile of every switch queue up to now. Changes nothing."""
    links = state.links
    n_ports = links.level_of.size
    mean = np.zeros(n_ports * n_traffic_classes)
    p99 = np.zeros(mean.size, np.int64)
    leaving = np.flatnonzero(links.level_of >= 0)
    queues = (leaving[:, None] * n_traffic_classes + np.arange(n_traffic_classes)).reshape(-1)
    if not queues.size or now_ps == 0:
        return QueueLevels(mean, p99)
    pending = _Pending(state, queues, n_traffic_classes, now_ps)
    mean[queues] = _area(*pending.area(np.full(queues.size, now_ps))) / now_ps
    largest = state.links.queues["max_bytes"][queues]
    spans = (pending.free_at - pending.levels["since_ps"], now_ps - pending.free_at)
    for k, queue in enumerate(queues.tolist()):
        first = int(pending.levels["first_bin"][k])
        times = np.array(links.level_times[first : first + BINS])
        for held, span in zip((pending.held, pending.after), spans, strict=True):
            times[bin_of(int(held[k]))] += span[k]
        # A run is shorter than 2**56 ps: a hundred times that fits an int64.
        reached = 100 * np.cumsum(times) >= PER_HUNDRED * now_ps
        p99[queue] = min(middle_of(int(np.argmax(reached))), int(largest[k]))
    return QueueLevels(mean, p99)


def middle_of(number: int) -> int:
    """Return the middle level of a bin, in bytes."""
    if number < 1 << EXACT_BITS:
        return number
    power, step = divmod(number - (1 << EXACT_BITS), 1 << STEP_BITS)
    power += EXACT_BITS - STEP_BITS
    first = ((1 << STEP_BITS) + step) << power
    return first + ((1 << power) - 1) // 2
