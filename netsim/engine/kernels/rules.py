"""Rules that protect the engine's memory from handlers.

A transport or program that breaks a rule marks its host, whose step ends before the packet or timer
is used. A queue discipline or routing algorithm marks its switch, and its step uses something
harmless instead. Checked engines also find writes out of bounds.
"""

from __future__ import annotations

from netsim.engine.kernels.fields import HostRecord, SwitchRecord

(
    TOO_MANY_CONTROL,
    TOO_MANY_BYTES,
    UNKNOWN_CLASS,
    NO_TIMER,
    NO_BIT,
    NOT_CONTROL,
    NOT_DATA,
    NO_PACKET,
    ENDLESS,
    NO_SIZE,
    NOT_OPEN,
    NO_SUCH_INDEX,
    NOT_LATER,
    IDLE_PORT,
    ONLY_IN_ADMIT,
    ONLY_IN_CHOOSE_CLASS,
    IN_HAND,
    ENQUEUED_TWICE,
    LOST_TRACK,
    NO_TASK_THERE,
    UNDER_WAY,
    NOT_AGAIN,
    NO_DURATION,
    NO_ALARM,
    OVER_AND_OVER,
    NO_PAYLOAD,
    NO_COLUMNS,
    LOG_FULL,
    NO_SIZE_OF_ITS_OWN,
    TOO_LATE_FOR_SIZE,
    NO_SUCH_SIZE,
    NO_CANDIDATE,
    NO_LOCAL_PORT,
    NO_GROUP,
    NO_LEVEL,
    NO_KEY,
    NOT_HERE,
) = range(1, 38)

TEXTS = {
    TOO_MANY_CONTROL: "sent more control packets in one call than its host's FIFO has room for",
    TOO_MANY_BYTES: "delivered more bytes than the flow has: {value}",
    UNKNOWN_CLASS: "used traffic class {value}; the fabric has {n_traffic_classes}, counted from 0",
    NO_TIMER: "used timer {value}, which is not declared or not of this host",
    NOT_HERE: "sent for, delivered to or finished flow {value} at a host that is not its own",
    NO_BIT: "used bit {value} of a bitmap: no such packet, or the bitmap is not declared",
    NOT_CONTROL: "sent a control packet of kind {value}; send() is for kinds 2 to 14",
    NOT_DATA: "made a data packet of kind {value}; build_packet may choose DATA and kinds 2 to 7",
    NO_PACKET: "made data packet {value}, which the flow does not have",
    ENDLESS: "was called {value} times at one instant, by timers that are always set to now",
    NO_SIZE: "sent a control packet of {value} bytes: smaller than any other packet, or larger",
    NOT_OPEN: "chose class {value}, which has no packet to send",
    NO_SUCH_INDEX: "used index {value} of a queue, where no packet waits",
    NOT_LATER: "called wait_until with a time that is not in the future ({value} ps ago)",
    IDLE_PORT: "returned NO_CLASS without wait_until, although class {value} can be sent",
    ONLY_IN_ADMIT: "called pop_tail (only admit may)",
    ONLY_IN_CHOOSE_CLASS: "called wait_until (only choose_class may)",
    IN_HAND: "removed a packet from a queue and did not enqueue or drop it",
    ENQUEUED_TWICE: "enqueued two packets to class {value} for one arrival",
    LOST_TRACK: "enqueued or dropped a packet that it had not removed from a queue",
    NO_TASK_THERE: "used task {value}, but this host has fewer tasks",
    UNDER_WAY: "started or changed task {value} of this host, which has started and is not yet "
    "reported as done",
    NOT_AGAIN: "repeated task {value} of this host, which sends or receives a flow",
    NO_DURATION: "set the duration of a task to {value} ps (0 to 20 h; not for a join)",
    NO_ALARM: "used timer {value}, which is not declared in TIMERS, or set it beyond 20 h",
    OVER_AND_OVER: "was called {value} times at one instant, and keeps starting tasks",
    NO_COLUMNS: "logged a row of {value} numbers, but LOG has another number of columns",
    NO_SIZE_OF_ITS_OWN: "set the size of task {value}, which sends no flow or a relayed one",
    TOO_LATE_FOR_SIZE: "set the size of the flow of task {value} of this host, which has started",
    NO_CANDIDATE: "chose candidate {value}, which is not in the list",
    NO_LOCAL_PORT: "used port {value}, which its switch does not have",
    NO_KEY: "used key {value}, which PUBLISHED does not include",
    NO_LEVEL: "set level {value}, which LEVELS does not include",
    NO_GROUP: "used group {value}, which the network does not have",
    NO_SUCH_SIZE: "set a flow's size to {value} bytes (at least 1, at most its size in the table)",
    LOG_FULL: "logged more than {value} rows, the workload's log_rows for this host",
    NO_PAYLOAD: "trimmed a packet of kind {value}, which goes to a sender and has no payload",
}

MAX_FIRINGS, MAX_FIRINGS_OF_A_TIMER = 10_000, 100
"""Limit on a host's timer firings at one instant: this, plus this for each timer."""


def broken(node: HostRecord | SwitchRecord, rule: int, value: int) -> None:
    """Record the first rule that a handler on a host or a switch broke."""
    if node.rule_broken == 0:
        node.rule_broken = rule
        node.breaking_handler = node.handler
        node.breaking_value = value
