"""Timelines as Perfetto traces (open https://ui.perfetto.dev, which processes them locally).

Every rank is a process, with a track per row of the timeline. Overlapping slices of a row use
several tracks with its name. Arrows lead from a message's send to its receive, and the critical
path is its own process. With samples (`[outputs] sample_interval`), counters show the largest queue
of each interval at the ports with the longest queues. Perfetto counts nanoseconds: times are
rounded down, and the arguments of a slice have the exact ones (`start_ps`, `duration_ps`).

The file is a `Trace` message of Perfetto's protobuf format, with the field numbers of
`protos/perfetto/trace/trace_packet.proto` and `track_event/` next to it.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from netsim.common.writing import replacing_file
from netsim.errors import InputError
from netsim.workloads.plots.timeline_bars import LOWER, PLACES, Timeline, View, timeline_of

if TYPE_CHECKING:
    from netsim.results import Result
    from netsim.workloads.tracing.critical_path import CriticalPath

ENDING = ".pftrace"

PACKET, TIMESTAMP, SEQUENCE, FLAGS, EVENT, DESCRIPTOR = 1, 8, 10, 13, 11, 60
"""Field of a Trace with packets, and fields of a TracePacket."""

UUID, NAME, PROCESS, PARENT, ORDERING, RANK = 1, 2, 3, 5, 11, 12
"""Fields of a TrackDescriptor. EXPLICIT is an ordering: by rank among siblings."""
PROCESS_ID, PROCESS_NAME, EXPLICIT = 1, 6, 3

ANNOTATION, TYPE, TRACK, CATEGORY, TITLE, FLOW, LAST_OF_FLOW = 4, 9, 11, 22, 23, 47, 48
"""Fields of a TrackEvent, and its types SLICE_BEGIN and SLICE_END."""
SLICE_BEGIN, SLICE_END = 1, 2
ANNOTATION_NAME, ANNOTATION_INT = 10, 4

COUNTER, UNIT, SHARED_AXIS, SIZE_BYTES = 8, 3, 7, 3
"""Field of a TrackDescriptor for counters, fields of a CounterDescriptor, and a unit."""
COUNTED, VALUE = 4, 30
"""Type of a TrackEvent that sets a counter, and the field of its value."""

QUEUES = 32
"""Most queues, those that grew longest."""

CLEARED = 1
"""Flag of the first packet: the sequence has no earlier state."""


class Slice(NamedTuple):
    """A slice of a track; `message` is -1 without one."""

    start_ps: int
    end_ps: int
    name: str
    category: str
    arguments: dict[str, int]
    message: int = -1
    receives: bool = False


def write_trace(results: Sequence[Result], view: View, path: Path) -> Path:
    """Write the timeline of one run to `path`, and return it."""
    found = timeline_of(results, view)
    try:
        with replacing_file(path) as file:
            for packet in _packets(found, view.path, _queues(results[0], found)):
                file.write(packet)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file=str(path)) from error
    return path


def _packets(
    found: Timeline, path: CriticalPath | None, queues: Mapping[str, Queue]
) -> Iterator[bytes]:
    """Yield the packets of the file.

    Packets of equal time keep the order of the file, and an arrow must begin before it ends:
    receives come last.
    """
    yield _packet(_number(SEQUENCE, 1) + _number(FLAGS, CLEARED))
    tracks = _Tracks()
    if path is not None:
        yield from tracks.process("critical path")
        yield from tracks.row("critical path", _pieces(path, found))
    of_row = found.bars.partition_by("row", as_dict=True)
    received: list[bytes] = []
    last = None
    for row in found.rows.iter_rows(named=True):
        if row["rank_name"] != last:
            last = row["rank_name"]
            yield from tracks.process(last)
        bars = of_row.get((row["row"],))
        slices = [] if bars is None else [_bar(bar) for bar in bars.iter_rows(named=True)]
        yield from tracks.row(row["name"], [one for one in slices if not one.receives])
        received += tracks.row(f"{row['name']}, received", [one for one in slices if one.receives])
    if queues:
        yield from tracks.process("largest queues (bytes)")
        for name, values in queues.items():
            yield from tracks.counter(name, values)
    yield from received


Queue = Sequence[tuple[int, int]]
"""Times in ps, and the bytes from then on."""


def _queues(result: Result, found: Timeline) -> dict[str, Queue]:
    """Return the sampled queues of a run in the visible time, the longest first."""
    import polars as pl

    series = result.series
    if series is None or "max_queue_bytes" not in series.columns:
        return {}
    of_ports = series.filter(pl.col("entity").cast(pl.String) == "port").with_columns(
        start_ps=pl.col("time_ps") - pl.col("interval_ps")
    )
    seen = of_ports.filter(
        pl.col("start_ps") < found.to_ps, pl.col("time_ps") > found.from_ps
    ).drop_nulls("max_queue_bytes")
    columns = "name", "traffic_class"
    longest = (
        seen.group_by(columns, maintain_order=True)
        .agg(pl.col("max_queue_bytes").max().alias("longest"))
        .filter(pl.col("longest") > 0)
        .sort("longest", descending=True, maintain_order=True)
        .head(QUEUES)
    )
    queues: dict[str, Queue] = {}
    for name, traffic_class, _ in longest.rows():
        mine = seen.filter(name=name, traffic_class=traffic_class).sort("time_ps")
        values = mine.select("start_ps", "max_queue_bytes").rows()
        queues[f"{name}, class {traffic_class}"] = [*values, (mine["time_ps"][-1], 0)]
    return queues


def _bar(bar: Mapping[str, Any]) -> Slice:
    message = -1 if bar["message"] is None else bar["message"]
    number = {"number": bar["number"]}
    receives = bar["place"] == PLACES.index(LOWER)
    times = bar["start_ps"], bar["end_ps"]
    return Slice(*times, bar["name"], bar["category"], number, message, receives=receives)


def _pieces(path: CriticalPath, found: Timeline) -> list[Slice]:
    """Return the visible segments of a critical path that took time."""
    slices = []
    for one in path.segments.iter_rows(named=True):
        begin, end = one["start_ps"], one["end_ps"]
        if begin < end and begin < found.to_ps and end > found.from_ps:
            where = f"h{one['host']}" + (f" to h{one['to']}" if one["to"] is not None else "")
            name = " ".join(filter(None, (one["segment_type"], one["kind"], one["label"], where)))
            slices.append(Slice(begin, end, name, one["segment_type"], {"segment": one["segment"]}))
    return slices


class _Tracks:
    """Tracks, numbered in order."""

    def __init__(self) -> None:
        self.n = 0
        self.parent = 0
        self.processes = 0
        self.rows = 0

    def _new(self, fields: bytes) -> bytes:
        self.n += 1
        return _packet(_number(SEQUENCE, 1) + _message(DESCRIPTOR, _number(UUID, self.n) + fields))

    def process(self, name: str) -> Iterator[bytes]:
        """Start a process; its rows follow."""
        self.processes += 1
        fields = _number(PROCESS_ID, self.processes) + _message(PROCESS_NAME, name.encode())
        yield self._new(_message(PROCESS, fields) + _number(ORDERING, EXPLICIT))
        self.parent, self.rows = self.n, 0

    def counter(self, name: str, values: Queue) -> Iterator[bytes]:
        """Write a counter; all of them have the same scale."""
        unit = _number(UNIT, SIZE_BYTES) + _message(SHARED_AXIS, b"queue")
        fields = _message(NAME, name.encode()) + _number(PARENT, self.parent)
        yield self._new(fields + _message(COUNTER, unit))
        for time_ps, value in values:
            fields = _number(TYPE, COUNTED) + _number(TRACK, self.n) + _number(VALUE, value)
            yield _event(time_ps, fields)

    def row(self, name: str, slices: Sequence[Slice]) -> Iterator[bytes]:
        """Write a row, in as many tracks as its slices need."""
        self.rows += 1
        for lane in lanes(slices):
            fields = _message(NAME, name.encode()) + _number(PARENT, self.parent)
            yield self._new(fields + _number(RANK, self.rows))
            for one in lane:
                yield from _slice(self.n, one)


def lanes(slices: Sequence[Slice]) -> list[list[Slice]]:
    """Assign slices to lanes without overlap, each to the first free one, sorted by time."""
    found: list[list[Slice]] = []
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    for one in sorted(slices, key=lambda one: (one.start_ps, one.end_ps)):
        while busy and busy[0][0] <= one.start_ps:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if not free:
            free.append(len(found))
            found.append([])
        lane = heapq.heappop(free)
        found[lane].append(one)
        heapq.heappush(busy, (one.end_ps, lane))
    return found


def _slice(track: int, one: Slice) -> Iterator[bytes]:
    exact = {"start_ps": one.start_ps, "duration_ps": one.end_ps - one.start_ps, **one.arguments}
    fields = _number(TYPE, SLICE_BEGIN) + _number(TRACK, track)
    fields += _message(TITLE, one.name.encode()) + _message(CATEGORY, one.category.encode())
    for name, value in exact.items():
        annotation = _message(ANNOTATION_NAME, name.encode()) + _number(ANNOTATION_INT, value)
        fields += _message(ANNOTATION, annotation)
    if one.message >= 0:
        fields += _fixed64(LAST_OF_FLOW if one.receives else FLOW, one.message + 1)
    yield _event(one.start_ps, fields)
    yield _event(one.end_ps, _number(TYPE, SLICE_END) + _number(TRACK, track))


def _event(time_ps: int, fields: bytes) -> bytes:
    head = _number(TIMESTAMP, time_ps // 1000) + _number(SEQUENCE, 1)
    return _packet(head + _message(EVENT, fields))


def _packet(fields: bytes) -> bytes:
    return _message(PACKET, fields)


def _varint(value: int) -> bytes:
    """Encode a varint."""
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _fixed64(field: int, value: int) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<Q", value)
