"""Resolve [faults.NAME] and [routing]: link faults, and delays until routes and hosts react."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netsim.errors import InputError, raise_all
from netsim.experiment.document import Tree
from netsim.experiment.model import FaultSpec, RoutingSpec
from netsim.experiment.schema import FaultSection, RoutingSection, validated
from netsim.limits import INT64
from netsim.model.faults import NOMINAL, CarrierDelays
from netsim.model.routing import NEVER
from netsim.units import format_rate, format_time

FOR_A_TIME = ("loss_rate", "bit_error_rate", "rate", "mtbf")
"""Keys that take effect between `at` and `until`."""


def resolve_faults(table: Tree) -> tuple[FaultSpec, ...]:
    """Return the faults of a [faults] table. Raises InputError without a file."""
    faults: list[FaultSpec] = []
    errors: list[InputError] = []
    for name, fields in table.items():
        key = f"faults.{name}"
        try:
            section = validated(FaultSection, fields, key)
        except InputError as error:
            errors += error.errors
            continue
        wrong = _contradictions(section, key)
        errors += wrong
        if not wrong:
            faults.append(_fault(name, section))
    raise_all(errors)
    return tuple(faults)


def resolve_routing(table: Tree) -> RoutingSpec:
    """Return the delays of a [routing] table. Raises InputError without a file."""
    section = validated(RoutingSection, table, "routing")
    own, other = section.carrier_delay, section.peer_carrier_delay
    other = own if other is None else other
    if other < own:
        message = f"{format_time(other)} is less than carrier_delay"
        raise InputError(message, key="routing.peer_carrier_delay", hint=f"at least {_delay(own)}")
    return RoutingSpec(section.convergence_delay, CarrierDelays(own, other))


def describe_faults(faults: Sequence[FaultSpec]) -> dict[str, Any]:
    """Return the equivalent [faults] table with all keys that have an effect."""
    described: dict[str, Any] = {}
    for fault in faults:
        table: dict[str, Any] = {"links": fault.links} if fault.links else {"node": fault.node}
        table |= {"loss_rate": fault.loss_rate, "bit_error_rate": fault.bit_error_rate}
        if fault.rate_bps != NOMINAL:
            table["rate"] = format_rate(fault.rate_bps)
        if fault.resize_queues:
            table["resize_queues"] = True
        if fault.mtbf_ps is not None and fault.mttr_ps is not None:
            table |= {"mtbf": format_time(fault.mtbf_ps), "mttr": format_time(fault.mttr_ps)}
        if (fault.at_ps, fault.until_ps) != (0, INT64):
            table |= {"at": format_time(fault.at_ps), "until": _end(fault.until_ps)}
        for down, up in fault.outages_ps:
            table |= {"down": format_time(down), "up": _end(up)}
        described[fault.name] = table
    return described


def describe_routing(routing: RoutingSpec) -> dict[str, Any]:
    """Return the equivalent [routing] table."""
    times = {pattern: _delay(time) for pattern, time in routing.convergence_delay_ps}
    return {
        "convergence_delay": times["*"] if list(times) == ["*"] else times,
        "carrier_delay": _delay(routing.carrier.own_ps),
        "peer_carrier_delay": _delay(routing.carrier.other_ps),
    }


def _delay(time_ps: int) -> str:
    return "never" if time_ps == NEVER else format_time(time_ps)


def _end(time_ps: int) -> str:
    return "none" if time_ps >= INT64 else format_time(time_ps)


def _contradictions(section: FaultSection, key: str) -> list[InputError]:
    """Return conflicts between keys."""
    errors: list[InputError] = []
    written_keys = section.model_fields_set

    def wrong(message: str, hint: str, name: str = "") -> None:
        errors.append(InputError(message, key=f"{key}.{name}" if name else key, hint=hint))

    if section.links is None and section.node is None:
        wrong("missing", 'such as links = "all"', "links")
    elif section.links is not None and section.node is not None:
        wrong("conflicts with links", "write one of them", "node")
    if section.down is None and section.up is not None:
        wrong("up without down", 'add down, such as "1ms"')
    elif section.down is not None and section.up is not None and section.up <= section.down:
        wrong("up must be later than down", f"later than {format_time(section.down)}")
    if section.mtbf is not None and section.down is not None:
        wrong("conflicts with down", "use two sections", "mtbf")
    if (section.mtbf is None) != (section.mttr is None):
        there, other = ("mtbf", "mttr") if section.mttr is None else ("mttr", "mtbf")
        wrong(f"{there} without {other}", "write both or neither", other)
    for name in ("at", "until"):
        if name in written_keys and not written_keys & set(FOR_A_TIME):
            wrong("has no effect", f"only with {', '.join(FOR_A_TIME)}", name)
    if section.resize_queues and section.rate is None:
        wrong("has no effect", "add rate", "resize_queues")
    elif section.resize_queues and (section.at, section.until) != (0, None):
        wrong("conflicts with at and until", "queues keep their sizes", "resize_queues")
    if section.until is not None and section.until <= section.at:
        wrong("must be later than at", f"later than {format_time(section.at)}", "until")
    if not written_keys & {*FOR_A_TIME, "mttr", "down", "up"}:
        wrong("no fault", "add loss_rate, bit_error_rate, rate, mtbf and mttr, or down and up")
    return errors


def _fault(name: str, section: FaultSection) -> FaultSpec:
    outages: tuple[tuple[int, int], ...] = ()
    if section.down is not None:
        outages = ((section.down, INT64 if section.up is None else section.up),)
    return FaultSpec(
        name=name,
        links=section.links,
        node=section.node,
        loss_rate=section.loss_rate,
        bit_error_rate=section.bit_error_rate,
        rate_bps=NOMINAL if section.rate is None else section.rate,
        resize_queues=section.resize_queues,
        mtbf_ps=section.mtbf,
        mttr_ps=section.mttr,
        at_ps=section.at,
        until_ps=INT64 if section.until is None else section.until,
        outages_ps=outages,
    )
