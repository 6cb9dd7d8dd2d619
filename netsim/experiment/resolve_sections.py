"""Resolve the seed, [stop], [measure], [outputs], [faults.NAME] and [routing]."""

from __future__ import annotations

from netsim.errors import InputError, raise_all
from netsim.experiment.document import Tree
from netsim.experiment.schema import (
    FaultSection,
    MeasureSection,
    OutputsSection,
    RoutingSection,
    StopSection,
    validated,
)
from netsim.inputs import ROOM_IN_NAME, path_problem
from netsim.limits import HORIZON_PS
from netsim.model.checks import HORIZON
from netsim.units import format_time, written

SEED_LIMIT = 2**32

FOR_A_TIME = ("loss_rate", "bit_error_rate", "rate", "mtbf")
"""Keys that take effect between `at` and `until`."""

OF_SERIES = ("ports", "hosts", "flows", "fields", "sample_budget")
"""Keys without effect unless something is sampled."""


def resolve_seed(tree: Tree) -> int:
    """Return the seed of an experiment. Raises InputError without file and key."""
    seed = tree.get("seed", 1)
    if isinstance(seed, bool) or not isinstance(seed, int):
        hint = 'use a whole number, a list of them, or "1..10"'
        raise InputError(f"{written(seed)} is not a seed", hint=hint, code="wrong_type")
    if not 0 <= seed < SEED_LIMIT:
        hint = f"0 to {SEED_LIMIT - 1}"
        raise InputError(f"{seed} is out of range", hint=hint, code="out_of_range")
    return seed


def resolve_stop(table: Tree) -> StopSection:
    """Return the stop condition of a [stop] table. Raises InputError without a file."""
    return validated(StopSection, table, "stop")


def resolve_measure(table: Tree, stop: StopSection | None) -> MeasureSection | None:
    """Return the measurement of a [measure] table, None if it is empty. Raises InputError, without
    a file, also if it conflicts with `stop`."""
    if not table:
        return None
    section = validated(MeasureSection, table, "measure")
    if section.end_ps >= HORIZON_PS:
        message = f"ends after {format_time(section.end_ps, 3)}"
        raise InputError(message, key="measure", hint=HORIZON)
    if stop is not None and (stop.max_time is not None or stop.drain):
        key = "stop.drain" if stop.drain else "stop.max_time"
        hint = "a measured run ends with its drain"
        raise InputError("conflicts with [measure]", key=key, hint=hint, code="conflict")
    return (
        section.model_copy(update={"drain": section.window}) if section.drain is None else section
    )


def resolve_outputs(table: Tree, title: str) -> OutputsSection:
    """Return the outputs of an [outputs] table; by default the directory is results/`title`."""
    section = validated(OutputsSection, table, "outputs")
    directory = section.directory or f"results/{title}"
    problem = path_problem(directory, reserve=ROOM_IN_NAME)
    if problem:
        raise InputError(f"{written(directory)} {problem}", key="outputs.directory")
    if not section.samples:
        message, hint = "has no effect without sample_interval", 'such as sample_interval = "10us"'
        keys = [key for key in OF_SERIES if key in section.model_fields_set]
        raise_all([InputError(message, key=f"outputs.{key}", hint=hint) for key in keys])
    return section.model_copy(update={"directory": directory})


def resolve_faults(table: Tree) -> dict[str, FaultSection]:
    """Return the faults of a [faults] table by name. Raises InputError without a file."""
    faults: dict[str, FaultSection] = {}
    errors: list[InputError] = []
    for name, fields in table.items():
        key = f"faults.{name}"
        try:
            faults[name] = validated(FaultSection, fields, key)
            errors += _contradictions(faults[name], key)
        except InputError as error:
            errors += error.errors
    raise_all(errors)
    return faults


def resolve_routing(table: Tree) -> RoutingSection:
    """Return the delays of a [routing] table. Raises InputError without a file."""
    section = validated(RoutingSection, table, "routing")
    section = section.model_copy(update={"peer_carrier_delay": section.carrier.other_ps})
    if section.carrier.other_ps < section.carrier.own_ps:
        times = section.described()
        message = f"{times['peer_carrier_delay']} is less than carrier_delay"
        hint = f"at least {times['carrier_delay']}"
        raise InputError(message, key="routing.peer_carrier_delay", hint=hint)
    return section


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
