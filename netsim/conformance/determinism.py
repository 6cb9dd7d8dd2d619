"""Cases: the result does not depend on how it is computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netsim.conformance import networks
from netsim.conformance.finding import COMPILED, Cases, ConformanceError
from netsim.conformance.networks import two_of_each
from netsim.conformance.testbed import Run, Testbed, run_until
from netsim.engine.sizes import Sizes
from netsim.model.flows import FlowTable
from netsim.model.network import Network

DETERMINISM = Cases()
"""Cases for all kinds that the engine runs."""


@DETERMINISM("windows", "same result for any window length")
def windows(testbed: Testbed) -> str:
    lengths_ps = (1_000_000, 370_000, 41_001)
    return _same(testbed, {f"windows of {ps} ps": {"window_ps": ps} for ps in lengths_ps})


@DETERMINISM("growth", "same result with little working memory")
def growth(testbed: Testbed) -> str:
    return _same(testbed, {"much working memory": {}, "little": {"sizes": Sizes(scratch=4)}})


@DETERMINISM("resumed", "same result from a checkpoint")
def resumed(testbed: Testbed) -> str:
    """A run that is saved half-way and continued by another engine is the same run."""
    network = testbed.prepared(networks.tree())
    table = testbed.crowd()
    run = testbed.run(table, network)
    first, second = (testbed.engine(table, network, jit=False) for _ in range(2))
    run_until(first, run.engine.now_ps // 2)
    second.restore(first.snapshot())
    run_until(second, run.engine.now_ps)
    if second.digest() != run.engine.digest():
        raise ConformanceError(
            "a continued run differs: handlers must keep state only in what the file declares"
        )
    return run.line()


@DETERMINISM("compiled", "same result compiled and plain", COMPILED)
def compiled_as_plain(testbed: Testbed) -> str:
    return _same(testbed, {"compiled code": {"jit": True}, "plain Python": {"jit": False}})


@DETERMINISM("threads", "same result for 1, 2, 4 threads", COMPILED)
def threads(testbed: Testbed) -> str:
    network = testbed.prepared(networks.tree(leaves=8, per_leaf=4))
    table = two_of_each(network.n_hosts, 60, testbed.n_traffic_classes)
    ways = {f"{count} threads": {"jit": True, "threads": count} for count in (1, 2, 4)}
    return _compare(testbed, table, network, ways).line()


def _same(testbed: Testbed, ways: Mapping[str, Mapping[str, Any]]) -> str:
    network = testbed.prepared(networks.tree())
    return _compare(testbed, testbed.crowd(), network, ways).line()


def _compare(
    testbed: Testbed, table: FlowTable, network: Network, ways: Mapping[str, Mapping[str, Any]]
) -> Run:
    """Run flows in several ways; require the same state when the first run ends."""
    (first, options), *others = ways.items()
    run = testbed.run(table, network, **options)
    end_ps, digest = run.engine.now_ps, run.engine.digest()
    for way, options in others:
        if testbed.run(table, network, until_ps=end_ps, **options).engine.digest() != digest:
            raise ConformanceError(
                f"{first} and {way} give different results: handlers must depend only on "
                "their arguments and the declared state"
            )
    return run
