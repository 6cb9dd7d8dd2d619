"""ASTRA-sim configurations: the network of its analytical back end, and its system.

    topology: [ Switch, Ring ]
    npus_count: [ 8, 2 ]
    bandwidth: [ 400.0, 50.0 ]  # GB/s of 2^30 bytes
    latency: [ 936.25, 1000 ]   # ns of a link

The network is YAML, restricted to lists of words in brackets or in lines with dashes. The system is
a JSON object.

Source: astra-sim/astra-sim, examples/network and examples/system, CollectiveImplLookup.cc;
astra-sim/astra-network-analytical, Helper.cc.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netsim.common.inputs import at_line, bounded, read_json, read_lines, reading
from netsim.errors import InputError
from netsim.limits import DELAY_PS, RATE_BPS
from netsim.units import written

RING, SWITCH, FULL = SHAPES = ("Ring", "Switch", "FullyConnected")
KEYS = ("topology", "npus_count", "bandwidth", "latency")
BITS_PER_GB = 8 * 2**30

COLLECTIVES = {
    name: name.replace("-", "_")
    for name in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
}
ALGORITHMS = {
    "ring": "ring",
    "oneRing": "ring",
    "direct": "direct",
    "oneDirect": "direct",
    "halvingDoubling": "halving_doubling",
    "oneHalvingDoubling": "halving_doubling",
    "doubleBinaryTree": "double_binary_tree",
}
"""ASTRA-sim's names and netsim's."""

BEHIND = ("-implementation", "-implementation-custom")
SPLITS, ACTIVE, DELAY = "preferred-dataset-splits", "active-chunks-per-dimension", "endpoint-delay"
ROOFLINE, PEAK, MEMORY = "roofline-enabled", "peak-perf", "local-mem-bw"
UNREAD = (
    *("scheduling-policy", "collective-optimization", "boost-mode", "trace-enabled"),
    *("replay-only", "local-mem-trace-filename", "track-local-mem"),
)
"""Ignored keys: netsim or the trace determines these."""


@dataclass(frozen=True)
class Dimension:
    """A dimension of a network: groups of `n` NPUs joined by links."""

    shape: str
    n: int
    rate_bps: int
    latency_ps: int


@dataclass(frozen=True)
class System:
    """The collectives and compute rates of a system.

    Attributes:
        algorithms: netsim's names of collectives and algorithms.
        channels: number of chunks of a collective.
        latency_ps: of each message.
        tflops, memory_bps: of a rank; None: computations take the time in the trace.
        unread: ignored keys in the file.
    """

    algorithms: Mapping[str, str]
    channels: int
    latency_ps: int
    tflops: float | None
    memory_bps: int | None
    unread: tuple[str, ...]


def read_network(path: Path) -> tuple[Dimension, ...]:
    """Read the dimensions of a network. Raises InputError with the line."""
    found: dict[str, tuple[int, list[str]]] = {}
    key = ""
    for line, text in read_lines(path):
        if match := re.fullmatch(r"-\s+(\S+)", text):
            if not key:
                raise at_line(path, line, f"{written(text)} does not belong to a list")
            found[key][1].append(match[1])
            continue
        key, colon, value = (part.strip() for part in text.partition(":"))
        if not colon or key not in KEYS or key in found:
            hint = f"{', '.join(KEYS)}, once each, such as npus_count: [ 8, 2 ]"
            if text.startswith("{"):
                hint = "an analytical network; of ns-3, its topology.txt is read by kind graph"
            raise at_line(path, line, f"{written(text)} is not understood", hint)
        if value and not re.fullmatch(r"\[.*\]", value):
            raise at_line(path, line, f"{written(value)} is not a list", "such as [ 8, 2 ]")
        found[key] = line, [word.strip() for word in value[1:-1].split(",") if word.strip()]
        key = "" if value else key
    for name in KEYS:
        if name not in found:
            raise InputError(f"has no {name}", file=str(path), hint=", ".join(KEYS))
    counts = {len(words) for _, words in found.values()}
    if len(counts) > 1 or counts == {0}:
        raise InputError("its lists are not equally long", file=str(path), hint="one entry each")
    columns = [[(found[name][0], word) for word in found[name][1]] for name in KEYS]
    return tuple(_dimension(path, row) for row in zip(*columns, strict=True))


def _dimension(path: Path, row: Sequence[tuple[int, str]]) -> Dimension:
    (line, shape), count, rate, latency = row
    if shape not in SHAPES:
        raise at_line(path, line, f"{written(shape)} is not a topology", ", ".join(SHAPES))
    with reading(path, count[0]):
        n = bounded("NPUs", count[1], least=2)
    with reading(path, rate[0]):
        rate_bps = round(_real(rate[1], RATE_BPS / BITS_PER_GB) * BITS_PER_GB)
    with reading(path, latency[0]):
        return Dimension(shape, n, rate_bps, round(_real(latency[1], DELAY_PS / 1000) * 1000))


def _real(word: str, below: float) -> float:
    try:
        number = float(word) if len(word) < 30 else math.nan
    except ValueError:
        number = math.nan
    if not 0 < number < below:
        raise InputError(f"{written(word)} is not a number above 0 and below {below:.0f}")
    return number


def read_system(path: Path) -> System:
    """Read a system. Raises InputError with the key."""
    body = read_json(path)
    try:
        return _system(body)
    except InputError as error:
        raise error.at(file=str(path)) from None


def _system(body: Any) -> System:
    if not isinstance(body, dict):
        raise InputError("is not an object", hint='such as {"all-reduce-implementation": ["ring"]}')
    algorithms = {}
    known = {SPLITS, ACTIVE, DELAY, ROOFLINE, PEAK, MEMORY, *UNREAD}
    for name, what in COLLECTIVES.items():
        known |= {name + end for end in BEHIND}
        if name + BEHIND[1] in body:
            hint = "use that file as traffic of kind chakra, or msccl for its XML source"
            raise InputError(
                "custom algorithms are not supported here", key=name + BEHIND[1], hint=hint
            )
        if name + BEHIND[0] in body:
            algorithms[what] = _algorithm(name + BEHIND[0], body[name + BEHIND[0]])
    for key in body:
        if key not in known:
            raise InputError("is not a supported key", key=str(key), hint=", ".join(sorted(known)))
    roofline = bool(_number(body, ROOFLINE, 0))
    memory = _number(body, MEMORY, 0)
    return System(
        algorithms=algorithms,
        channels=max(1, int(_number(body, SPLITS, 1))),
        latency_ps=round(_number(body, DELAY, 0) * 1000),
        tflops=_number(body, PEAK, 0) or None if roofline else None,
        memory_bps=round(memory * BITS_PER_GB) or None if roofline else None,
        unread=tuple(key for key in (*UNREAD, ACTIVE) if key in body),
    )


def _algorithm(key: str, given: Any) -> str:
    if not isinstance(given, list) or len(given) != 1:
        hint = 'one; for several dimensions traffic.algorithm = "hierarchical" and traffic.node'
        raise InputError(f"{written(given)} is not a list of one algorithm", key=key, hint=hint)
    name = re.sub(r"(?<=irect)[0-9]+$", "", given[0]) if isinstance(given[0], str) else ""
    if name not in ALGORITHMS:
        raise InputError(
            f"{written(given[0])} is not an algorithm", key=key, hint=", ".join(ALGORITHMS)
        )
    return ALGORITHMS[name]


def _number(body: Mapping[str, Any], key: str, default: float) -> float:
    value = body.get(key, default)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < 1e9:
        raise InputError(f"{written(value)} is not a number", key=key, hint="0 or more, below 10^9")
    return float(value)
