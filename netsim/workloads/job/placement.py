"""Placement of a job's ranks on hosts.

A rack has R hosts and one scale-up network: host h is number h % R of rack h // R.

- `consecutive`: in order of rank: tensor-parallel groups on adjacent hosts, then replicas, then
  pipeline stages.
- `rail_aligned`: replica after replica, each in whole racks with adjacent stages. The ranks of a
  data-parallel group have the same number in their racks, so they share a rail.
- `paper`: a rack holds replicas of one stage, four in "I've Got 99 Problems But FLOPS Ain't One"
  (HotNets 2024), section 4. Racks of a stage are adjacent; sites follow each other. A GPU is at
  (site, stage, rack, replica in the rack, tensor rank); adjacent stages also share rails.
- `random`: a random permutation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError

PLACEMENTS = ("consecutive", "rail_aligned", "paper", "random")


def place(
    name: str, ranks: Ranks, rack_hosts: int, n_hosts: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """int64[ranks]: the host of each rank, by a placement in PLACEMENTS.

    Raises InputError if there are too few hosts, or the job does not fit racks of `rack_hosts`.
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
        hint = ", ".join(PLACEMENTS)
        raise InputError(f'unknown placement "{name}"', hint=hint, code="unknown_value")
    if hosts.max() >= n_hosts:
        message = f"{len(ranks):,} ranks need {hosts.max() + 1:,} hosts; there are {n_hosts:,}"
        raise InputError(message, hint="use a larger network, or a sample of the job")
    return hosts


def _rail_aligned(ranks: Ranks, rack_hosts: int) -> NDArray[np.int64]:
    replica = ranks.tp * ranks.cp * ranks.pp
    if replica % rack_hosts and ranks.dp > 1:
        message = f"replicas of {replica} ranks do not fill racks of {rack_hosts} hosts"
        raise InputError(message, hint=f"tp x cp x pp must be a multiple of {rack_hosts}")
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
        message = f"{in_rack} replicas of {replica} ranks exceed a rack of {rack_hosts} hosts"
        raise InputError(message, hint=f"at most {rack_hosts // replica} replicas per rack")
    shape = (ranks.pp, sites, racks, in_rack, ranks.cp, ranks.tp)
    stage, site, rack, within, cp, tp = np.unravel_index(np.arange(len(ranks)), shape)
    number = (site * ranks.pp + stage) * racks + rack
    hosts: NDArray[np.int64] = number * rack_hosts + (within * ranks.cp + cp) * ranks.tp + tp
    return hosts


def describe(
    ranks: Ranks, hosts: NDArray[np.int64], rack_hosts: int, max_racks: int = 16
) -> tuple[list[tuple[str, ...]], int]:
    """Return rows of a table of racks and the coordinates of their ranks, and the racks omitted.

    The first row names the columns. Coordinates are ranges ("0..7") where a rack has all of them.
    The last rack is always shown.
    """
    coordinates = ranks.coordinates()
    order = np.argsort(hosts, kind="stable")
    racks, first = np.unique(hosts[order] // rack_hosts, return_index=True)
    last = np.append(first[1:], order.size)
    shown = list(range(racks.size))
    if len(shown) > max_racks:
        shown = [*shown[: max_racks - 1], shown[-1]]
    rows: list[tuple[str, ...]] = [("rack", "hosts", *AXES)]
    for index in shown:
        one = order[first[index] : last[index]]
        values = [_range(coordinates[axis][one]) for axis in AXES]
        rows.append((str(racks[index]), _range(hosts[one]), *values))
    return rows, racks.size - len(shown)


def _range(values: NDArray[np.int64]) -> str:
    """Format numbers as "3", "0..7", or "12 of 0..90"."""
    found = np.unique(values)
    if found.size == 1:
        return str(found[0])
    ends = f"{found[0]}..{found[-1]}"
    return ends if found.size == found[-1] - found[0] + 1 else f"{found.size} of {ends}"


AXES = ("pp", "dp", "cp", "tp")
"""Coordinates of a rank, slowest first."""

GROUPS = ("tp", "cp", "pp", "dp", "ep", "expert_dp", "s1", "s2", "s3", "s4", "s5")
"""Kinds of groups of `Ranks.groups`."""


@dataclass(frozen=True)
class Ranks:
    """tp x cp x dp x pp ranks, numbered as in Megatron: tp fastest, then cp, dp, pp.

    Attributes:
        levels: factors of dp: replicas per rack, racks, sites; the first fastest.
        ep: replicas that share the experts of a layer.
    """

    tp: int = 1
    cp: int = 1
    dp: int = 1
    pp: int = 1
    levels: tuple[int, int, int] | None = None
    ep: int = 1

    def __post_init__(self) -> None:
        if math.prod(self.dp_levels) != self.dp:
            rack, racks, sites = self.dp_levels
            message = f"{rack} x {racks} x {sites} replicas conflict with dp = {self.dp}"
            raise InputError(message, key="layout.dp_levels")
        if self.dp % self.ep:
            message = f"{self.dp} replicas are not divisible by ep = {self.ep}"
            raise InputError(message, key="layout.ep")

    @property
    def dp_levels(self) -> tuple[int, int, int]:
        """Replicas per rack, racks, sites; by default one rack."""
        return self.levels or (self.dp, 1, 1)

    def __len__(self) -> int:
        return self.tp * self.cp * self.dp * self.pp

    @property
    def numbers(self) -> NDArray[np.int64]:
        """int64[pp, dp, cp, tp]: ranks by coordinates."""
        return np.arange(len(self)).reshape(self.pp, self.dp, self.cp, self.tp)

    def coordinates(self) -> dict[str, NDArray[np.int64]]:
        """Return int64[n] for each of AXES: the coordinates of each rank."""
        shape = self.numbers.shape
        return dict(zip(AXES, np.unravel_index(np.arange(len(self)), shape), strict=True))

    def groups(self, kind: str) -> NDArray[np.int64]:
        """int64[groups, members]: the groups of a kind, in order of rank.

        `tp`, `cp` and `pp` vary one axis; `dp` varies dp and cp (same weights). `ep` are adjacent
        replicas, `expert_dp` the ranks with the same experts in all of them. `s1`, `s2` and `s3`
        divide `dp`: within a rack, across racks of a site, across sites; `s4` is `s2`, `s5` is
        `s1`. Raises KeyError for another kind.
        """
        rack, racks, sites = self.dp_levels
        by_level = (self.pp, sites, racks, rack, self.cp, self.tp)
        by_expert = (self.pp, self.dp // self.ep, self.ep, self.cp, self.tp)
        shape, over = {
            "tp": (self.numbers.shape, (3,)),
            "cp": (self.numbers.shape, (2,)),
            "pp": (self.numbers.shape, (0,)),
            "dp": (self.numbers.shape, (1, 2)),
            "ep": (by_expert, (2,)),
            "expert_dp": (by_expert, (1, 3)),
            "s1": (by_level, (3, 4)),
            "s2": (by_level, (2,)),
            "s3": (by_level, (1,)),
        }[{"s4": "s2", "s5": "s1"}.get(kind, kind)]
        rest = [axis for axis in range(len(shape)) if axis not in over]
        members = math.prod(shape[axis] for axis in over)
        ordered: NDArray[np.int64] = self.numbers.reshape(shape).transpose(*rest, *over)
        return ordered.reshape(-1, members)
