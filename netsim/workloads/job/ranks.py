"""The ranks of a job: how they are numbered, and which of them form a group."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError

AXES = ("pp", "dp", "cp", "tp")
"""The coordinates of a rank, the slowest first."""

GROUPS = ("tp", "cp", "pp", "dp", "ep", "expert_dp", "s1", "s2", "s3", "s4", "s5")
"""Kinds of groups; `Ranks.groups` says who is in them."""


@dataclass(frozen=True)
class Ranks:
    """tp x cp x dp x pp ranks, numbered as Megatron does: tp first, then cp, dp, and pp last.

    Attributes:
        tp, cp, dp, pp: ranks along each axis.
        levels: the replicas dp as replicas in a rack, racks and sites, the first fastest.
        ep: replicas that share the experts of a layer, of dp.
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
            message = f"{rack} x {racks} x {sites} replicas are not {self.dp}"
            raise InputError(message, key="layout.dp_levels")
        if self.dp % self.ep:
            message = f"{self.dp} replicas cannot be divided into groups of {self.ep}"
            raise InputError(message, key="layout.ep")

    @property
    def dp_levels(self) -> tuple[int, int, int]:
        """Replicas in a rack, racks, sites; all in one rack if nothing is said of them."""
        return self.levels or (self.dp, 1, 1)

    def __len__(self) -> int:
        return self.tp * self.cp * self.dp * self.pp

    @property
    def numbers(self) -> NDArray[np.int64]:
        """int64[pp, dp, cp, tp]: the rank at each place."""
        return np.arange(len(self)).reshape(self.pp, self.dp, self.cp, self.tp)

    def coordinates(self) -> dict[str, NDArray[np.int64]]:
        """int64[n] for each of AXES: where each rank is."""
        shape = self.numbers.shape
        return dict(zip(AXES, np.unravel_index(np.arange(len(self)), shape), strict=True))

    def groups(self, kind: str) -> NDArray[np.int64]:
        """int64[groups, members]: the groups of a kind, each in the order of its ranks.

        `tp`, `cp` and `pp` differ along one axis. `dp` are those that hold the same weights, over
        dp and cp. `ep` are neighboring replicas, and `expert_dp` the ranks of the same place in
        all groups of `ep`, which hold the same experts. `s1`, `s2` and `s3` divide `dp`: within a
        rack, over the racks of a site, over sites; `s4` are those of `s2`, and `s5` of `s1`. Raises
        KeyError for another kind.
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
