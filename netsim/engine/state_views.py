"""Read-only views and counts of a simulation.

Per-flow data are views of the engine's arrays, so even a run of a million flows can be read several
times a second. Everything else is counted or copied on request.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.engine.compiling.declarations import Program, Protocol
from netsim.engine.kernels import fields, layout
from netsim.engine.kernels.fields import FlowId
from netsim.engine.kernels.layout import fields_of
from netsim.engine.kernels.packets import PFC
from netsim.engine.occupancy import in_queues, on_links, rows_written
from netsim.engine.state import State
from netsim.limits import CLASSES, HORIZON_PS
from netsim.model.fabric import Fabric
from netsim.model.tasks import TaskTable

Ints = NDArray[np.int64]


class Status(IntEnum):
    """Why `Engine.advance` returned."""

    RUNNING = layout.RUNNING
    """All requested windows are simulated, or a trace must be drained."""
    DONE = layout.DONE
    """Every flow is delivered, and its sender knows."""
    IDLE = layout.IDLE
    """No events are left: no packet is in flight and no timer is set."""
    TIME_LIMIT = layout.TIME_LIMIT
    """The time limit is reached."""


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class SlotStates:
    """Slots of phase-driven circuit switches: copies, int64[n_slots], -1 where a time is unknown.

    A slot's reconfiguration starts at ``begin_ps``, and its circuits are up from ``up_ps``. It
    waits for ``waits_for`` undelivered flows of its phase; ``done_ps`` is the last delivery so far.
    """

    begin_ps: Ints
    up_ps: Ints
    done_ps: Ints
    waits_for: Ints


@dataclass(frozen=True)
class LinkCounters:
    """Link counters: copies, int64, at port * n_traffic_classes + class.

    Sent packets and bytes count from the start of transmission. `queue_bytes` includes the packet
    in transmission. Unroutable packets came in by the port and had no route. `pfc_pauses` are those
    that the port requested; `paused_ps` is how long the neighbor paused the port.
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
    pfc_pauses: Ints
    paused_ps: Ints


@dataclass(frozen=True)
class Account:
    """Where the packets, or wire bytes, sent by hosts ended up. `lost` on links, `unroutable` at
    switches without a route, `trimmed` bytes cut off (0 for packets)."""

    sent: int
    received: int
    dropped: int
    lost: int
    unroutable: int
    trimmed: int
    in_flight: int

    @property
    def missing(self) -> int:
        """Difference from what was sent: 0 unless netsim has a bug."""
        gone = self.dropped + self.lost + self.unroutable + self.trimmed
        return self.sent - self.received - gone - self.in_flight


@dataclass(frozen=True)
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
    events = np.asarray(state.hosts.nics)["now_ps"]
    late = np.asarray(state.hosts.host_ports)["last_arrival"]
    ends = (arrivals.max(initial=0), late.max(initial=0), events.max(initial=0))
    last_ps = max(*ends, clock["last_done_ps"])
    return int(last_ps + clock["ending_ps"])


def flow_states(state: State) -> FlowStates:
    """Return the state of each flow."""
    tx, rx = state.hosts.tx, state.hosts.rx
    return FlowStates(
        size_bytes=_view(tx, "size_bytes"),
        start_ps=_view(tx, "start_ps"),
        waits_for=_view(tx, "waits_for"),
        done_ps=_view(rx, "done_ps"),
        acked_ps=_view(tx, "acked_ps"),
        finished=_view(tx, "finished"),
        received_bytes=_view(rx, "received_bytes"),
        sent_packets=_view(tx, "sent_packets"),
        retransmits=_view(tx, "retransmits"),
        traffic_class=_view(tx, "prio"),
        base_rtt_ps=_view(tx, "base_rtt_ps"),
    )


def _view(records: Any, field: str) -> Ints:
    """Return a read-only view of a field of all records."""
    column = np.asarray(records)[field]
    column.flags.writeable = False
    return column


def _in_flight(state: State) -> tuple[int, int]:
    """Return the packets and bytes on links and in queues, without PFC frames."""
    slots = np.concatenate((on_links(state), in_queues(state)))
    pkts = state.links.pool[slots]
    real = pkts["kind"] != PFC
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
    """What an engine tells of its state (`Engine` inherits it)."""

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
        # Those that the engine added for flows come last.
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
                sent=int(nics[f"sent_{unit}"].sum()),
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


@dataclass(frozen=True)
class Pauses:
    """Pauses between windows; ports and their classes as port * n_queues + class.

    Attributes:
        n_queues: queues of a port, one for each class (and level).
        is_stopped: bool[n_ports * classes], the neighbor pauses the class, and the port does not
            send.
        since_ps: int64[n_ports * classes], since when, if stopped.
        came_by, leaves_by: int64[n], of each packet that waits at a switch: where it counts at the
            port by which it came, and where it waits.
        size_bytes: int64[n], of these packets.
    """

    n_queues: int
    is_stopped: NDArray[np.bool_]
    since_ps: Ints
    came_by: Ints
    leaves_by: Ints
    size_bytes: Ints


def pauses(state: State) -> Pauses | None:
    """Return the pauses, None if the queue discipline does not tell by which port a packet came."""
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
