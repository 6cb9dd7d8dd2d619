"""How a run is made: its seed, when it stops ([stop]), where its results go ([outputs])."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from netsim.errors import CombinedInputError, InputError
from netsim.experiment.document import Tree
from netsim.experiment.model import Outputs, StopCondition
from netsim.experiment.resolve_series import describe_series, resolve_series
from netsim.experiment.schema import OutputsSection, StopSection, problems
from netsim.inputs import ROOM_IN_NAME, path_problem
from netsim.units import format_time, written

SEED_LIMIT = 2**32


def resolve_seed(tree: Tree) -> int:
    """The seed of an experiment, 1 where it has none; InputError without file and key."""
    seed = tree.get("seed", 1)
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise InputError(
            f"{written(seed)} is not a seed",
            hint='a whole number, a list of them, or "1..10"',
            code="wrong_type",
        )
    if not 0 <= seed < SEED_LIMIT:
        raise InputError(
            f"{seed} is out of range", hint=f"0 to {SEED_LIMIT - 1}", code="out_of_range"
        )
    return seed


def resolve_stop(table: Tree) -> StopCondition:
    """The stop condition of a [stop] table; `InputError`s with keys, without a file."""
    try:
        section = StopSection.model_validate(table)
    except ValidationError as error:
        raise CombinedInputError(problems(error, StopSection, "stop")) from None
    return StopCondition(section.max_time, section.flow_timeout, section.drain)


def describe_stop(stop: StopCondition) -> dict[str, Any]:
    """The [stop] table that says the same, every key written."""

    def limit(time_ps: int | None) -> str:
        return "none" if time_ps is None else format_time(time_ps)

    return {
        "max_time": limit(stop.max_time_ps),
        "flow_timeout": limit(stop.flow_timeout_ps),
        "drain": stop.drain,
    }


def resolve_outputs(table: Tree, title: str) -> Outputs:
    """The outputs of an [outputs] table; `title` names the directory where it names none."""
    try:
        section = OutputsSection.model_validate(table)
    except ValidationError as error:
        raise CombinedInputError(problems(error, OutputsSection, "outputs")) from None
    directory = section.directory or f"results/{title}"
    problem = path_problem(directory, reserve=ROOM_IN_NAME)
    if problem:
        raise InputError(f"{written(directory)} {problem}", key="outputs.directory")
    return Outputs(directory, section.links, resolve_series(section))


def describe_outputs(outputs: Outputs) -> dict[str, Any]:
    """The [outputs] table that says the same, every key written that has an effect."""
    kept = {"directory": outputs.directory, "links": outputs.links}
    return kept | describe_series(outputs.series)
