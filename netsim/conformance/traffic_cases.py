"""Cases for traffic patterns."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from netsim.conformance import networks
from netsim.conformance.finding import ConformanceError, NotApplicableError
from netsim.conformance.handler_monitor import explain
from netsim.conformance.traffic_testbed import RefusedError, TrafficTestbed, columns_of
from netsim.errors import InputError
from netsim.model.fabric import PacketFormat, packet_counts
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.plugins.params import Param

END_PS = 2 * 10**9

TRIED: Mapping[str, tuple[Any, ...]] = {
    "count": (0, 1, 2, 3, 7, 2**31 - 1),
    "bytes": ("1B", "1TB"),
    "sizes": ("1B", "web_search"),
    "time": ("0ns", "1ps", "1h"),
    "rate": ("1bps", "1Tbps"),
    "fraction": (0, 0.001, 0.5, 1),
    "ratio": (0, 1e-9, 1, 1e9),
    "bool": (False, True),
    "text": ("", "x", "3", "4x4"),
    "file": ("missing.csv",),
}
"""Values that are tried of each kind of parameter, as written."""

SECONDS = 20
"""Most time for the flows of a large network, and a tenth of it for each million flows besides."""


def flows(testbed: TrafficTestbed) -> str:
    found = {network.name: _count(testbed, network) for network in _networks()}
    if not any(isinstance(one, int) for one in found.values()):
        raise ConformanceError("every network is refused: " + str(next(iter(found.values()))))
    return "; ".join(
        f"{name}: {one:,} flows" if isinstance(one, int) else f"{name}: refused"
        for name, one in found.items()
    )


def seed(testbed: TrafficTestbed) -> str:
    network = _accepted(testbed)
    runs = []
    for global_seed in (1, 2):
        random.seed(global_seed)
        np.random.seed(global_seed)
        runs.append(columns_of(testbed.load(network)))
    for name, column in runs[0].items():
        if not np.array_equal(column, runs[1][name]):
            raise ConformanceError(f"{name} differs in a second call (use `rng` and no other)")
    return f"{len(runs[0])} columns are equal in two calls"


def load(testbed: TrafficTestbed) -> str:
    _require_open_loop(testbed)
    network = _accepted(testbed)
    table = testbed.flows(network)
    end_ps = testbed.params.get("duration") or int(table.start_ps.max())
    return _offered(testbed, table, network, end_ps)


def measured(testbed: TrafficTestbed) -> str:
    _require_open_loop(testbed)
    network = _accepted(testbed)
    ends = [param for param in testbed.plugin.params if param.name in ("duration", "n_flows")]
    without = {param.name: None for param in ends if param.optional}
    try:
        table = testbed.with_params(**without).flows(network, end_ps=END_PS)
    except RefusedError as refusal:
        raise ConformanceError(f"with [measure]: {refusal}") from None
    return _offered(testbed, table, network, END_PS)


def parameters(testbed: TrafficTestbed) -> str:
    tried = refused = 0
    for param, value in _values(testbed):
        try:
            params = {param.name: param.convert(value)}
        except InputError:
            continue
        for network in _networks():
            tried += 1
            try:
                testbed.with_params(**params).load(network)
            except RefusedError:
                refused += 1
            except ConformanceError as error:
                raise ConformanceError(f"{param.name} = {value}: {error}") from None
            except Exception as error:
                text = explain(error, testbed.subject)
                raise ConformanceError(f"{param.name} = {value}: {text}") from None
    return f"{tried} networks and values, {refused} of them refused"


def scale(testbed: TrafficTestbed) -> str:
    network = networks.star(8192 if testbed.long else 1024)
    began = time.process_time()
    count = _count(testbed, network)
    seconds = time.process_time() - began
    what = f"{network.n_hosts:,} hosts"
    if not isinstance(count, int):
        raise NotApplicableError(f"{what} are refused: {count}")
    if seconds > SECONDS * (1 + count / 10**7):
        raise ConformanceError(f"{count:,} flows of {what} take {seconds:.0f} s")
    return f"{count:,} flows of {what}"


def _networks() -> Iterator[Network]:
    """Yield 2, 8, 9 and 16 hosts, two of them in a grid."""
    yield networks.star(2)
    yield networks.tree()
    yield networks.torus("3x3")
    yield networks.torus("4x4")


def _count(testbed: TrafficTestbed, network: Network) -> int | str:
    """Return the number of flows, or why the network is refused."""
    try:
        return len(testbed.flows(network))
    except RefusedError as refusal:
        return str(refusal)


def _accepted(testbed: TrafficTestbed) -> Network:
    """Return the last network that the pattern does not refuse."""
    for network in reversed(list(_networks())):
        if isinstance(_count(testbed, network), int):
            return network
    raise NotApplicableError("every network is refused")


def _param(testbed: TrafficTestbed, name: str) -> Param:
    return next(param for param in testbed.plugin.params if param.name == name)


def _require_open_loop(testbed: TrafficTestbed) -> None:
    given = testbed.params.get("load")
    if given is None or _param(testbed, "load").unit != "ratio":
        raise NotApplicableError("it has no parameter load of kind ratio, or that is not set")


def _offered(testbed: TrafficTestbed, table: FlowTable, network: Network, end_ps: int) -> str:
    """Compare the load of flows until `end_ps` with that given, within four standard errors."""
    packets = PacketFormat()
    wire = table.size_bytes + packet_counts(table.size_bytes, packets) * packets.header_bytes
    senders = np.unique(table.src).size
    offered = float(wire.sum()) * 8 * 10**12 / (senders * network.host_rate_bps * end_ps)
    error = float(np.sqrt((wire.astype(float) ** 2).sum()) / wire.sum())
    if error > 0.1:
        raise NotApplicableError(f"{len(table)} flows are too few to tell (set a longer duration)")
    given = float(testbed.params["load"])
    if abs(offered / given - 1) > 4 * error + 0.01:
        raise ConformanceError(f"offers a load of {offered:.4g} instead of {given:.4g}")
    return f"{len(table):,} flows offer a load of {offered:.4g}, given {given:.4g}"


def _values(testbed: TrafficTestbed) -> Iterator[tuple[Param, Any]]:
    """Yield the values to try of each parameter, as written."""
    for param in testbed.plugin.params:
        values = param.choices if param.unit == "choice" else TRIED.get(param.unit, ())
        for value in (*values, *([param.none] if param.optional else [])):
            yield param, value
