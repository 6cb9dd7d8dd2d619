"""Read series: figures of queues, hosts and flows in each interval.

Unchanged objects write no samples (`kernels/series.py`); this fills them in from the current state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.engine.kernels.series import (
    AREA_BITS,
    AREA_MASK,
    BINS,
    EXACT_BITS,
    NIC,
    RECEIVER,
    SENDER,
    STEP_BITS,
    bin_of,
)
from netsim.engine.series import RX_WORDS, TX_WORDS
from netsim.engine.state import State
from netsim.model.network import Network
from netsim.model.sampling import Sampling

Ints = NDArray[np.int64]

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
