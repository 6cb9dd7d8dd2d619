"""Parameters of traffic patterns: collective options and placement; CSV files of placement and of
token routing.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from netsim.common.inputs import user_path, whole
from netsim.errors import InputError, did_you_mean
from netsim.flows import Rng, TrafficContext
from netsim.model.columns import Ints
from netsim.network import Network
from netsim.params import Param, Params
from netsim.traffic._rows import Rows, each, fail_at, read_csv
from netsim.workloads.collectives import ALGORITHMS
from netsim.workloads.collectives.steps import COLLECTIVES, RING_ORDERS
from netsim.workloads.job.job import Job
from netsim.workloads.job.messages import AXES, Ranks
from netsim.workloads.operations import CollectiveOptions, Wires
from netsim.workloads.serving.plan import check_used
from netsim.workloads.training.sample import Routing, recorded

CHOICES = ("auto", *ALGORITHMS)


def params_of(each: tuple[str, ...]) -> list[Param]:
    """Return parameters that may differ between kinds of messages or collectives."""
    return [
        Param("algorithm", "choice", "auto", "collective algorithm", choices=CHOICES, each=each),
        Param("channels", "count", 1, "channels of a collective", minimum=1, each=each),
        Param("chunk", "bytes", None, "unit of forwarding; default: all", minimum="1B", each=each),
    ]


COLLECTIVE_PARAMS = [
    *params_of(COLLECTIVES),
    Param("latency", "time", "0us", "software latency of each step", each=COLLECTIVES),
    Param("node", "count", None, "ranks per node, for hierarchical", minimum=1),
    Param(
        "ring_order",
        "choice",
        "same",
        "order of the channels of a ring, with nodes of `node` ranks",
        choices=RING_ORDERS,
        each=COLLECTIVES,
    ),
]


def how_of(params: Params, what: str) -> CollectiveOptions:
    return CollectiveOptions(
        algorithm=params["algorithm"][what],
        chunk_bytes=params["chunk"][what],
        channels=params["channels"][what],
        latency_ps=params["latency"][what],
        node=params["node"],
        ring_order=params["ring_order"][what],
    )


def wires_of(network: Network, context: TrafficContext) -> Wires:
    return Wires(network, context.payload_bytes, context.header_bytes)


def group_size_of(params: Params, network: Network) -> int:
    """Return `group_size`, all hosts by default. Raises InputError if groups do not fill them."""
    n_hosts = network.n_hosts
    n: int = params["group_size"] or n_hosts
    if n_hosts % n or n_hosts < 2:
        what = f"groups of {n} hosts do not fill {n_hosts} hosts"
        raise InputError(what, key="traffic.group_size", hint=f"a divisor of {n_hosts}")
    return n


CONSECUTIVE, RANDOM, FILE = PLACEMENTS = ("consecutive", "random", "file")

PLACEMENT_PARAMS = [
    Param(
        "placement",
        "choice",
        CONSECUTIVE,
        "rank r on host r, random, or a file",
        choices=PLACEMENTS,
    ),
    Param("placement_file", "file", None, "file: CSV file with the columns rank and host"),
]

LARGEST = 2**31 - 1


def hosts_of(
    params: Params,
    n_ranks: int,
    n_hosts: int,
    directory: Path,
    rng: Rng,
    hint: str | None = None,
) -> Ints:
    """int64[n_ranks]: the host of each rank. Raises InputError if there are too few hosts."""
    if n_ranks > n_hosts:
        raise InputError(
            f"{n_ranks} ranks exceed the network's {n_hosts} hosts (one rank per host)",
            key="traffic.file",
            hint=hint or "a larger network",
        )
    how = params["placement"]
    check_used(params, {"placement_file": (how == FILE, 'placement = "file"')})
    if how == FILE:
        return placement_of(n_ranks, params["placement_file"], directory, n_hosts)
    return rng.permutation(n_hosts)[:n_ranks] if how == RANDOM else np.arange(n_ranks)


def placement_of(ranks: Ranks | int, file: str, directory: Path, n_hosts: int) -> Ints:
    """int64[ranks]: the host of each rank, from a CSV file; no two may be the same.

    Columns are host, and rank or, for `Ranks`, the axes pp, dp, cp and tp. Raises InputError with
    file and line.
    """
    rows = read_csv(user_path(file, directory))
    n_ranks = ranks if isinstance(ranks, int) else len(ranks)
    shape = {"rank": n_ranks}
    if isinstance(ranks, Ranks) and "rank" not in rows.columns:
        shape = {axis: getattr(ranks, axis) for axis in AXES}
    needed = [name for name, n in shape.items() if name == "rank" or n > 1]
    _check_columns(rows, ("host", *shape), ("host", *needed))
    places = tuple(_numbers(rows, name, n - 1) for name, n in shape.items())
    rank = np.ravel_multi_index(places, tuple(shape.values()))
    host = _numbers(rows, "host", n_hosts - 1)
    for what, values in (("rank", rank), ("host", host)):
        again = np.ones(rows.n_rows, bool)
        again[np.unique(values, return_index=True)[1]] = False
        fail_at(rows, again, lambda row, w=what, v=values: f"duplicate {w} {v[row]}")  # type: ignore[misc]
    if rows.n_rows < n_ranks:
        missing = np.setdiff1d(np.arange(n_ranks), rank)[0]
        message = f"missing rank {missing}: {rows.n_rows:,} of {n_ranks:,} ranks"
        raise InputError(message, file=str(rows.path), code="missing")
    hosts = np.empty(n_ranks, np.int64)
    hosts[rank] = host
    return hosts


def routing_of(job: Job, file: str, directory: Path) -> Routing:
    """Read recorded routing from a CSV file with a line per layer, source rank and expert.

    Columns are expert, tokens, and optionally layer and source (rank in the expert-parallel group).
    Higher layers and sources wrap around; missing entries are 0. Raises InputError with file and
    line.
    """
    rows = read_csv(user_path(file, directory))
    _check_columns(rows, ("layer", "source", "expert", "tokens"), ("expert", "tokens"))
    layer = _numbers(rows, "layer", job.model.layers - 1)
    source = _numbers(rows, "source", job.layout.ep - 1)
    expert = _numbers(rows, "expert", job.model.experts - 1)
    tokens = _numbers(rows, "tokens", LARGEST)
    counts = np.zeros((int(layer.max()) + 1, int(source.max()) + 1, job.model.experts))
    np.add.at(counts, (layer, source, expert), tokens)
    for one, rank in np.argwhere(counts.sum(-1) == 0)[:1].tolist():
        raise InputError(
            f"source {rank} of layer {one} sends no tokens",
            file=str(rows.path),
            hint="list tokens for every layer and source up to the last",
        )
    return recorded(job, counts)


def _check_columns(rows: Rows, known: tuple[str, ...], needed: tuple[str, ...]) -> None:
    file = str(rows.path)
    for name in rows.columns:
        if name not in known:
            hint = did_you_mean(name, known)
            raise InputError(f'unknown column "{name}"', file=file, hint=hint, code="unknown_key")
    for name in needed:
        if name not in rows.columns:
            raise InputError(f"missing column {name}", file=file, code="missing")
    if not rows.n_rows:
        raise InputError("no rows", file=file)


def _numbers(rows: Rows, name: str, largest: int) -> Ints:
    """Return a column of numbers from 0 to the largest, or zeros if missing."""
    if name not in rows.columns:
        return np.zeros(rows.n_rows, np.int64)
    values = np.array(each(rows, name, whole), np.int64)
    bad = (values < 0) | (values > largest)
    fail_at(rows, bad, lambda row: f"{name} {values[row]} is out of range (0 to {largest})")
    return values
