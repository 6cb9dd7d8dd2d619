"""The fixed sections of an experiment file, as pydantic models.

Plugins declare the parameters of topology, transport and traffic. Values are converted by the same
functions as plugin parameters, so error messages agree.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    create_model,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from netsim.errors import CombinedInputError, InputError, did_you_mean
from netsim.limits import INT64, PACKET_BYTES
from netsim.model.fabric import REQUIRED as REQUIRED_KEY
from netsim.model.fabric import CircuitRules, Ecn, Fabric, Key, keys_of
from netsim.model.faults import NOMINAL, CarrierDelays
from netsim.model.routing import NEVER
from netsim.plugins.params import REQUIRED, Param
from netsim.units import parse_port_size, written


class Convert:
    """A validator that converts a value like a plugin parameter."""

    def __init__(self, unit: str, **rules: Any) -> None:
        self.param = Param("value", unit, REQUIRED, "", **rules)

    def __call__(self, value: Any) -> Any:
        return _as_pydantic(self.param.convert, value)

    def format(self, value: Any) -> Any:
        """Return a value as a user would write it."""
        return self.param.format(value)


class ConvertQueue:
    """A validator for a size, also in packets ("35pkt") or bandwidth-delay products ("0.2bdp")."""

    def __call__(self, value: Any, info: ValidationInfo) -> Any:
        packet_bytes: int = (info.context or {})["packet_bytes"]
        return _as_pydantic(lambda value: parse_port_size(value, packet_bytes), value)


def _as_pydantic(convert: Callable[[Any], Any], value: Any) -> Any:
    try:
        return convert(value)
    except InputError as error:
        context = {"message": error.message, "hint": error.hint or "", "code": error.code}
        raise PydanticCustomError("netsim", "{message}", context) from None


def require(is_valid: Callable[[Any], object], message: str, hint: str) -> BeforeValidator:
    """Return a validator that refuses values: "VALUE message (hint)"."""

    def check(value: Any) -> Any:
        if is_valid(value):
            return value
        context = {"message": f"{written(value)} {message}", "hint": hint}
        raise PydanticCustomError("netsim", "{message}", context)

    return BeforeValidator(check)


class Interval(Convert):
    """A validator of a time or "auto"."""

    def __init__(self) -> None:
        super().__init__("time", minimum="1ps", optional=True)

    def __call__(self, value: Any) -> Any:
        return value if value == "auto" else super().__call__(value)

    def format(self, value: Any) -> Any:
        return value if value == "auto" else super().format(value)


class Delay(Convert):
    """A validator of a time or "never"."""

    def __init__(self) -> None:
        super().__init__("time")

    def __call__(self, value: Any) -> Any:
        return NEVER if value == "never" else super().__call__(value)

    def format(self, value: Any) -> Any:
        return "never" if value == NEVER else super().format(value)


DELAY = Delay()


class Delays:
    """A validator of one delay for all names, or a table of delays by pattern of names."""

    def __call__(self, value: Any) -> Any:
        table = value if isinstance(value, dict) and value else {"*": value}
        return tuple((pattern, DELAY(one)) for pattern, one in table.items())

    def format(self, value: Any) -> Any:
        times = {pattern: DELAY.format(one) for pattern, one in value}
        return times["*"] if list(times) == ["*"] else times


class Chosen:
    """A validator of a number of things, if `counts`, or a list of their names."""

    def __init__(self, what: str, example: str, *kinds: type, counts: bool = True) -> None:
        self.what, self.example, self.kinds, self.counts = what, example, kinds, counts

    def __call__(self, value: Any) -> Any:
        if self.counts and isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        items = value if isinstance(value, list) else [value]
        for item in items:
            if isinstance(item, bool) or not isinstance(item, self.kinds):
                context = {"message": f"{written(item)} does not name {self.what}"}
                raise PydanticCustomError("netsim", "{message}", context | {"hint": self.example})
        return tuple(items)

    def format(self, value: Any) -> Any:
        return list(value) if isinstance(value, tuple) else value


BATCHES = 20
"""Equal parts of a measured window, whose means give the interval of the mean."""

LARGEST = f"{PACKET_BYTES}B"

LINK_PATTERN = re.compile(r"all|\s*(?P<a>\S+)\s+(?P<arrow>->|-)\s+(?P<b>\S+)\s*")
"""Pattern of links: "all", "A - B" for both directions of cables, "A -> B" for one."""


_NAME = require(
    lambda value: (
        isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9][\w.+-]{0,99}", value, re.ASCII)
    ),
    "is not a valid name",
    "up to 100 letters, digits and . _ + -",
)
_LINKS = require(
    lambda value: isinstance(value, str) and LINK_PATTERN.fullmatch(value),
    "is not a pattern of links",
    '"all", "leaf0 - spine*" (both ways) or "leaf0 -> spine1"; * matches any text',
)
_KINDS = require(
    lambda value: isinstance(value, list) and value and all(isinstance(one, str) for one in value),
    "is not a list of names",
    'such as ["tp", "pp"]',
)
_PAIRS = require(
    lambda value: isinstance(value, list) and value,
    "is not a list of pairs",
    "such as [[0.3, 2.5]]",
)
_Text = Annotated[str, BeforeValidator(Convert("text"))]
_Bool = Annotated[bool, BeforeValidator(Convert("bool"))]
_Fraction = Annotated[float, BeforeValidator(Convert("fraction"))]
_Size = Annotated[int, BeforeValidator(Convert("bytes", minimum="1B", maximum=LARGEST))]
_Limit = Annotated[int | None, BeforeValidator(Convert("time", minimum="1ps", optional=True))]


_S = TypeVar("_S", bound=BaseModel)


class _Section(BaseModel):
    """A section of a file; times in ps, rates in bit/s, sizes in bytes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def described(self) -> dict[str, Any]:
        """Return the equivalent table with every key that has an effect."""
        return {
            key: _format(field.metadata[0].func, getattr(self, key))
            for key, field in type(self).model_fields.items()
        }


