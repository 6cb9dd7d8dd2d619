"""Cases: the result does not depend on how it is computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netsim.conformance import networks
from netsim.conformance.delivery import PACKET, incast_of, packets_of
from netsim.conformance.finding import ConformanceError
from netsim.conformance.testbed import Testbed
from netsim.model.flows import FlowTable
from netsim.model.network import Network


def windows(testbed: Testbed) -> str:
    ways = {
        f"windows of {window} ps": {"window_ps": window} for window in (1_000_000, 370_000, 41_001)
    }
    return same(testbed, incast_of(packets_of(testbed, 12) * PACKET), networks.tree(), ways)


def compiled_as_plain(testbed: Testbed) -> str:
    ways = {"compiled code": {"jit": True}, "plain Python": {"jit": False}}
    return same(testbed, incast_of(12 * PACKET - 5), networks.tree(), ways)


def threads(testbed: Testbed) -> str:
    network = networks.tree(leaves=8, per_leaf=4)
    n = network.n_hosts
    src = [host for host in range(n) for _ in range(2)]
    dst = [(host + step) % n for host in range(n) for step in (5, 16)]
    ways = {f"{count} threads": {"jit": True, "threads": count} for count in (1, 2, 4)}
    return same(testbed, FlowTable(src, dst, 100 * PACKET + 9), network, ways)


def same(
    testbed: Testbed, flows: FlowTable, network: Network, ways: Mapping[str, Mapping[str, Any]]
) -> str:
    """Run flows in several ways; require the same state when the first run ends."""
    (first, options), *others = ways.items()
    run = testbed.run(flows, network, **options)
    digest = run.engine.digest()
    for way, options in others:
        if (
            testbed.run(flows, network, until_ps=run.engine.now_ps, **options).engine.digest()
            != digest
        ):
            raise ConformanceError(
                f"{first} and {way} give different results: handlers must depend only on "
                "their arguments and the declared state"
            )
    return run.line()
