"""Read-only views, counts and series of a simulation.

Per-flow data are views of the engine's arrays, so even a run of a million flows can be read several
times a second. Everything else is counted or copied on request. Unchanged objects write no samples
of series (`kernels/series.py`); `read_series` fills them in from the current state.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.engine.compiling.declarations import Program, Protocol
from netsim.engine.kernels import fields, layout, series
from netsim.engine.kernels.fields import FlowId
from netsim.engine.kernels.layout import fields_of
from netsim.engine.kernels.packets import PFC
from netsim.engine.series import RX_WORDS, TX_WORDS
from netsim.engine.snapshot import in_queues, not_accepted, on_links, rows_written
from netsim.engine.state import State
from netsim.frozen import frozen
from netsim.limits import CLASSES, HORIZON_PS
from netsim.model.columns import Ints
from netsim.model.fabric import Fabric
from netsim.model.network import Network
from netsim.model.sampling import Sampling
from netsim.model.workload import TaskTable


class Status(IntEnum):
    """Why `Engine.advance` returned."""

    RUNNING = layout.RUNNING  # all requested windows are simulated, or a trace must be drained
    DONE = layout.DONE  # every flow is delivered, and its sender knows
    IDLE = layout.IDLE  # no events are left: no packet is in flight and no timer is set
    TIME_LIMIT = layout.TIME_LIMIT  # the time limit is reached


@frozen
class Counts:
    """Progress of a run, up to `now_ps`.

    `delivered` and `finished` count flows; the sender of a finished flow knows that it is
    delivered. `tasks_done` includes tasks by which flows wait. `payload_bytes` were delivered to
    applications; `hops` are packets that crossed a link, including control packets and PFC frames.
    """

    now_ps: int
    windows: int
    hops: int
    delivered: int
    finished: int
    payload_bytes: int
    tasks_done: int = 0


@frozen
class FlowStates:
    """The flows: read-only views, int64[n_flows], that change as the engine runs.

    Times are -1 until known. `waits_for` is the number of other flows (or 1 for a task) that must
    be done before a flow starts; until then its `start_ps` is the delay after that.
    """

    size_bytes: Ints  # from the table, or set by the program
    start_ps: Ints
    waits_for: Ints
    done_ps: Ints  # the receiver has every byte
    acked_ps: Ints  # the sender knows
    finished: Ints  # 1 once it does, or has given up
    received_bytes: Ints  # payload delivered to the application
    sent_packets: Ints  # data packets, including retransmissions
    retransmits: Ints  # data packets whose number was sent before
    traffic_class: Ints  # class of its data
    base_rtt_ps: Ints  # full data packet out, control packet back, unloaded


OF_RECEIVERS = ("done_ps", "received_bytes")
FLOW_COLUMNS = {one.name for one in dataclasses.fields(FlowStates)} - {"traffic_class"}


@frozen
class TaskStates:
    """The tasks in table order: copies, int64[n_tasks], -1 where a time is unknown.

    A task is ready when the tasks that it waits for are done. It then starts once its stream is
    free, its flow is delivered, or its program starts it. For a task that ran several times: the
    first start, the last end (-1 while it runs), the completed ``runs`` and their total
    ``busy_ps``.
    """

    ready_ps: Ints
    start_ps: Ints
    end_ps: Ints
    runs: Ints
    busy_ps: Ints


@frozen
class SlotStates:
    """Slots of phase-driven circuit switches: copies, int64[n_slots], -1 where a time is unknown.

    A slot's reconfiguration starts at ``begin_ps``, and its circuits are up from ``up_ps``. It
    waits for ``waits_for`` undelivered flows of its phase; ``done_ps`` is the last delivery so far.
    """

    begin_ps: Ints
    up_ps: Ints
    done_ps: Ints
    waits_for: Ints


@frozen
class LinkCounters:
    """Link counters: copies, int64, at port * n_traffic_classes + class.

    Sent packets and bytes count from the start of transmission. `queue_bytes` includes the packet
    in transmission. Unroutable packets came in by the port and had no route. `pfc_pauses` counts
    pauses that the port requested; `paused_ps` is how long the neighbor paused the port.
    """

    sent_packets: Ints
    sent_bytes: Ints
    queue_bytes: Ints
    max_queue_bytes: Ints
    drops: Ints
    drop_bytes: Ints
    trims: Ints
    trim_bytes: Ints
    ecn_marks: Ints
    lost_packets: Ints
    lost_bytes: Ints
    no_circuit_packets: Ints  # included in lost
    no_circuit_bytes: Ints
    unroutable_packets: Ints
    unroutable_bytes: Ints
    replays: Ints
    replay_bytes: Ints
    pfc_pauses: Ints
    paused_ps: Ints


@frozen
class Account:
    """Where the packets or wire bytes sent by hosts or made by switches ended up. `lost` on links,
    `unroutable` at switches without a route, `trimmed` bytes cut off (0 for packets)."""

    sent: int
    received: int
    dropped: int
    lost: int
    unroutable: int
    trimmed: int
    in_flight: int

    @property
    def missing(self) -> int:
        """Difference from the sent packets: 0 unless netsim has a bug."""
        gone = self.dropped + self.lost + self.unroutable + self.trimmed
        return self.sent - self.received - gone - self.in_flight


@frozen
class Conservation:
    """Accounts of packets and bytes, without PFC frames."""

    packets: Account
    bytes: Account


def counts(state: State) -> Counts:
    """Return the progress of the run."""
    clock = state.clock.clock[0]
    counted = {one.name: int(clock[one.name]) for one in dataclasses.fields(Counts)[1:]}
    return Counts(now_ps=int(clock["w1"]), **counted)


def idle_ps(state: State) -> int:
    """Return the end of a run that has no events left (MODEL.md)."""
    clock, ports = state.clock.clock[0], np.asarray(state.links.ports)
    is_known = ports["free_at"] < HORIZON_PS  # other ports wait forever
    arrivals = (ports["free_at"] + ports["delay_ps"])[is_known]
    others = (
        np.asarray(state.hosts.nics)["now_ps"],
        np.asarray(state.hosts.host_ports)["last_arrival"],
        np.asarray(state.links.switches)["late_ps"],
    )
    ends = [times.max(initial=0) for times in (arrivals, *others)]
    last_ps = max(*ends, clock["last_done_ps"])
    return int(last_ps + clock["ending_ps"])


def flow_states(state: State) -> FlowStates:
    """Return the state of each flow."""
    tx, rx = np.asarray(state.hosts.tx), np.asarray(state.hosts.rx)
    views = {name: (rx if name in OF_RECEIVERS else tx)[name] for name in FLOW_COLUMNS}
    views["traffic_class"] = tx["prio"]
    for view in views.values():
        view.flags.writeable = False
    return FlowStates(**views)


def _in_flight(state: State) -> tuple[int, int]:
    """Return the packets and bytes on links and in queues, without PFC frames."""
    slots = np.concatenate((on_links(state), in_queues(state)))
    pkts = np.concatenate((state.links.pool[slots], state.links.kept[not_accepted(state)]))
    real = pkts["kind"] < PFC
    return int(real.sum()), int(pkts["size_bytes"][real].sum(dtype=np.int64))


COUNTERS = (
    *("sent_packets", "sent_bytes", "drops", "drop_bytes", "trims", "trim_bytes"),
    *("ecn_marks", "pfc_pauses"),
)
"""Fields of queues that link counters and a digest have."""


SAME = {
    "ports": (("free_at", "tail"), fields.PortRecord),
    # Not "bytes": an idle port settles its last packet only when next visited.
    "queues": (("max_bytes", *COUNTERS, "paused_since", "paused_ps"), fields.QueueRecord),
    "switches": ((), fields.SwitchRecord),
    "nics": (
        ("sent_packets", "sent_bytes", "received_packets", "received_bytes"),
        fields.HostRecord,
    ),
    "tx": (("start_ps", "acked_ps", "sent_packets", "retransmits"), fields.TxRecord),
    "rx": (("done_ps", "received_bytes"), fields.RxRecord),
    "tasks": (("ready_ps", "start_ps", "end_ps"), fields.ProgramTaskRecord),
    "program_hosts": ((), fields.ProgramHostRecord),
}
"""Engine fields in a digest; all fields of plugins are in it too."""


class StateViews:
    """Views of an engine's state (`Engine` inherits it)."""

    state: State
    fabric: Fabric
    tasks: TaskTable | None
    protocol: Protocol
    program: Program

    @property
    def counts(self) -> Counts:
        """Return the progress of the run."""
        return counts(self.state)

    @property
    def now_ps(self) -> int:
        """Simulated time up to which all events are processed."""
        return self.counts.now_ps

    def flow_states(self) -> FlowStates:
        """Return the state of each flow, as views that follow the run."""
        return flow_states(self.state)

    def own_names(self, flow: int) -> Mapping[str, str]:
        """Return the record names of fields that a flow's transport names differently."""
        return self.protocol.own_names[int(np.asarray(self.state.hosts.tx)["transport"][flow])]

    def task_states(self) -> TaskStates:
        """Return when each task was ready, started and was done."""
        records: Any = np.asarray(self.state.hosts.tasks)
        found = {name: records[name] for name in ("ready_ps", "start_ps", "end_ps")}
        if "runs" in records.dtype.names:
            found |= {name: records[name] for name in ("runs", "busy_ps")}
            found["start_ps"] = np.where(
                records["runs"] > 0, records["first_start_ps"], records["start_ps"]
            )
        else:
            done = records["end_ps"] >= 0
            found["runs"] = done.astype(np.int64)
            found["busy_ps"] = np.where(done, records["end_ps"] - records["start_ps"], 0)
        numbered = {}
        for name, column in found.items():
            numbered[name] = np.empty(records.size, np.int64)
            numbered[name][records["number"]] = column
        # Tasks that the engine added for flows come last.
        n_tasks = 0 if self.tasks is None else len(self.tasks)
        return TaskStates(**{name: column[:n_tasks] for name, column in numbered.items()})

    def program_log(self) -> dict[str, Ints] | None:
        """Return the program's log, or None without one: int64 columns for host, time and ``LOG``.
        Rows are in the order of hosts, then of calls."""
        if not self.program.log:
            return None
        hosts: Any = np.asarray(self.state.hosts.program_hosts)
        rows = self.state.hosts.log[rows_written(self.state)]
        table = {"host": np.repeat(hosts["host"], hosts["next_row"] - hosts["first_row"])}
        for k, name in enumerate(("time_ps", *self.program.log)):
            table[name] = np.ascontiguousarray(rows[:, k])
        return table

    def program_total(self, name: str) -> int:
        """Return a field of the program's ``HOST_STATE``, summed over all hosts."""
        return int(self.state.hosts.program_hosts[name].sum())

    def slot_states(self) -> SlotStates:
        """Return when each slot of phase-driven circuit switches began, as far as known."""
        records: Any = np.asarray(self.state.clock.slots)
        known = np.arange(records.size) <= self.state.clock.clock["slot"][0]
        begin_ps, up_ps = (np.where(known, records[name], -1) for name in ("begin_ps", "up_ps"))
        done_ps = np.where(records["done_ps"] > 0, records["done_ps"], -1)
        return SlotStates(begin_ps, up_ps, done_ps, records["waits_for"].copy())

    def link_counters(self) -> LinkCounters:
        """Return the counters of every link and class."""
        queues, losses = self.state.links.queues, self.state.links.losses
        n = queues.shape[0]
        port, cls = np.divmod(np.arange(n), self.fabric.n_link_classes)
        paused_ps = np.array(queues["paused_ps"])
        still = (self.paused_classes()[port] >> cls) & 1 == 1
        now_ps = self.now_ps
        paused_ps[still] += now_ps - queues["paused_since"][still]
        ports = np.asarray(self.state.links.ports)[port]
        ended = (ports["tx_bytes"] > 0) & (ports["free_at"] < now_ps) & (ports["tx_class"] == cls)
        # Without losses there is one record for all.
        names = losses.dtype.names or ()
        lost = {name: np.array(np.broadcast_to(losses[name], n)) for name in names}
        return LinkCounters(
            **{name: np.array(queues[name]) for name in COUNTERS},
            max_queue_bytes=np.array(queues["max_bytes"]),
            queue_bytes=queues["bytes"] - np.where(ended, ports["tx_bytes"], 0),
            lost_packets=lost.pop("packets"),
            lost_bytes=lost.pop("bytes"),
            **lost,
            paused_ps=paused_ps,
        )

    def class_fields(self, *names: str) -> dict[str, Ints] | None:
        """Return copies of fields of the discipline's CLASS_STATE, at port * n_traffic_classes +
        class; None if it lacks the first."""
        queues = np.asarray(self.state.links.queues)
        if names[0] not in (queues.dtype.names or ()):
            return None
        return {name: np.array(queues[name]) for name in names}

    def control_counts(self) -> dict[str, int]:
        """Return how many control packets senders received: acks, nacks, pulls."""
        nics = self.state.hosts.nics
        return {kind: int(nics[f"received_{kind}"].sum()) for kind in ("acks", "nacks", "pulls")}

    def arrivals(self) -> tuple[int, int]:
        """Return how many packets arrived at hosts, and how many links these crossed."""
        nics = self.state.hosts.nics
        return int(nics["received_packets"].sum()), int(nics["received_hops"].sum())

    def paused_classes(self) -> Ints:
        """Return int64[n_ports]: bit c is set if the neighbor has paused class c of the port."""
        return np.array(self.state.links.ports["paused"])

    def waiting_classes(self) -> Ints:
        """Return int64[n_ports]: bit c is set if packets of class c wait at the switch port."""
        return np.array(self.state.links.ports["backlog"])

    def indirect_packets(self) -> int:
        """Return the number of packets that switch ports sent for other ports."""
        return int(self.state.links.switches["n_indirect"].sum())

    def conservation(self) -> Conservation:
        """Account for every packet and byte."""
        nics, links = self.state.hosts.nics, self.state.links
        queues, losses = links.queues, links.losses

        def account(unit: str, drops: str, in_flight: int) -> Account:
            return Account(
                sent=int(nics[f"sent_{unit}"].sum() + links.switches[f"made_{unit}"].sum()),
                received=int(nics[f"received_{unit}"].sum()),
                dropped=int(queues[drops].sum()),
                lost=int(losses[unit].sum()),
                unroutable=int(losses[f"unroutable_{unit}"].sum()),
                trimmed=int(queues["trim_bytes"].sum()) if unit == "bytes" else 0,
                in_flight=in_flight,
            )

        in_flight_packets, in_flight_bytes = _in_flight(self.state)
        return Conservation(
            packets=account("packets", "drops", in_flight_packets),
            bytes=account("bytes", "drop_bytes", in_flight_bytes),
        )

    def fixed_fields(self) -> dict[str, np.ndarray]:
        """Return copies of the constant fields of flows, by names such as "tx.host"."""
        kinds = layout.annotated(fields.FlowRecord).items()
        fixed = [name for name, kind in kinds if kind.startswith("Fixed")]
        sides: dict[str, Any] = {"tx": self.state.hosts.tx, "rx": self.state.hosts.rx}
        return {
            f"{side}.{name}": np.array(array[name])
            for side, array in sides.items()
            for name in (*fixed, "size_bytes", "n_packets", "last_bytes")
        }

    def flow_state(self, flow: int) -> dict[str, dict[str, int | float]]:
        """Return the fields that the transport declares of both sides of a flow, and the deadlines
        in ps of the armed timers by number: {"sender": ..., "receiver": ..., "timers": ...}."""
        hosts = self.state.hosts
        found: dict[str, dict[str, int | float]] = {}
        armed: dict[str, int | float] = {}
        for side, array, base in (
            ("sender", hosts.tx, fields_of(fields.TxRecord)),
            ("receiver", hosts.rx, fields_of(fields.RxRecord)),
        ):
            row: Any = array[FlowId(flow)]
            own = [name for name in array.dtype.names or () if name not in base]
            found[side] = {name: row[name] + 0 for name in own if np.ndim(row[name]) == 0}
            first = int(row["first_timer"])
            timers = hosts.timers[first : first + layout.TIMERS_OF_A_KIND]
            owned = (timers["owner"] == flow) & (timers["code"] >= layout.TIMER_TX)
            for timer in timers[owned & (timers["deadline"] < layout.INF)]:
                number = int(timer["code"]) % layout.TIMERS_OF_A_KIND
                armed[f"{side} {number}"] = int(timer["deadline"])
        return {**found, "timers": armed}

    def digest(self) -> str:
        """Return a hash of the final flows, plugin fields, and counters of hosts and links. It does
        not depend on windows, threads, or whether the code is compiled."""
        parts: list[tuple[Any, Sequence[str]]] = [(self.state.clock.clock, ("hops",))]
        arrays = {**self.state.links._asdict(), **self.state.hosts._asdict()}
        for name, (engines, record) in SAME.items():
            array, base = arrays[name], fields_of(record)
            own = [field for field in array.dtype.names if field not in base]
            parts.append((array, (*engines, *own)))
        hashed = hashlib.sha256()
        for array, names in parts:
            for name in names:
                hashed.update(np.ascontiguousarray(array[name]).tobytes())
        hashed.update(self.state.hosts.log[rows_written(self.state)].tobytes())
        return hashed.hexdigest()