def _format(convert: Any, value: Any) -> Any:
    return convert.format(value) if hasattr(convert, "format") else value


class PacketsSection(_Section):
    """[packets]"""

    payload_bytes: _Size = 4096
    """data bytes of a full packet"""
    header_bytes: Annotated[int, BeforeValidator(Convert("bytes", maximum=LARGEST))] = 64
    """header of a data packet"""
    control_bytes: _Size = 64
    """an ACK, NACK, PULL or trimmed header"""


def _no_ecn(value: Any) -> Any:
    return None if value is False or value == "none" else value


def _converted(key: Key) -> Any:
    """Return the type of a key of [fabric], which converts its value."""
    convert = ConvertQueue() if key.unit == "queue" else Convert(key.unit, **key.rules)
    return Annotated[Any, BeforeValidator(convert)]


def _section_of(
    name: str, table: type[Fabric] | type[Ecn] | type[CircuitRules], **tables: Any
) -> type[_Section]:
    """Return a section with the keys of a table; keys that are not written are None."""
    types: dict[str, Any] = {}
    for key, row in keys_of(table).items():
        type_of = tables[key] if key in tables else _converted(row)
        types[key] = (type_of, ...) if row.default is REQUIRED_KEY else (type_of | None, None)
    return create_model(name, __base__=_Section, **types)


EcnSection = _section_of("EcnSection", Ecn)
"""[fabric.ecn]"""

CircuitsSection = _section_of("CircuitsSection", CircuitRules)
"""[fabric.circuits]"""

FabricSection = _section_of(
    "FabricSection",
    Fabric,
    ecn=Annotated[EcnSection | None, BeforeValidator(_no_ecn)],
    circuits=CircuitsSection,
)
"""[fabric], except for the keys of its queue discipline"""


class ClassSection(_Section):
    """[flow_classes.NAME], with either `traffic` or `kinds`"""

    transport: Any
    """transport of the class"""
    traffic: Any = None
    """traffic of the class"""
    kinds: Annotated[list[str] | None, _KINDS] = None
    """instead of traffic: the main traffic's flows of these kinds"""


class FaultSection(_Section):
    """[faults.NAME]"""

    links: Annotated[str | None, _LINKS] = None
    """links that fail: "all", "A - B" (both directions) or "A -> B"; * matches any text"""
    node: Annotated[str | None, BeforeValidator(Convert("text"))] = None
    """instead of links: every link of the matching switches or hosts"""
    loss_rate: _Fraction = 0.0
    """probability that a packet of any size is lost"""
    bit_error_rate: _Fraction = 0.0
    """probability that a bit is wrong; the packet is then lost"""
    rate: Annotated[int | None, BeforeValidator(Convert("rate", optional=True))] = None
    """reduced or raised link rate; the lowest counts if several apply"""
    resize_queues: _Bool = False
    """sizes in bdp are of `rate`, which then lasts from the start to the end"""
    mtbf: _Limit = None
    """mean time between random failures"""
    mttr: _Limit = None
    """mean time to repair"""
    at: Annotated[int, BeforeValidator(Convert("time"))] = 0
    """start of loss, bit errors, the changed rate or random failures"""
    until: _Limit = None
    """end of loss, bit errors, the changed rate or random failures"""
    down: Annotated[int | None, BeforeValidator(Convert("time", optional=True))] = None
    """time at which the link goes down"""
    up: _Limit = None
    """time at which the link comes back"""

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

    @property
    def is_constant(self) -> bool:
        """Whether links only have another rate, during the whole run."""
        loses = self.loss_rate > 0 or self.bit_error_rate > 0
        return not (loses or self.takes_down) and (self.at, self.until) == (0, None)

    def described(self) -> dict[str, Any]:
        unset = {key for key, value in vars(self).items() if value is None or value is False}
        unset -= {"up"} if self.down is not None else set()
        always = (self.at, self.until) == (0, None)
        unset = unset | {"at"} if always else unset - {"until"}
        return {key: value for key, value in super().described().items() if key not in unset}


