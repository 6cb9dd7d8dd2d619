"""Initial arrays of series, and merging of intervals. `kernels/series.py` writes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from netsim.engine.compiling.declarations import Protocol
from netsim.engine.kernels import layout
from netsim.engine.kernels.series import BINS_APART, NIC, RECEIVER, SENDER
from netsim.engine.records import aligned_zeros
from netsim.errors import InputError
from netsim.model.columns import Ints, offsets
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.model.sampling import MIN_INTERVALS, Sampling
from netsim.units import format_bytes

NIC_WORDS = ("sent_bytes", "received_bytes", "payload_bytes")
TX_WORDS = ("sent_bytes",)
RX_WORDS = ("received_bytes",)  # of a host and both sides of a flow, before requested fields


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
    return int(
        sampling.ports.size * n_traffic_classes * layout.SAMPLE.itemsize + 8 * width * watched
    )


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
    taken = int(levels) * n_traffic_classes * (layout.LEVEL.itemsize + bins)
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
    clock = np.zeros(1, layout.SERIES_CLOCK)
    clock["end_ps"] = layout.INF
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
    due = np.full(network.n_hosts, layout.INF, np.int64)
    if there:
        due[np.diff(first_watched) > 0] = clock["interval_ps"][0]
    bins = levels.size * BINS_APART if sampling.queues else 0
    return {
        "series_clock": clock,
        "level_of": level_of,
        "levels": levels,
        "samples": aligned_zeros(max(1, n * n_rows), layout.SAMPLE),
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
    levels = aligned_zeros(max(1, ports.size * n_traffic_classes), layout.LEVEL)
    levels["first_bin"] = np.arange(levels.size) * BINS_APART
    levels["due_ps"] = layout.INF
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
    return watched, offsets(counts)


def make_room(links: layout.LinkState, end_ps: int) -> None:
    """Double intervals until all up to ``end_ps``, the end of the run, fit."""
    while end_ps > links.series_clock["end_ps"][0]:
        thin(links)


def thin(links: layout.LinkState) -> None:
    """Double every interval by merging pairs."""
    clock = links.series_clock
    interval_ps = int(clock["interval_ps"][0])
    levels = links.levels
    samples = np.asarray(links.samples)
    n_rows = int(clock["n_rows"][0])
    if n_rows:
        sampled = np.flatnonzero(levels["due_ps"] < layout.INF)
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
    watching = due < layout.INF
    closed = due[watching] // interval_ps - 1
    due[watching] = (closed // 2 + 1) * 2 * interval_ps
    clock["interval_ps"] *= 2
    clock["end_ps"] *= 2