@frozen
class Pauses:
    """Pauses between windows; ports and their classes as port * n_queues + class."""

    n_queues: int  # queues of a port, one for each class (and level)
    # bool[n_ports * classes], the neighbor pauses the class, and the port does not send
    is_stopped: NDArray[np.bool_]
    since_ps: Ints  # int64[n_ports * classes], since when, if stopped
    # came_by, leaves_by: int64[n], of each packet that waits at a switch: where it counts at the
    # port by which it came, and where it waits
    came_by: Ints
    leaves_by: Ints
    size_bytes: Ints  # int64[n], of these packets


def pauses(state: State) -> Pauses | None:
    """Return the pauses, None if the queue discipline does not know a packet's ingress port."""
    links = state.links
    if links.origins.shape[0] <= 1:
        return None
    ports, queues, pool = (np.asarray(one) for one in (links.ports, links.queues, links.pool))
    n_queues = queues.size // ports.size
    cls = np.arange(n_queues)
    is_paused = ports["paused"][:, None] >> cls & 1 == 1
    # Without a request there, a frame that ends the pause is on its way.
    asks = ports["pause_requested"][np.asarray(state.net.port_peer)][:, None] >> cls & 1 == 1
    sends = (ports["tx_bytes"] > 0) & (ports["free_at"] >= counts(state).now_ps)
    stopped = is_paused & asks & ~sends[:, None]
    leaves_by = np.repeat(np.arange(queues.size), queues["tail"] - queues["head"])
    slots = in_queues(state)
    node = np.asarray(state.net.port_node)[leaves_by // n_queues]
    port, cls = np.divmod(np.asarray(links.origins)[slots], CLASSES)
    came_by = np.asarray(state.net.first_port)[node] + port
    return Pauses(
        n_queues=n_queues,
        is_stopped=stopped.reshape(-1),
        since_ps=np.array(queues["paused_since"]),
        came_by=came_by * n_queues + cls,
        leaves_by=leaves_by,
        size_bytes=pool["size_bytes"][slots].astype(np.int64),
    )


# --- measured windows -----------------------------------------------------------------------------

OF_QUEUES = ("sent_packets", "sent_bytes", "drops", "trims", "ecn_marks", "pfc_pauses", "paused_ps")
"""Counters of links and classes (`LinkCounters`) that are read."""


def packets_of(received_bytes: Ints, payload_bytes: int) -> Ints:
    """Return the number of packets that carried a flow's payload; all except one are full."""
    return -(-received_bytes // payload_bytes)


class Readings:
    """Counters of hosts and links at the first and the last edge of a window, and the data that
    each group of flows has received by every edge.

    Attributes:
        edges_ps: int64[k + 1], the edges of k batches, rising.
        n_taken: int64[1], edges that have been read.
        of_groups: int64[k + 1, 2, groups], payload received by the flows of each group, and the
            packets that it came in.
        received_bytes: int64[2, n_flows], payload of each flow.
        queues: int64[2, counters, links and classes], in the order of `OF_QUEUES`.
        arrivals: int64[2, 2], packets that arrived at hosts, and links that these crossed.
    """

    def __init__(
        self, edges_ps: Ints, group: Ints, n_groups: int, n_queues: int, payload_bytes: int
    ) -> None:
        """Prepare to read. `group` (int64[n_flows]) is each flow's group, below `n_groups`;
        `payload_bytes` is a full packet's payload."""
        self.edges_ps, self._group, self._payload_bytes = edges_ps, group, payload_bytes
        self.n_taken = np.zeros(1, np.int64)
        self.of_groups = np.zeros((edges_ps.size, 2, n_groups), np.int64)
        self.received_bytes = np.zeros((2, group.size), np.int64)
        self.queues = np.zeros((2, len(OF_QUEUES), n_queues), np.int64)
        self.arrivals = np.zeros((2, 2), np.int64)

    @property
    def next_ps(self) -> int | None:
        """The next edge, None once all have been read."""
        taken = int(self.n_taken[0])
        return int(self.edges_ps[taken]) if taken < self.edges_ps.size else None

    def take(self, engine: StateViews) -> None:
        """Read the counters of an engine that has simulated up to the next edge."""
        taken, received = int(self.n_taken[0]), engine.flow_states().received_bytes
        for k, counted in enumerate((received, packets_of(received, self._payload_bytes))):
            found = np.bincount(self._group, counted, self.of_groups.shape[2])
            self.of_groups[taken, k] = found  # exact: less than 2**53
        if taken in (0, self.edges_ps.size - 1):
            end = int(taken > 0)
            self.received_bytes[end] = received
            counters = engine.link_counters()
            self.queues[end] = [getattr(counters, name) for name in OF_QUEUES]
            self.arrivals[end] = engine.arrivals()
        self.n_taken += 1

    def in_window(self, name: str) -> Ints:
        """Return the growth of a counter of `OF_QUEUES` in the window, for each link and class."""
        first, last = self.queues[:, OF_QUEUES.index(name)]
        found: Ints = last - first
        return found

    def arrays(self) -> dict[str, Ints]:
        """Return the arrays that a checkpoint saves, by name."""
        left_out = ("edges_ps", "_group", "_payload_bytes")
        return {name: array for name, array in vars(self).items() if name not in left_out}

    def restore(self, saved: Mapping[str, Ints]) -> None:
        """Restore these arrays. Raises ValueError if they come from other readings."""
        own = self.arrays()
        if saved.keys() != own.keys():
            raise ValueError("other readings")
        for name, array in own.items():
            if saved[name].shape != array.shape:
                raise ValueError(f"{name} has another shape")
            array[:] = saved[name]
        if not 0 <= self.n_taken[0] <= self.edges_ps.size:
            raise ValueError("n_taken is out of range")


# --- series ---------------------------------------------------------------------------------------

PER_HUNDRED = 99  # percentile of queue levels that is reported
COUNTED = ("sent_bytes", "drops", "trims", "ecn_marks")  # counters of queues in series


@frozen
class Sampled:
    """Series of some things, by column: int64[intervals, things] except means and fields.

    Things are port classes (``port * n_traffic_classes + class``), hosts or flows. ``tx.NAME`` and
    ``rx.NAME`` are fields of flows at an interval's end; other values count within the interval.
    """

    things: Ints
    values: dict[str, np.ndarray]


@frozen
class SeriesReading:
    """Series of a run up to now, as copies.

    Intervals end at `end_ps`, int64[intervals]; the last one ends now. The others last
    `interval_ps`: `first_interval_ps`, doubled as often as needed to save memory.
    """

    first_interval_ps: int
    interval_ps: int
    end_ps: Ints
    queues: Sampled
    hosts: Sampled
    flows: Sampled


@frozen
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
    of_queues = _queue_series(state, queues, n_traffic_classes, end_ps, now_ps)
    copies = _copies(state, end_ps)
    of_hosts = _in_each(_of_hosts(copies[series.NIC], sampling, network))
    of_flows = {
        "sent_bytes": _in_each(copies[series.SENDER][:, :, 0]),
        "delivered_bytes": _in_each(copies[series.RECEIVER][:, :, 0]),
    }
    for side, kind, first in (
        ("tx", series.SENDER, len(TX_WORDS)),
        ("rx", series.RECEIVER, len(RX_WORDS)),
    ):
        record: Any = np.asarray(getattr(state.hosts, side)).dtype
        names = [name for name in sampling.fields if name.startswith(f"{side}.")]
        for k, name in enumerate(names, first):
            values = np.ascontiguousarray(copies[kind][:, :, k])
            of_flows[name] = values.view(record[name.partition(".")[2]].base)
    host_columns = ("sent_bytes", "received_bytes", "delivered_bytes")
    return SeriesReading(
        sampling.interval_ps,
        interval_ps,
        end_ps,
        Sampled(queues, of_queues),
        Sampled(sampling.hosts, {name: of_hosts[:, :, k] for k, name in enumerate(host_columns)}),
        Sampled(sampling.flows, of_flows),
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
    The two differ if a transmission has ended that the engine has not processed yet."""

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
            high = high + held * (span >> series.AREA_BITS)
            low = low + held * (span & series.AREA_MASK)
        return high + (low >> series.AREA_BITS), low & series.AREA_MASK


def _queue_series(
    state: State, queues: Ints, n_traffic_classes: int, end_ps: Ints, now_ps: int
) -> dict[str, Any]:
    """Return per queue: mean and maximum in each interval, and counts."""
    links, n = state.links, len(end_ps)
    if not queues.size or not n:
        names = ("mean_queue_bytes", "max_queue_bytes", *COUNTED, "paused_ps")
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
    counted = {name: records[name] for name in COUNTED}
    counted["paused_ps"] = records["paused_ps"] + paused * (at - records["paused_since"])
    # The level at an interval's start counts too.
    holds = np.where(begins <= pending.free_at, pending.held, pending.after)
    peak = np.maximum(pending.levels["peak_bytes"], pending.held)
    now = np.where(np.arange(n)[:, None] == closed, peak, holds)
    high, low = pending.area(at)
    high, low = _in_each(filled("area_high", high)), _in_each(filled("area_low", low))
    return {
        "mean_queue_bytes": _area(high, low) / (at - begins),
        "max_queue_bytes": filled("max_bytes", now),
        **{name: _in_each(filled(name, value)) for name, value in counted.items()},
    }


def _area(high: Ints, low: Ints) -> NDArray[np.float64]:
    """Return byte-picoseconds from the two parts."""
    return np.asarray(high * float(1 << series.AREA_BITS) + low, np.float64)


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
    for kind, side in (
        (series.NIC, hosts.nics),
        (series.SENDER, hosts.tx),
        (series.RECEIVER, hosts.rx),
    ):
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
        times = np.array(links.level_times[first : first + series.BINS])
        for held, span in zip((pending.held, pending.after), spans, strict=True):
            times[series.bin_of(int(held[k]))] += span[k]
        # A run is shorter than 2**56 ps: a hundred times that fits an int64.
        reached = 100 * np.cumsum(times) >= PER_HUNDRED * now_ps
        p99[queue] = min(middle_of(int(np.argmax(reached))), int(largest[k]))
    return QueueLevels(mean, p99)


def middle_of(number: int) -> int:
    """Return the middle level of a bin, in bytes."""
    if number < 1 << series.EXACT_BITS:
        return number
    power, step = divmod(number - (1 << series.EXACT_BITS), 1 << series.STEP_BITS)
    power += series.EXACT_BITS - series.STEP_BITS
    first = ((1 << series.STEP_BITS) + step) << power
    return first + ((1 << power) - 1) // 2
