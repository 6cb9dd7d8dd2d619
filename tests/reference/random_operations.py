"""Random calls of every kind of operation."""

import random
from dataclasses import dataclass, replace
from typing import Any

NS = 1_000
US = 1_000_000
KINDS = ("tp", "pp", "dp")


@dataclass(frozen=True)
class Call:
    """A call: ``what`` is "compute", "join", "send" or a collective.

    ``ranks`` are its rank, source and destination, or group, and ``streams`` are theirs.
    ``size_bytes`` of an all-to-all may be a matrix. ``duration_ps`` is the time of a collective
    without packets, ``latency_ps`` the software latency of a send, ``how`` a collective's options,
    ``orders`` the order in streams (0 by default).
    """

    what: str
    ranks: tuple[int, ...]
    streams: tuple[int, ...]
    kind: str = ""
    size_bytes: int | tuple[tuple[int, ...], ...] = 0
    duration_ps: int | None = None
    latency_ps: int = 0
    how: tuple[tuple[str, Any], ...] = ()
    orders: tuple[int, ...] = ()


End = tuple[int, int]  # a call, and one of its ranks


@dataclass(frozen=True)
class Calls:
    """Calls in their order, with pairs that wait for an end or a start."""

    n_ranks: int
    calls: tuple[Call, ...]
    after: tuple[tuple[End, End], ...]
    after_start: tuple[tuple[End, End], ...]


def random_calls(
    rng: random.Random,
    n_hosts: int,
    known: dict[str, list[str]],
    number: int,
    *,
    hangs: bool = False,
) -> Calls:
    """Return calls of as many ranks as hosts, and of one more, which sends nothing.

    ``known`` are the algorithms of each collective; ``number`` selects one. With
    ``hangs``, ranks may differ in their order, so that they may wait for one another.
    """
    pairs = [(what, one) for what, algorithms in known.items() for one in algorithms]
    calls = [_call(rng, n_hosts, pairs) for _ in range(rng.randint(2, 13))]
    calls.insert(rng.randrange(len(calls)), _packets(rng, n_hosts, *pairs[number % len(pairs)]))
    if rng.random() < 0.3:
        calls = [_ordered(rng, call, hangs) for call in calls]
    calls.append(Call("send", (0, 1), (-1, -1), "pp", 1))  # a run has a flow
    in_order = sorted(range(len(calls)), key=lambda k: max(calls[k].orders, default=0))
    place = {k: at for at, k in enumerate(in_order)}
    found: list[list[tuple[End, End]]] = [[], []]
    for _ in range(rng.choice((0, 5, 20))):
        rank = rng.randrange(n_hosts + 1)
        of_rank = [
            (k, call.ranks.index(rank)) for k, call in enumerate(calls) if rank in call.ranks
        ]
        if len(of_rank) > 1:
            pair = rng.sample(of_rank, 2)
            if not (hangs and rng.random() < 0.1):
                pair.sort(key=lambda end: place[end[0]])
            found[rng.randrange(2)].append((pair[0], pair[1]))
    return Calls(n_hosts + 1, tuple(calls), *(tuple(pairs) for pairs in found))


def _ordered(rng: random.Random, call: Call, hangs: bool) -> Call:
    """Give a call an order in streams, the same for all of its ranks unless they may hang."""
    n = len(call.ranks)
    one = rng.choice((0, 0, 1, 5))
    each = hangs and rng.random() < 0.3
    return replace(call, orders=tuple(rng.choice((0, 1)) if each else one for _ in range(n)))


def _call(rng: random.Random, n_hosts: int, pairs: list[tuple[str, str]]) -> Call:
    sort = rng.choice(("compute", "compute", "join", "send", "send", "packets", "formula"))
    if sort in ("compute", "join"):
        rank, stream = rng.randrange(n_hosts + 1), rng.randint(-1, 2)
        return Call(sort, (rank,), (stream,), duration_ps=_time(rng) if sort == "compute" else 0)
    if sort == "send":
        ranks, streams = _group(rng, n_hosts, 2)
        size, latency = _size(rng), _time(rng)
        return Call("send", ranks, streams, rng.choice(KINDS), size, latency_ps=latency)
    what, algorithm = rng.choice(pairs)
    if sort == "packets":
        return _packets(rng, n_hosts, what, rng.choice((algorithm, algorithm, "auto")))
    # Its ranks may be on one host.
    ranks, streams = _group(rng, n_hosts + 1, rng.randint(1, 3))
    return Call(what, ranks, streams, rng.choice(KINDS), _size(rng), duration_ps=_time(rng))


def _packets(rng: random.Random, n_hosts: int, what: str, algorithm: str) -> Call:
    """Return a collective in packets."""
    n = rng.randint(1, min(n_hosts, 9))
    if algorithm == "halving_doubling":
        n = 1 << n.bit_length() - 1
    ranks, streams = _group(rng, n_hosts, n)
    size: int | tuple[tuple[int, ...], ...] = _size(rng) * rng.choice((1, n))
    how = {
        "algorithm": algorithm,
        "chunk_bytes": rng.choice((None, None, 2000, 6000)),
        "channels": min(rng.choice((1, 1, 2, 3)), size),
        "latency_ps": _time(rng),
        "reduce_bps": rng.choice((None, None, 10**11, 7 * 10**10 + 1)),
        "window": rng.choice((None, 1, 2)),
        "node": rng.choice([k for k in range(1, n + 1) if n % k == 0]),
        "root": rng.randrange(n),
    }
    if what == "all_to_all" and rng.random() < 0.4:
        nothing = algorithm != "hierarchical"  # its later sends may follow only such
        size = tuple(
            tuple(0 if i == j or (nothing and rng.random() < 0.5) else _size(rng) for j in range(n))
            for i in range(n)
        )
    return Call(what, ranks, streams, rng.choice(KINDS), size, how=tuple(how.items()))


def _group(rng: random.Random, n_ranks: int, n: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return ranks and a stream of each, the same half of the time."""
    one = rng.randint(-1, 2)
    same = rng.random() < 0.5
    streams = tuple(one if same else rng.randint(-1, 2) for _ in range(n))
    return tuple(rng.sample(range(n_ranks), n)), streams


def _time(rng: random.Random) -> int:
    return rng.choice((0, 0, NS, 500 * NS, US, rng.randrange(5 * US), rng.randrange(30 * US)))


def _size(rng: random.Random) -> int:
    return rng.choice((1, rng.randint(1, 1000), rng.randint(1, 5_000), rng.randint(1, 20_000)))