class RoutingSection(_Section):
    """[routing]: delays until switches have new routes and hosts know of ports without carrier"""

    convergence_delay: Annotated[tuple[tuple[str, int], ...], BeforeValidator(Delays())] = (
        ("*", NEVER),
    )
    """delay from a link change until switches have new routes, or a table by switch pattern"""
    carrier_delay: Annotated[int, BeforeValidator(DELAY)] = NEVER
    """delay until a host knows that one of its ports lost or regained carrier"""
    peer_carrier_delay: Annotated[int | None, BeforeValidator(DELAY)] = None
    """the same for a port of the peer host; default: carrier_delay"""

    @property
    def carrier(self) -> CarrierDelays:
        own, peer = self.carrier_delay, self.peer_carrier_delay
        return CarrierDelays(own, own if peer is None else peer)


class StopSection(_Section):
    """[stop]"""

    max_time: _Limit = None
    """stop at this simulated time"""
    flow_timeout: _Limit = None
    """a flow that takes longer is stalled"""
    drain: _Bool = False
    """continue until the network is empty"""


class MeasureSection(_Section):
    """[measure]: measure throughput and latency; the run ends with the drain"""

    warmup: Annotated[int, BeforeValidator(Convert("time"))]
    """time from the start of the run to the window"""
    window: Annotated[int, BeforeValidator(Convert("time", minimum=f"{BATCHES}ps"))]
    """time in which loads are measured; what is injected in it is measured until the end"""
    drain: Annotated[int | None, BeforeValidator(Convert("time", optional=True))] = None
    """time after the window, in which traffic goes on; default: as long as the window"""

    @property
    def end_ps(self) -> int:
        """The end of the run."""
        return self.warmup + self.window + (self.window if self.drain is None else self.drain)

    @property
    def edges_ps(self) -> NDArray[np.int64]:
        """The edges of the window's batches, int64[BATCHES + 1]."""
        edges = range(BATCHES + 1)
        return np.array([self.warmup + self.window * k // BATCHES for k in edges], np.int64)


_PORTS = Chosen("ports", 'such as ["leaf0:*", "leaf0 -> spine*"], or a number', str)
_HOSTS = Chosen("hosts", 'such as ["h3", "h1*"], or a number', str)
_FLOWS = Chosen("flows", 'such as [0, "5..9"], or a number', int, str)
_FIELDS = Chosen("fields", 'such as ["cwnd", "rate"]', str, counts=False)


class OutputsSection(_Section):
    """[outputs]"""

    directory: _Text = ""
    """result directory, relative to the current one; default: results/NAME"""
    links: _Bool = True
    """write links.parquet"""
    sample_interval: Annotated[int | str | None, BeforeValidator(Interval())] = None
    '''length of an interval of series.parquet, or "auto"'''
    ports: Annotated[Any, BeforeValidator(_PORTS)] = 256
    """ports to sample: patterns or a number, evenly spaced among those of the switches"""
    hosts: Annotated[Any, BeforeValidator(_HOSTS)] = 64
    """hosts to sample: patterns or a number, evenly spaced"""
    flows: Annotated[Any, BeforeValidator(_FLOWS)] = 64
    """flows to sample: indices, ranges or a number, evenly spaced"""
    fields: Annotated[tuple[str, ...], BeforeValidator(_FIELDS)] = ()
    """transport state to sample for these flows"""
    sample_budget: Annotated[int, BeforeValidator(Convert("bytes", minimum="1KB"))] = 64_000_000
    """memory for samples; beyond it, intervals are merged"""
    queue_stats: _Bool = False
    """add the mean and 99th percentile of queues to links.parquet"""

    @property
    def samples(self) -> bool:
        """Whether the run samples anything."""
        return self.sample_interval is not None or self.queue_stats

    def described(self) -> dict[str, Any]:
        table = super().described()
        return table if self.samples else {key: table[key] for key in ("directory", "links")}


class ReferenceSection(_Section):
    """[reference]: expected values of `column` along `axis`, and their source"""

    axis: _Text
    """axis of the sweep, such as traffic.load"""
    column: _Text
    """column of the plot, such as fct_mean"""
    label: _Text
    """name in plots and tables"""
    source: _Text = ""
    """source of the values"""
    values: Annotated[list[Any], _PAIRS]
    """pairs of an axis value and the reference, such as [[0.5, "3.2us"]]"""


def _section_or_axis(value: Any) -> Any:
    """Accept [[faults]] tables, which are checked with their axis."""
    return {} if isinstance(value, list) else value


class FileSection(_Section):
    """The top level; sections are checked after their sweeps are expanded."""

    name: Annotated[str, _NAME] = ""
    """name of the experiment; default: the file's name"""
    description: _Text = ""
    """one line for lists and tables"""
    seed: Any = 1
    '''a number, a list, or a range such as "1..10"'''
    topology: Any
    """a kind, or [topology] with kind and parameters"""
    transport: Any
    """a kind, or [transport] with kind and parameters"""
    traffic: Any
    """a kind, or [traffic] with kind and parameters"""
    flow_classes: dict[str, ClassSection] = Field(default_factory=dict)
    """[flow_classes.NAME]: more traffic with a transport of its own"""
    packets: dict[str, Any] = Field(default_factory=dict)
    """packet sizes"""
    fabric: dict[str, Any] = Field(default_factory=dict)
    """queues and load balancing; overrides what the transport expects"""
    faults: Annotated[dict[str, Any], BeforeValidator(_section_or_axis)] = Field(
        default_factory=dict
    )
    """[faults.NAME]: failing links and nodes"""
    routing: dict[str, Any] = Field(default_factory=dict)
    """rerouting after failures"""
    stop: dict[str, Any] = Field(default_factory=dict)
    """when the run ends"""
    measure: dict[str, Any] = Field(default_factory=dict)
    """warm-up, window and drain of a measurement of throughput"""
    outputs: dict[str, Any] = Field(default_factory=dict)
    """output files"""
    reference: dict[str, Any] = Field(default_factory=dict)
    """values of a formula or paper to draw and print"""


SECTIONS: dict[str, type[_Section]] = {
    "packets": PacketsSection,
    "fabric": FabricSection,
    "fabric.ecn": EcnSection,
    "fabric.circuits": CircuitsSection,
    "routing": RoutingSection,
    "stop": StopSection,
    "measure": MeasureSection,
    "outputs": OutputsSection,
}
"""Tables with keys of their own; those of [faults] and [flow_classes] have names of the user."""

_MISSING = {
    "topology": '[topology] with kind = "fat_tree"',
    "transport": 'transport = "ndp"',
    "traffic": '[traffic] with kind = "permutation"',
    "kmin_bytes": 'kmin_bytes = "64KB"',
    "warmup": 'warmup = "50us"',
    "window": 'window = "200us"',
    "axis": 'axis = "traffic.load"',
    "column": 'column = "fct_mean"',
    "label": 'label = "M/D/1"',
    "values": 'values = [[0.3, "2us"], [0.5, "3us"]]',
}


COUNT_FIELDS = tuple(f"fabric.{key}" for key, row in keys_of(Fabric).items() if row.unit == "count")
"""Integer keys of the fixed sections."""


def validated(
    model: type[_S], table: Any, section: str, context: dict[str, Any] | None = None
) -> _S:
    """Return a table as its model. Raises InputError with dotted keys, without a file."""
    try:
        return model.model_validate(table, context=context)
    except ValidationError as error:
        found = [_problem(detail, model, section) for detail in error.errors()]
        raise CombinedInputError(found) from None


def _problem(detail: ErrorDetails, model: type[BaseModel], section: str) -> InputError:
    path = [str(part) for part in detail["loc"]]
    key = ".".join([section, *path] if section else path)
    name = path[-1] if path else section
    if detail["type"] == "netsim":
        context = detail["ctx"]
        code = context.get("code", "invalid")
        return InputError(context["message"], key=key, hint=context["hint"] or None, code=code)
    if detail["type"] == "extra_forbidden":
        tables: dict[str, type[BaseModel]]
        tables = {"ecn": EcnSection, "circuits": CircuitsSection, "flow_classes": ClassSection}
        known = tables.get(path[0], model) if len(path) > 1 else model
        return InputError(
            "unknown key", key=key, hint=did_you_mean(name, known.model_fields), code="unknown_key"
        )
    if detail["type"] == "missing":
        return InputError("missing", key=key, hint=f"such as {_MISSING[name]}", code="missing")
    if detail["type"] in ("dict_type", "model_type"):
        hint = f"write [{key}] and its keys below"
        return InputError(
            f"{written(detail['input'])} is not a table", key=key, hint=hint, code="wrong_type"
        )
    return InputError(detail["msg"], key=key)
