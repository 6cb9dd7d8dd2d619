"""Shipped experiments have one hash on 1 to 4 ranks of 1 or 2 threads each.

The ranks are threads of this process; with `mpirun`, this file runs the experiments on real ones:

    mpirun -n 2 python tests/test_ranks_experiments.py incast rotor_two_hops
"""

import itertools
import sys
from collections.abc import Iterator

import pytest
from ranks_case import on_ranks
from test_shipped_experiments import shipped

from netsim.experiment import Point
from netsim.experiment.scenario import is_closed_form
from netsim.running.mpi import MpiRanks, connected
from netsim.running.point import follow, simulate

EXPERIMENTS = (
    *("incast", "transports_incast", "queue_disciplines", "md1", "p2p_512"),
    *("all_to_all", "load_balancing", "failures_mid_step", "batch_server"),
    *("wan_fec", "wan_beside", "wan_bbr_cubic"),
    *("p2p_ocs_512", "ocs_phases", "ocs_demand", "rotor_two_hops"),
    *("collectives", "training_stages", "other_tools"),
    *("inference_h100", "serving_small", "serving_failures"),
)
"""The fastest ones that cover all transports, faults, planes, series, wide-area cables, circuits,
tasks, hosts with several NICs, and programs."""


def simulated(name: str) -> list[Point]:
    """Return the simulated points with an axis value that no earlier point has."""
    met: set[str] = set()
    points = [point for point in shipped(name).points() if not is_closed_form(point)]
    return [each for each in points if len(met) < len(met := met | {*each.name.split(",")})]


def hashes(name: str, ranks: MpiRanks, threads: int) -> Iterator[str]:
    """Yield the points' hashes on rank 0; other ranks follow it and yield nothing."""
    if ranks.rank > 0:
        follow(ranks, simulated(name))
        return
    for point in simulated(name):
        yield simulate(point, threads=threads, ranks=ranks).hash
    ranks.quit()


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_hash_does_not_depend_on_ranks_or_threads(name: str) -> None:
    expected = [simulate(point, threads=1).hash for point in simulated(name)]
    for n, threads in itertools.product(range(1, 5), (1, 2)):

        def on_rank(ranks: MpiRanks, threads: int = threads) -> list[str]:
            return list(hashes(name, ranks, threads))

        assert on_ranks(n, on_rank, on_rank) == expected


if __name__ == "__main__":
    with connected() as of_mpi:
        for each, n_threads in itertools.product(sys.argv[1:], (1, 2)):
            for found, one in zip(hashes(each, of_mpi, n_threads), simulated(each), strict=False):
                print(each, one.name, f"{of_mpi.n} ranks", f"{n_threads} threads", found)
        if of_mpi.rank > 0:
            follow(of_mpi, [])
