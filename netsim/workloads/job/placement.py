"""Placement: on which host of a network each rank of a job is.

Hosts stand in racks of R, a scale-up network each: host h is number h % R of rack h // R.

- `consecutive`: ranks in their order, tensor parallelism first: a group of it is on neighboring
  hosts, then come its replicas, and the stages of the pipeline are furthest apart.
- `rail_aligned`: replica after replica, each with its stages next to one another, in whole racks:
  the ranks of a data-parallel group have the same number in their racks, and so one rail.
- `paper`: a rack holds some replicas of one stage, four of them in "I've Got 99 Problems But FLOPS
  Ain't One" (HotNets 2024), section 4; racks of one stage stand next to one another, and the sites
  one after the other. A GPU's place is (site, stage, rack, replica in the rack, tensor rank), and
  neighbors in the pipeline, too, are on one rail.
- `random`: anywhere.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.workloads.job.ranks import AXES, Ranks

PLACEMENTS = ("consecutive", "rail_aligned", "paper", "random")
"""Placements by name."""


def place(
    name: str, ranks: Ranks, rack_hosts: int, n_hosts: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """int64[ranks]: the host of each rank, by a placement in PLACEMENTS. `rng` is for `random`.

    Raises:
        InputError: there are fewer hosts than ranks, or the job does not fit into racks of
            `rack_hosts` in this way.
    """
    if name == "random":
        hosts = rng.permutation(max(n_hosts, len(ranks)))[: len(ranks)]
    elif name == "paper":
        hosts = _as_in_the_paper(ranks, rack_hosts)
    elif name == "rail_aligned":
        hosts = _rail_aligned(ranks, rack_hosts)
    elif name == "consecutive":
        hosts = np.arange(len(ranks))
    else:
        message = f'there is no placement "{name}"'
        raise InputError(message, hint=", ".join(PLACEMENTS))
    if hosts.max() >= n_hosts:
        message = f"{len(ranks):,} ranks take {hosts.max() + 1:,} hosts, and there are {n_hosts:,}"
        raise InputError(message, hint="a larger network, or a part of the job")
    return hosts


def _rail_aligned(ranks: Ranks, rack_hosts: int) -> NDArray[np.int64]:
    replica = ranks.tp * ranks.cp * ranks.pp
    if replica % rack_hosts and ranks.dp > 1:
        message = f"{replica} ranks of a replica do not fill racks of {rack_hosts} hosts"
        raise InputError(message, hint=f"tp x cp x pp a multiple of {rack_hosts}")
    order = ranks.numbers.transpose(1, 0, 2, 3).reshape(-1)
    hosts = np.empty(len(ranks), np.int64)
    hosts[order] = np.arange(len(ranks))
    return hosts


def _as_in_the_paper(ranks: Ranks, rack_hosts: int) -> NDArray[np.int64]:
    replica = ranks.tp * ranks.cp
    if ranks.levels is None:
        in_rack = math.gcd(ranks.dp, max(1, rack_hosts // replica))
        levels = (in_rack, ranks.dp // in_rack, 1)
    else:
        levels = ranks.levels
    in_rack, racks, sites = levels
    if in_rack * replica > rack_hosts:
        message = f"{in_rack} replicas of a stage, {replica} ranks each, in a rack of {rack_hosts}"
        raise InputError(message, hint=f"at most {rack_hosts // replica} replicas in a rack")
    shape = (ranks.pp, sites, racks, in_rack, ranks.cp, ranks.tp)
    stage, site, rack, within, cp, tp = np.unravel_index(np.arange(len(ranks)), shape)
    number = (site * ranks.pp + stage) * racks + rack
    hosts: NDArray[np.int64] = number * rack_hosts + (within * ranks.cp + cp) * ranks.tp + tp
    return hosts


def describe(
    ranks: Ranks, hosts: NDArray[np.int64], rack_hosts: int, most: int = 16
) -> tuple[list[tuple[str, ...]], int]:
    """Who stands where, as rows of a table: racks, and their ranks by coordinates.

    The first row names the columns. Coordinates are ranges ("0..7") where a rack has every one of
    them, else how many there are. At most so many racks are told, the last one among them; the
    second value is how many are left out.
    """
    coordinates = ranks.coordinates()
    order = np.argsort(hosts, kind="stable")
    racks, first = np.unique(hosts[order] // rack_hosts, return_index=True)
    last = np.append(first[1:], order.size)
    told = list(range(racks.size))
    if len(told) > most:
        told = [*told[: most - 1], told[-1]]
    rows: list[tuple[str, ...]] = [("rack", "hosts", *AXES)]
    for index in told:
        one = order[first[index] : last[index]]
        values = [_range(coordinates[axis][one]) for axis in AXES]
        rows.append((str(racks[index]), _range(hosts[one]), *values))
    return rows, racks.size - len(told)


def _range(values: NDArray[np.int64]) -> str:
    """Numbers as "3", "0..7", or "12 of 0..90"."""
    found = np.unique(values)
    if found.size == 1:
        return str(found[0])
    ends = f"{found[0]}..{found[-1]}"
    return ends if found.size == found[-1] - found[0] + 1 else f"{found.size} of {ends}"
