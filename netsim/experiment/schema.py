"""The fixed sections of an experiment file: tables of keys, and the conflicts between their keys.

Plugins declare the parameters of topology, transport and traffic, and other keys of [fabric].
`netsim.model.fabric` has [packets] and [fabric].
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError, did_you_mean
from netsim.experiment.document import Tree
from netsim.frozen import frozen
from netsim.limits import INT64
from netsim.model.fabric import CircuitRules, Ecn, Fabric, LinkRetry, PacketFormat
from netsim.model.faults import NOMINAL, CarrierDelays
from netsim.model.routing import NEVER
from netsim.params import (
    REQUIRED,
    Unit,
    as_table,
    chosen,
    key,
    keys_of,
    read_number,
    read_table,
    tables_of,
    wrong_type,
)
from netsim.plugins.registry import PluginSpec
from netsim.units import format_time, parse_time_ps, written

BATCHES = 20  # equal parts of a measured window, whose means give the confidence interval

LINK_PATTERN = re.compile(r"all|\s*(?P<a>\S+)\s+(?P<arrow>->|-)\s+(?P<b>\S+)\s*")
"""Pattern of links: "all", "A - B" for both directions of cables, "A -> B" for one."""

# --- units of these sections ----------------------------------------------------------------------


def _checked(
    name: str, is_valid: Callable[[Any], object], message: str, hint: str, example: str = ""
) -> Unit:
    """Return the unit of values that a function accepts; errors say "VALUE message (hint)"."""

    def read(value: Any) -> Any:
        if not is_valid(value):
            raise InputError(f"{written(value)} {message}", hint=hint)
        return value

    return Unit(name, read, example=example)


def _time_or(word: str, stands_for: Any) -> Unit:
    """Return the unit of a time that may also be a word."""

    def read(value: Any) -> Any:
        return stands_for if value == word else parse_time_ps(value)

    def write(value: Any) -> Any:
        return word if value == stands_for else format_time(value)

    return Unit("time", read, write, '"10us"')


def _read_delays(value: Any) -> tuple[tuple[str, int], ...]:
    table = value if isinstance(value, dict) and value else {"*": value}
    return tuple((pattern, DELAY.read(delay)) for pattern, delay in table.items())


def _write_delays(value: tuple[tuple[str, int], ...]) -> Any:
    times = {pattern: DELAY.write(delay) for pattern, delay in value}
    return times["*"] if list(times) == ["*"] else times


NAME = _checked(
    "text",
    lambda value: (
        isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9][\w.+-]{0,99}", value, re.ASCII)
    ),
    "is not a valid name",
    "up to 100 letters, digits and . _ + -",
)
LINKS = _checked(
    "text",
    lambda value: isinstance(value, str) and LINK_PATTERN.fullmatch(value),
    "is not a pattern of links",
    '"all", "leaf0 - spine*" (both ways) or "leaf0 -> spine1"; * matches any text',
)
KINDS = _checked(
    "list",
    lambda value: (
        isinstance(value, list) and value and all(isinstance(kind, str) for kind in value)
    ),
    "is not a list of names",
    'such as ["tp", "pp"]',
)
DELAY = _time_or("never", NEVER)
DELAYS = Unit("time", _read_delays, _write_delays)
INTERVAL = _time_or("auto", "auto")
PORTS = chosen("ports", 'such as ["leaf0:*", "leaf0 -> spine*"], or a number', str)
HOSTS = chosen("hosts", 'such as ["h3", "h1*"], or a number', str)
FLOWS = chosen("flows", 'such as [0, "5..9"], or a number', int, str)
FIELDS = chosen("fields", 'such as ["cwnd", "rate"]', str, counts=False)


def _plugin(example: str) -> Unit:
    """Return the unit of a section that names a plugin, which `resolve` reads."""
    return Unit("table", example=example)


TABLE = Unit("table", table=dict)  # a section that is read after its sweeps are expanded


def _labeled(section: str) -> Unit:
    """Return the unit of a section that may be a list of tables with labels."""

    def read(value: Any) -> Any:
        if isinstance(value, list):  # [[fabric]] or [[faults]] tables are checked with their axis
            return {}
        if not isinstance(value, Mapping):
            raise wrong_type(value, "not a table", f"write [{section}] and its keys below")
        return value

    return Unit("table", read)


# --- sections -------------------------------------------------------------------------------------


class _Section:
    """A section of a file; times in ps, rates in bit/s, sizes in bytes."""

    def described(self) -> dict[str, Any]:
        """Return the equivalent table with every key that has an effect."""
        return as_table(self)


@frozen
class ClassSection(_Section):
    """[flow_classes.NAME], with either `traffic` or `kinds`"""

    transport: Any = key(_plugin('"ndp"'), REQUIRED, "transport of the class")
    traffic: Any = key(_plugin('"permutation"'), None, "traffic of the class")
    kinds: list[str] | None = key(
        KINDS, None, "instead of traffic: the main traffic's flows of these kinds"
    )


FOR_A_TIME = ("loss_rate", "bit_error_rate", "rate", "mtbf")  # keys in effect from `at` to `until`


@frozen
class FaultSection(_Section):
    """[faults.NAME]"""

    links: str | None = key(
        LINKS,
        None,
        'links that fail: "all", "A - B" (both directions) or "A -> B"; * matches any text',
    )
    node: str | None = key(
        "text", None, "instead of links: every link of the matching switches or hosts"
    )
    loss_rate: float = key("fraction", 0.0, "probability that a packet of any size is lost")
    bit_error_rate: float = key(
        "fraction", 0.0, "probability that a bit is wrong; the packet is then lost"
    )
    rate: int | None = key(
        "rate", None, "reduced or raised link rate; the lowest counts if several apply"
    )
    resize_queues: bool = key(
        "bool", False, "sizes in bdp are of `rate`, which then lasts from the start to the end"
    )
    mtbf: int | None = key("time", None, "mean time between random failures", minimum="1ps")
    mttr: int | None = key("time", None, "mean time to repair", minimum="1ps")
    at: int = key("time", "0ps", "start of loss, bit errors, the changed rate or random failures")
    until: int | None = key(
        "time", None, "end of loss, bit errors, the changed rate or random failures", minimum="1ps"
    )
    down: int | None = key("time", None, "time at which the link goes down")
    up: int | None = key("time", None, "time at which the link comes back", minimum="1ps")

    @property
    def rate_bps(self) -> int:
        """The rate of the links, or NOMINAL."""
        return NOMINAL if self.rate is None else self.rate

    @property
    def until_ps(self) -> int:
        return INT64 if self.until is None else self.until

    @property
    def outages_ps(self) -> tuple[tuple[int, int], ...]:
        """Start and end of the outage, if there is one."""
        return () if self.down is None else ((self.down, INT64 if self.up is None else self.up),)

    @property
    def takes_down(self) -> bool:
        return self.down is not None or self.mtbf is not None

    def is_constant(self, routing: RoutingSection) -> bool:
        """Whether, for the whole run, links only have another rate, or are down and unused."""
        delays = (routing.peer_carrier_delay, *(delay for _, delay in routing.convergence_delay))
        used = self.down is not None and any((self.down, self.up, *delays))
        return not any((self.loss_rate, self.bit_error_rate, self.mtbf, used, self.at, self.until))

    def described(self) -> dict[str, Any]:
        unset = {key for key, value in vars(self).items() if value is None or value is False}
        unset -= {"up"} if self.down is not None else set()
        always = (self.at, self.until) == (0, None)
        unset = unset | {"at"} if always else unset - {"until"}
        return {key: value for key, value in super().described().items() if key not in unset}

    def conflicts(self, given: Mapping[str, Any]) -> Iterator[InputError]:
        """Yield the conflicts between keys."""
        if self.links is None and self.node is None:
            yield InputError("missing", key="links", hint='such as links = "all"')
        elif self.links is not None and self.node is not None:
            yield InputError("conflicts with links", key="node", hint="write one of them")
        if self.down is None and self.up is not None:
            yield InputError("up without down", hint='add down, such as "1ms"')
        elif self.down is not None and self.up is not None and self.up <= self.down:
            hint = f"later than {format_time(self.down)}"
            yield InputError("up must be later than down", hint=hint)
        if self.mtbf is not None and self.down is not None:
            yield InputError("conflicts with down", key="mtbf", hint="use two sections")
        if (self.mtbf is None) != (self.mttr is None):
            there, other = ("mtbf", "mttr") if self.mttr is None else ("mttr", "mtbf")
            yield InputError(f"{there} without {other}", key=other, hint="write both or neither")
        lasts = given.keys() & {*FOR_A_TIME}
        for name in ("at", "until"):
            if name in given and not lasts:
                hint = f"only with {', '.join(FOR_A_TIME)}"
                yield InputError("has no effect", key=name, hint=hint)
        if self.resize_queues and self.rate is None:
            yield InputError("has no effect", key="resize_queues", hint="add rate")
        elif self.resize_queues and (self.at, self.until) != (0, None):
            message, hint = "conflicts with at and until", "queues keep their sizes"
            yield InputError(message, key="resize_queues", hint=hint)
        if self.until is not None and self.until <= self.at:
            hint = f"later than {format_time(self.at)}"
            yield InputError("must be later than at", key="until", hint=hint)
        if not lasts and not given.keys() & {"mttr", "down", "up"}:
            hint = "add loss_rate, bit_error_rate, rate, mtbf and mttr, or down and up"
            yield InputError("no fault", hint=hint)


@frozen
class RoutingSection(_Section):
    """[routing]: delays until switches have new routes and hosts know of ports without carrier"""

    convergence_delay: tuple[tuple[str, int], ...] = key(
        DELAYS,
        "never",
        "delay from a link change until switches have new routes, or a table by switch pattern",
    )
    carrier_delay: int = key(
        DELAY, "never", "delay until a host knows that one of its ports lost or regained carrier"
    )
    peer_carrier_delay: int = key(
        DELAY, None, "the same for a port of the peer host; default: carrier_delay"
    )

    def __post_init__(self) -> None:
        if self.peer_carrier_delay is None:
            object.__setattr__(self, "peer_carrier_delay", self.carrier_delay)

    @property
    def carrier(self) -> CarrierDelays:
        return CarrierDelays(self.carrier_delay, self.peer_carrier_delay)

    def conflicts(self, _: Mapping[str, Any]) -> Iterator[InputError]:
        """Yield the error for peers that would know of a port before its own host does."""
        if self.peer_carrier_delay < self.carrier_delay:
            times = self.described()
            message = f"{times['peer_carrier_delay']} is less than carrier_delay"
            hint = f"at least {times['carrier_delay']}"
            yield InputError(message, key="peer_carrier_delay", hint=hint)


@frozen
class StopSection(_Section):
    """[stop]"""

    max_time: int | None = key("time", None, "stop at this simulated time", minimum="1ps")
    flow_timeout: int | None = key(
        "time", None, "a flow that takes longer is stalled", minimum="1ps"
    )
    drain: bool = key("bool", False, "continue until the network is empty")


@frozen
class MeasureSection(_Section):
    """[measure]: measure throughput and latency; the run ends with the drain"""

    warmup: int = key("time", REQUIRED, "time from the start of the run to the window")
    window: int = key(
        "time",
        REQUIRED,
        "time in which loads are measured; packets injected in it are measured until the end",
        minimum=f"{BATCHES}ps",
    )
    drain: int = key(
        "time",
        None,
        "time after the window, while traffic continues; default: as long as the window",
    )

    def __post_init__(self) -> None:
        if self.drain is None:
            object.__setattr__(self, "drain", self.window)

    @property
    def end_ps(self) -> int:
        """The end of the run."""
        return self.warmup + self.window + self.drain

    @property
    def edges_ps(self) -> NDArray[np.int64]:
        """The edges of the window's batches, int64[BATCHES + 1]."""
        edges = range(BATCHES + 1)
        return np.array([self.warmup + self.window * k // BATCHES for k in edges], np.int64)


OF_SERIES = ("ports", "hosts", "flows", "fields", "sample_budget")
"""Keys without effect unless something is sampled."""


@frozen
class OutputsSection(_Section):
    """[outputs]"""

    directory: str = key(
        "text", "", "result directory, relative to the current one; default: results/NAME"
    )
    links: bool = key("bool", True, "write links.parquet")
    sample_interval: int | str | None = key(
        INTERVAL, None, 'length of an interval of series.parquet, or "auto"', minimum="1ps"
    )
    ports: Any = key(
        PORTS,
        256,
        "ports to sample: patterns or a number, evenly spaced among the switches' ports",
    )
    hosts: Any = key(HOSTS, 64, "hosts to sample: patterns or a number, evenly spaced")
    flows: Any = key(FLOWS, 64, "flows to sample: indices, ranges or a number, evenly spaced")
    fields: tuple[str, ...] = key(FIELDS, (), "transport state to sample for these flows")
    sample_budget: int = key(
        "bytes", "64MB", "memory for samples; beyond it, intervals are merged", minimum="1KB"
    )
    queue_stats: bool = key(
        "bool", False, "add the mean and 99th percentile of queues to links.parquet"
    )

    @property
    def samples(self) -> bool:
        """Whether the run samples anything."""
        return self.sample_interval is not None or self.queue_stats

    def described(self) -> dict[str, Any]:
        table = super().described()
        return table if self.samples else {key: table[key] for key in ("directory", "links")}

    def conflicts(self, given: Mapping[str, Any]) -> Iterator[InputError]:
        """Yield the errors for keys without effect."""
        hint = 'such as sample_interval = "10us"'
        for name in OF_SERIES if not self.samples else ():
            if name in given:
                yield InputError("has no effect without sample_interval", key=name, hint=hint)


@frozen(kw_only=True)
class FileSection(_Section):
    """The top level; sections are checked after their sweeps are expanded."""

    name: str | None = key(NAME, None, "name of the experiment; default: the file's name")
    description: str = key("text", "", "one line for lists and tables")
    seed: Any = key(Unit("count"), 1, 'a number, a list, or a range such as "1..10"')
    topology: Any = key(
        _plugin('"fat_tree"'), REQUIRED, "a kind, or [topology] with kind and parameters"
    )
    transport: Any = key(
        _plugin('"ndp"'), REQUIRED, "a kind, or [transport] with kind and parameters"
    )
    traffic: Any = key(
        _plugin('"permutation"'), REQUIRED, "a kind, or [traffic] with kind and parameters"
    )
    flow_classes: dict[str, ClassSection] = key(
        tables_of(ClassSection), {}, "[flow_classes.NAME]: more traffic, with another transport"
    )
    packets: dict[str, Any] = key(TABLE, {}, "packet sizes")
    fabric: dict[str, Any] = key(
        _labeled("fabric"), {}, "queues and load balancing; overrides the transport's fabric"
    )
    faults: dict[str, Any] = key(_labeled("faults"), {}, "[faults.NAME]: failing links and nodes")
    routing: dict[str, Any] = key(TABLE, {}, "rerouting after failures")
    stop: dict[str, Any] = key(TABLE, {}, "when the run ends")
    measure: dict[str, Any] = key(
        TABLE, {}, "warm-up, window and drain of a measurement of throughput"
    )
    outputs: dict[str, Any] = key(TABLE, {}, "output files")
    reference: dict[str, Any] = key(TABLE, {}, "values of a formula or paper to draw and print")


SECTIONS: dict[str, type[Any]] = {
    "packets": PacketFormat,
    "fabric": Fabric,
    "fabric.ecn": Ecn,
    "fabric.circuits": CircuitRules,
    "fabric.llr": LinkRetry,
    "routing": RoutingSection,
    "stop": StopSection,
    "measure": MeasureSection,
    "outputs": OutputsSection,
}
"""Tables with their own keys; the user names the tables of [faults] and [flow_classes]."""

COUNT_FIELDS = tuple(
    f"fabric.{name}" for name, param in keys_of(Fabric).items() if param.unit == "count"
)
"""Integer keys of the fixed sections."""


# --- the section [reference] ----------------------------------------------------------------------

SECTION = "reference"


def _read_pairs(pairs: Any) -> dict[Any, Any]:
    if not isinstance(pairs, list) or not pairs:
        hint = "such as [[0.3, 2.5]]"
        raise InputError(f"{written(pairs)} is not a list of pairs", hint=hint)
    found: dict[Any, Any] = {}
    for pair in pairs:
        is_pair = isinstance(pair, list) and len(pair) == 2
        if not is_pair or any(isinstance(item, list | dict) for item in pair):
            hint = 'write [axis value, reference] pairs: [[0.3, "2us"], [0.5, "3us"]]'
            raise InputError(f"{written(pair)} is not a pair", hint=hint)
        if pair[0] in found:
            raise InputError(f"duplicate axis value {written(pair[0])}", code="duplicate")
        found[pair[0]] = pair[1]
    return found


PAIRS = Unit("list", _read_pairs, example='[[0.3, "2us"], [0.5, "3us"]]')


@frozen(kw_only=True)
class Reference:
    """[reference]: expected values of `column`, by value of `axis`, and their source

    Times are in ps.
    """

    axis: str = key("text", REQUIRED, "axis of the sweep, such as traffic.load")
    column: str = key("text", REQUIRED, "column of the plot, such as fct_mean")
    label: str = key("text", REQUIRED, "name in plots and tables")
    source: str = key("text", "", "source of the values")
    values: Mapping[Any, float] = key(
        PAIRS, REQUIRED, 'pairs of an axis value and the reference, such as [[0.5, "3.2us"]]'
    )

    def __post_init__(self) -> None:
        values = {at: _value(value, self.column) for at, value in self.values.items()}
        object.__setattr__(self, "values", values)


def is_time(column: str) -> bool:
    """Return whether a column contains times: "fct_p99", "wan.ideal_mean", "job_step_ps"."""
    return column.endswith("_ps") or column.rpartition(".")[2].startswith(("fct_", "ideal_"))


def resolve_reference(table: Tree) -> Reference:
    """Return the reference of a [reference] table. Raises InputError without a file."""
    return read_table(Reference, table, key=SECTION)


def _value(value: Any, column: str) -> float:
    """Return a value of a column: a time with its unit, or else a number."""
    try:
        return float(parse_time_ps(value)) if is_time(column) else read_number(value)
    except InputError as error:
        hint = error.hint if is_time(column) else f"{column} is a number"
        raise error.replace(key="values", hint=hint) from None


def axis_problem(axis: str, resolved: Tree) -> InputError | None:
    """Return the error of a reference for a key that the experiment does not have."""
    known = _keys(resolved, "")
    if axis in known:
        return None
    hint = did_you_mean(axis, [*known]) or "such as traffic.load"
    return InputError(
        f"the experiment has no key {written(axis)}", key=f"{SECTION}.axis", hint=hint
    )


def _keys(table: Tree, prefix: str) -> set[str]:
    found = set()
    for name, value in table.items():
        found.add(f"{prefix}{name}")
        if isinstance(value, dict):
            found |= _keys(value, f"{prefix}{name}.")
    return found


# --- a point --------------------------------------------------------------------------------------


@frozen
class FlowClass:
    """A table [flow_classes.NAME]: separate traffic, or `kinds` of flows of the main traffic."""

    name: str
    transport: PluginSpec
    traffic: PluginSpec | None
    kinds: tuple[str, ...] = ()


@frozen
class Point:
    """One run, with every value explicit and valid.

    `axes` maps the dotted path of each sweep axis to its value as written. `resolved` is the point
    as an experiment file with all defaults. `file` and `directory` (absolute) belong to the
    experiment. Sections are as in `schema.py`.
    """

    index: int
    name: str
    axes: Mapping[str, Any]
    seed: int
    topology: PluginSpec
    transport: PluginSpec
    traffic: PluginSpec
    classes: tuple[FlowClass, ...]
    packets: PacketFormat
    fabric: Fabric
    faults: Mapping[str, FaultSection]
    routing: RoutingSection
    stop: StopSection
    measure: MeasureSection | None
    outputs: OutputsSection
    resolved: dict[str, Any]
    file: str
    directory: Path

    @property
    def end_ps(self) -> int | None:
        """The latest end of the run, if the experiment sets one."""
        return self.stop.max_time if self.measure is None else self.measure.end_ps

    @property
    def transport_of_class(self) -> tuple[PluginSpec, ...]:
        """The transport of each flow class by index; 0 is the experiment's own."""
        return (self.transport, *(c.transport for c in self.classes))

    @property
    def uses(self) -> tuple[PluginSpec, ...]:
        """All plugins of the run."""
        more = [use for c in self.classes for use in (c.transport, c.traffic) if use is not None]
        own = (self.topology, self.transport, self.traffic, *more)
        each = [part for use in own for part in (use, *use.parts)]
        return (*each, *self.fabric.plugins.values())
