"""Numbering and groups of a job's ranks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError

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
