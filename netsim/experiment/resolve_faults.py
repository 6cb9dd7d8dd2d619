"""The [faults.NAME] sections and [routing]: what goes wrong on links, and who learns of it when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from netsim.errors import CombinedInputError, InputError
from netsim.experiment.document import Tree
from netsim.experiment.model import FaultSpec, RoutingSpec
from netsim.experiment.schema import FaultSection, RoutingSection, problems
from netsim.limits import INT64
from netsim.model.faults import NOMINAL, CarrierDelays
from netsim.model.routing import NEVER
from netsim.units import format_rate, format_time

FOR_A_TIME = ("loss_rate", "bit_error_rate", "rate", "mtbf")
"""Keys of what goes wrong between `at` and `until`."""


def resolve_faults(table: Tree) -> tuple[FaultSpec, ...]:
    """The faults of a [faults] table; `InputError`s with keys, without a file."""
    faults: list[FaultSpec] = []
    errors: list[InputError] = []
    for name, fields in table.items():
        key = f"faults.{name}"
        try:
            section = FaultSection.model_validate(fields)
        except ValidationError as error:
            errors += problems(error, FaultSection, key)
            continue
        wrong = _contradictions(section, key)
        errors += wrong
        if not wrong:
            faults.append(_fault(name, section))
    if errors:
        raise CombinedInputError(errors)
    return tuple(faults)


def resolve_routing(table: Tree) -> RoutingSpec:
    """The times of a [routing] table; `InputError`s with keys, without a file."""
    try:
        section = RoutingSection.model_validate(table)
    except ValidationError as error:
        raise CombinedInputError(problems(error, RoutingSection, "routing")) from None
    own, other = section.carrier_delay, section.peer_carrier_delay
    other = own if other is None else other
    if other < own:
        raise InputError(
            f"{format_time(other)} is before the port's own host knows",
            key="routing.peer_carrier_delay",
            hint=f"at least carrier_delay, {_delay(own)}",
        )
    return RoutingSpec(section.convergence_delay, CarrierDelays(own, other))


def describe_faults(faults: Sequence[FaultSpec]) -> dict[str, Any]:
    """The [faults] table that says the same, every key that has an effect written."""
    described: dict[str, Any] = {}
    for fault in faults:
        table: dict[str, Any] = {"links": fault.links} if fault.links else {"node": fault.node}
        table |= {"loss_rate": fault.loss_rate, "bit_error_rate": fault.bit_error_rate}
        if fault.rate_bps != NOMINAL:
            table["rate"] = format_rate(fault.rate_bps)
        if fault.mtbf_ps is not None and fault.mttr_ps is not None:
            table |= {"mtbf": format_time(fault.mtbf_ps), "mttr": format_time(fault.mttr_ps)}
        if (fault.at_ps, fault.until_ps) != (0, INT64):
            table |= {"at": format_time(fault.at_ps), "until": _end(fault.until_ps)}
        for down, up in fault.outages_ps:
            table |= {"down": format_time(down), "up": _end(up)}
        described[fault.name] = table
    return described


def describe_routing(routing: RoutingSpec) -> dict[str, Any]:
    """The [routing] table that says the same."""
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
    """What is wrong between keys that are each right."""
    errors: list[InputError] = []
    given = section.model_fields_set

    def wrong(message: str, hint: str, name: str = "") -> None:
        errors.append(InputError(message, key=f"{key}.{name}" if name else key, hint=hint))

    if section.links is None and section.node is None:
        wrong("missing", 'such as links = "all"', "links")
    elif section.links is not None and section.node is not None:
        wrong("links and node", "a node means all of its links: write one of the two", "node")
    if section.down is None and section.up is not None:
        wrong("the link comes up but never goes down", 'such as down = "1ms"')
    elif section.down is not None and section.up is not None and section.up <= section.down:
        wrong("the link comes up before it goes down", "down is before up")
    if section.mtbf is not None and section.down is not None:
        wrong("down at a stated time and at random", "two sections", "mtbf")
    if (section.mtbf is None) != (section.mttr is None):
        there, other = ("mtbf", "mttr") if section.mttr is None else ("mttr", "mtbf")
        wrong(f"{there} without {other}", "both, or neither", other)
    for name in ("at", "until"):
        if name in given and not given & set(FOR_A_TIME):
            wrong("has no effect", f"it belongs to {', '.join(FOR_A_TIME)}", name)
    if section.until is not None and section.until <= section.at:
        wrong("ends before it begins", f"later than {format_time(section.at)}", "until")
    if not given & {*FOR_A_TIME, "mttr", "down", "up"}:
        wrong("nothing goes wrong", "loss, bit_error_rate, rate, mtbf and mttr, or down and up")
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
        mtbf_ps=section.mtbf,
        mttr_ps=section.mttr,
        at_ps=section.at,
        until_ps=INT64 if section.until is None else section.until,
        outages_ps=outages,
    )
