"""What ranks other than 0 do in a run over MPI."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from netsim.engine.simulation import Options
from netsim.errors import InputError, RunError
from netsim.experiment.scenario import prepare
from netsim.limits import HORIZON_PS
from netsim.running.mpi import PREPARE, QUIT
from netsim.running.point import build_engine

if TYPE_CHECKING:
    from netsim.experiment import Point
    from netsim.experiment.scenario import Scenario
    from netsim.running.mpi import MpiRanks


def follow(ranks: MpiRanks, points: Sequence[Point]) -> None:
    """Follow rank 0 until it is done with its points."""
    of_name = {point.name: point for point in points}
    while (told := ranks.told())["order"] != QUIT:
        if told["order"] == PREPARE:
            point = of_name[told["point"]]
            options = Options(**told["options"], on_hang=ranks.end, ranks=ranks)
            scenario = prepare(point)
        else:
            _serve(ranks, point, scenario, options)


def _serve(ranks: MpiRanks, point: Point, scenario: Scenario, options: Options) -> None:
    """Build an engine and follow that of rank 0."""
    from netsim.engine.partitioned import PartitionedEngine

    engine, failure = None, ""
    try:
        engine = build_engine(point, scenario, options)
        engine.advance(0, HORIZON_PS)
    except (InputError, RunError) as error:
        failure = str(error)
    with suppress(RunError):  # which rank 0 reports
        ranks.agree(failure)
        assert isinstance(engine, PartitionedEngine)
        engine.serve()
