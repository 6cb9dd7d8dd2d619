"""Network of ASTRA-sim's analytical back end, from its YAML file.

Each dimension connects its NPUs by a switch, in a bidirectional ring, or all to all, with links of
equal bandwidth and latency. An NPU is a host. In a single dimension with a switch, hosts connect to
it. Otherwise, every NPU has a router next to its host, which has the links of all its dimensions
and forwards traffic through the NPU. Packets use all shortest paths, while ASTRA-sim routes
dimension by dimension.

As in ASTRA-sim, a neighbor in a ring, or any NPU in an all-to-all dimension, is one latency away,
or two through a switch. The cable between host and router takes a twentieth of the smallest
latency, so a path through k - 1 other NPUs takes k latencies minus a tenth of k - 1. That cable
has the total rate of the NPU's links.

Bandwidths are in units of 2^30 bytes per second, as in ASTRA-sim.

    topology: [ Switch, Ring ]
    npus_count: [ 8, 2 ]
    bandwidth: [ 400.0, 50.0 ]  # GB/s of 2^30 bytes
    latency: [ 936.25, 1000 ]   # ns of a link

Values are lists in brackets or lines with dashes. Source: astra-sim/astra-sim, examples/network;
astra-sim/astra-network-analytical, Helper.cc.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from netsim.common.inputs import at_line, bounded, read_lines
from netsim.errors import InputError, errors_at
from netsim.frozen import frozen
from netsim.limits import DELAY_PS, RATE_BPS
from netsim.network import Network, NetworkBuilder
from netsim.params import REQUIRED, Param, Params
from netsim.units import written

RING, SWITCH, FULL = SHAPES = ("Ring", "Switch", "FullyConnected")
KEYS = ("topology", "npus_count", "bandwidth", "latency")
BITS_PER_GB = 8 * 2**30


@frozen
class Dimension:
    """A dimension of a network: groups of `n` NPUs joined by links."""

    shape: str
    n: int
    rate_bps: int
    latency_ps: int


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
    with errors_at(file=f"{path}:{count[0]}"):
        n = bounded("NPUs", count[1], least=2)
    with errors_at(file=f"{path}:{rate[0]}"):
        rate_bps = round(_real(rate[1], RATE_BPS / BITS_PER_GB) * BITS_PER_GB)
    with errors_at(file=f"{path}:{latency[0]}"):
        return Dimension(shape, n, rate_bps, round(_real(latency[1], DELAY_PS / 1000) * 1000))


def _real(word: str, below: float) -> float:
    try:
        number = float(word) if len(word) < 30 else math.nan
    except ValueError:
        number = math.nan
    if not 0 < number < below:
        raise InputError(f"{written(word)} is not a number above 0 and below {below:.0f}")
    return number


PARAMS = [Param("file", "file", REQUIRED, "network file of ASTRA-sim (.yml)")]

HOST_CABLE_DIVISOR = 20  # divisor of the smallest latency for the cable between host and router


def build(params: Params) -> Network:
    """Return the network of `params` (see PARAMS). Raises InputError naming the file and line."""
    path = Path(params["file"])
    dimensions = read_network(path)
    shape = [one.n for one in reversed(dimensions)]  # the first dimension varies fastest
    n = math.prod(shape)
    direct = len(dimensions) == 1 and dimensions[0].shape == SWITCH
    builder = NetworkBuilder()
    builder.reserve(
        hosts=n,
        switches=(0 if direct else n) + sum(n // one.n for one in dimensions),
        cables=n + sum(n * _links(one) for one in dimensions),
        edges=1 if direct else n,
        ports=max(one.n for one in dimensions) + 1,
    )
    hosts = np.array(builder.add_hosts(n))
    host_cable_ps = 0
    nodes = hosts
    if not direct:
        host_cable_ps = max(min(one.latency_ps for one in dimensions) // HOST_CABLE_DIVISOR, 1)
        nodes = np.array(builder.add_switches([f"npu{k}" for k in range(n)]))
        rate = sum(one.rate_bps * _links(one) for one in dimensions)
        builder.cables(hosts, nodes, rate, host_cable_ps)
    for number, one in enumerate(dimensions):
        groups = np.moveaxis(nodes.reshape(shape), -1 - number, -1).reshape(-1, one.n)
        if one.shape == SWITCH:
            names = [f"dim{number}.switch{k}" for k in range(len(groups))]
            tops = np.array(builder.add_switches(names, 0 if direct else 1))
            builder.cables(
                groups, tops[:, None], one.rate_bps, max(one.latency_ps - host_cable_ps, 1)
            )
            continue
        if one.shape == RING:
            a = np.arange(1 if one.n == 2 else one.n)
            b = (a + 1) % one.n
        else:
            a, b = np.triu_indices(one.n, 1)
        delay_ps = max(one.latency_ps - 2 * host_cable_ps, 1)
        builder.cables(groups[:, a], groups[:, b], one.rate_bps, delay_ps)
    return builder.build(path.stem)


def _links(one: Dimension) -> int:
    """Return the number of links of an NPU in a dimension."""
    return {SWITCH: 1, RING: min(one.n - 1, 2), FULL: one.n - 1}[one.shape]
