"""Traffic patterns: which hosts each host sends to, and how much of its traffic each gets.

Some use coordinates: hosts form a grid of `shape`, the same number at every place, numbered
place by place; the last coordinate changes fastest. Coordinates wrap.

Dally and Towles, "Principles and Practices of Interconnection Networks", section 3.2; Kim, Dally,
Scott and Abts, "Technology-Driven, Highly-Scalable Dragonfly Topology", ISCA 2008 (group_plus_one).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from netsim.errors import InputError, did_you_mean, errors_at
from netsim.frozen import frozen
from netsim.model.columns import Floats, Ints, Rng
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.params import Param
from netsim.units import parse_shape, written

MAX_HOT = 64

BLOCK = 64  # groups whose demand is summed at once
ROUNDING = 1e-12  # demand below this share of a host's rate is a rounding error


@frozen(eq=False)
class Destinations:
    """Destinations of each of n hosts, in k parts.

    `share[h, j]` of host h's traffic is split equally among the `size[j]` hosts from `first[h, j]`
    on (modulo n). The shares of a host add up to 1, or are 0 if it sends nothing.
    """

    first: Ints  # int64[n, k]
    size: Ints  # int64[k]
    share: Floats  # float64[n, k]

    @staticmethod
    def partners(*partners: Ints) -> Destinations:
        """Return equal shares for the partners, int64[n] each, of every host; a host that is its
        own partner sends nothing."""
        first = np.stack(partners, axis=1)
        sends = (first != np.arange(len(first))[:, None]).all(axis=1, keepdims=True)
        share = np.broadcast_to(sends / len(partners), first.shape)
        return Destinations(first, np.ones(len(partners), np.int64), share)

    @cached_property
    def senders(self) -> Ints:
        """The hosts that send anything, in ascending order."""
        return np.flatnonzero(self.share.any(axis=1))

    @property
    def is_drawn(self) -> bool:
        """Whether hosts choose among destinations; otherwise they send to each equally."""
        equal = self.share[self.senders] == 1 / self.size.size
        return bool((self.size > 1).any() or not equal.all())

    def draw(self, src: Ints, rng: Rng) -> Ints:
        """Return int64[m], a random destination for each of m messages; `src` has their senders."""
        n, parts = self.first.shape
        part: Any = 0
        if parts > 1:
            ends = np.cumsum(self.share, axis=1) + np.arange(n)[:, None]
            last = parts - 1 - (self.share[:, ::-1] > 0).argmax(axis=1)
            place = np.searchsorted(ends.reshape(-1), src + rng.random(src.size), side="right")
            part = np.clip(place - src * parts, 0, last[src])
        to: Ints = (self.first[src, part] + rng.integers(0, self.size[part], src.size)) % n
        return to

    def demand(self, sends: Floats, group: Ints) -> Floats:
        """Return float64[groups, groups], the traffic from each group's hosts to each group's
        hosts.

        Host h sends `sends[h]` in total, in any unit, and is in group `group[h]`; no group is
        empty. With `group = arange(n)` it is the demand of every pair of hosts.
        """
        groups = int(group.max()) + 1
        by_group = np.argsort(group, kind="stable")
        begins = np.searchsorted(group[by_group], np.arange(groups))
        found = np.zeros((groups, groups))
        for first in range(0, groups, BLOCK):
            these = np.flatnonzero((group >= first) & (group < first + BLOCK))
            to_hosts = self._to_hosts(sends, these, group[these] - first)
            found[first : first + BLOCK] = np.add.reduceat(to_hosts[:, by_group], begins, axis=1)
        return found

    def received(self, sends: Floats) -> Floats:
        """Return float64[n], the traffic that each host receives if host h sends `sends[h]`."""
        everybody = np.arange(len(self.first))
        found: Floats = self._to_hosts(sends, everybody, 0 * everybody)[0]
        return found

    def _to_hosts(self, sends: Floats, these: Ints, row: Ints) -> Floats:
        """Return float64[rows, n], the traffic that each host receives from the hosts `these`;
        `these[k]` adds to row `row[k]`."""
        n = len(self.first)
        steps = np.zeros((int(row.max()) + 1, n + 1))
        for first, size, share in zip(
            self.first[these].T, self.size.tolist(), self.share[these].T, strict=True
        ):
            each, last = sends[these] * share / size, first + size
            wraps = last > n
            np.add.at(steps, (row, first), each)
            np.add.at(steps, (row, np.where(wraps, last - n, last)), -each)
            np.add.at(steps, (row[wraps], 0), each[wraps])
        found: Floats = np.cumsum(steps[:, :n], axis=1)
        return np.where(found > ROUNDING * sends.max(), found, 0)


def uniform(n: int) -> Destinations:
    """Return equal shares for the other n - 1 hosts. Raises InputError for fewer than two hosts."""
    if n < 2:
        raise InputError("needs at least two hosts", key="traffic")
    return Destinations((np.arange(n)[:, None] + 1) % n, np.array([n - 1]), np.ones((n, 1)))


@frozen
class _Hosts:
    """The patterns of n hosts, one method each; `shape` of their grid, () if there is none."""

    n: int
    shape: tuple[int, ...]
    given: Mapping[str, Any]
    rng: Rng

    def uniform(self) -> Destinations:
        return uniform(self.n)

    def bit_complement(self) -> Destinations:
        if self.n & (self.n - 1):
            raise InputError(f"{self.n} hosts are not a power of two", key="traffic.pattern")
        return Destinations.partners(self.n - 1 - np.arange(self.n))

    def tornado(self) -> Destinations:
        return Destinations.partners(self._moved([-(-k // 2) - 1 for k in self._grid()]))

    def transpose(self) -> Destinations:
        shape = self._grid()
        if len(shape) < 2 or shape != shape[::-1]:
            hint = 'such as "8x8" or "4x8x4"'
            raise InputError(f"{_written(shape)} is not square", key="traffic.shape", hint=hint)
        host = np.arange(self.n).reshape(*shape, -1)
        axes = (*range(len(shape))[::-1], len(shape))
        return Destinations.partners(host.transpose(axes).reshape(-1))

    def group_plus_one(self) -> Destinations:
        groups, offset = self._grid()[0], self.given["group_offset"]
        if offset % groups == 0:
            message = f"an offset of {offset} leads back to the same one of {groups} groups"
            raise InputError(message, key="traffic.group_offset", hint="no multiple of them")
        size = self.n // groups
        first = (np.arange(self.n) // size + offset) % groups * size
        return Destinations(first[:, None], np.array([size]), np.ones((self.n, 1)))

    def hot_spot(self) -> Destinations:
        hot, fraction, others = self.given["hot_hosts"], self.given["hot_fraction"], uniform(self.n)
        if hot >= self.n:
            message, hint = f"{hot} of {self.n} hosts", f"less than {self.n}"
            raise InputError(message, key="traffic.hot_hosts", hint=hint)
        targets = np.arange(hot) * self.n // hot
        share = np.full((self.n, hot + 1), fraction / hot)
        share[:, -1] = 1 - fraction
        share[targets] = np.arange(hot + 1) == hot
        first = np.hstack([np.tile(targets, (self.n, 1)), others.first])
        return Destinations(first, np.append(np.ones(hot, np.int64), others.size), share)

    def near_neighbor(self) -> Destinations:
        return Destinations.partners(self._moved([1] * len(self._grid())))

    def stencil(self) -> Destinations:
        shape = self._grid()
        moves = np.eye(len(shape), dtype=np.int64)
        steps = [by * move for k, move in zip(shape, moves, strict=True) for by in _ways(k)]
        if not steps:
            raise InputError("a stencil of one place", key="traffic.shape")
        return Destinations.partners(*(self._moved(step.tolist()) for step in steps))

    def random_permutation(self) -> Destinations:
        uniform(self.n)  # raises if there are fewer than two hosts
        return Destinations.partners(derangement(self.n, self.rng))

    def _grid(self) -> tuple[int, ...]:
        if not self.shape:
            message = "missing: the topology has no coordinates for this pattern"
            hint = 'such as "8x8": hosts row by row'
            raise InputError(message, key="traffic.shape", hint=hint)
        return self.shape

    def _moved(self, by: Sequence[int]) -> Ints:
        """Return int64[n], the host that many steps ahead in each dimension of the grid."""
        host = np.arange(self.n).reshape(*self.shape, -1)
        return np.roll(host, [-one for one in by], tuple(range(len(by)))).reshape(-1)


def _ways(k: int) -> tuple[int, ...]:
    """Return the steps to the neighbors in a dimension of k places, without repetition."""
    return (1, -1)[: min(k, 3) - 1]


PATTERNS = {
    "uniform": "every other host equally",
    "bit_complement": "the host whose number has all bits inverted",
    "tornado": "the host ceil(k / 2) - 1 places on in each dimension of k places",
    "transpose": "the host at the coordinates in reverse order",
    "group_plus_one": "the hosts whose first coordinate is larger by `group_offset`, equally",
    "hot_spot": "`hot_hosts` evenly spaced hosts get `hot_fraction`, all others the rest",
    "near_neighbor": "the host one place on in each dimension",
    "stencil": "the hosts one place before and after in each dimension, equally",
    "random_permutation": "one random host; each host receives from one",
}
"""Name -> destinations of a host."""

UNIFORM = "uniform"

RANDOM = "random"  # value of `routing_table`: a table drawn for each flow

PATTERN_PARAMS = [
    Param(
        "pattern", "choice", UNIFORM,
        "where hosts send (netsim/traffic/README.md lists them)", choices=tuple(PATTERNS),
    ),
    Param(
        "shape", "text", None,
        'grid of the hosts, such as "8x8"; default: the topology\'s',
    ),
    Param("group_offset", "count", 1, "distance of groups in group_plus_one", minimum=1),
    Param("hot_hosts", "count", 1, "hosts that hot_spot favors", minimum=1, maximum=MAX_HOT),
    Param("hot_fraction", "fraction", 0.1, "share of the other hosts' traffic that goes to them"),
    Param(
        "routing_table", "text", None,
        "routing table of the flows' data, or random: one for each flow; default: the topology's "
        "rules",
    ),
]  # fmt: skip


def destinations(given: Mapping[str, Any], network: Network, rng: Rng) -> Destinations:
    """Return the destinations of a pattern, `given` as PATTERN_PARAMS. Only random_permutation
    draws. Raises InputError for a pattern that does not fit the hosts or has no senders."""
    n, shape = network.n_hosts, network.shape
    if given["shape"] is not None:
        with errors_at(key="traffic.shape"):
            shape = parse_shape(given["shape"])
        if n % prod(shape):
            message = f"{_written(shape)} does not divide {n} hosts"
            raise InputError(message, key="traffic.shape")
    found: Destinations = getattr(_Hosts(n, shape, given, rng), given["pattern"])()
    if not found.senders.size:
        raise InputError("every host would send to itself", key="traffic.pattern")
    return found


def name_tables(flows: FlowTable, given: Mapping[str, Any], network: Network, rng: Rng) -> None:
    """Set the routing tables of flows by `routing_table` of PATTERN_PARAMS. Raises InputError if
    the network has no such table."""
    name = given["routing_table"]
    if name is None:
        return
    names = [] if network.policy is None else network.policy.names
    if name == RANDOM and names:
        flows.use_tables(rng.integers(0, len(names), len(flows)), names)
        return
    if name not in names:
        hint = did_you_mean(name, [*names, RANDOM]) if names else "the topology has only one"
        message = f"no routing table is named {written(name)}"
        raise InputError(message, key="traffic.routing_table", hint=hint)
    flows.use_tables(0, [name])


def derangement(n: int, rng: Rng) -> Ints:
    """Return a permutation of 0..n-1 without fixed points, each equally likely; n >= 2. Draws
    permutations until one has no fixed point: e draws on average."""
    identity = np.arange(n)
    while True:
        permutation = rng.permutation(n)
        if not (permutation == identity).any():
            return permutation


def _written(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))
