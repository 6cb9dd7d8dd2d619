"""Run the cases on a plugin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from netsim.conformance.cases import (
    CASES,
    COMPILED,
    QUEUE_CASES,
    RELIABLE,
    ROUTING_CASES,
    TRAFFIC_CASES,
    Case,
)
from netsim.conformance.finding import FAIL, METRIC, PASS, SKIP, WARN, Finding, NotApplicableError
from netsim.conformance.handler_monitor import EndlessError, explain
from netsim.conformance.queue_testbed import QueueTestbed
from netsim.conformance.routing_testbed import RoutingTestbed
from netsim.conformance.testbed import Testbed
from netsim.conformance.traffic_testbed import TrafficTestbed
from netsim.engine.compiling.specialize import jit_enabled
from netsim.errors import InputError, RunError, did_you_mean
from netsim.steps import step


def check(
    transport: str | Path,
    *,
    params: Mapping[str, Any] | None = None,
    seed: int = 1,
    long: bool = False,
    cases: Sequence[str] | None = None,
) -> list[Finding]:
    """Run every case on a transport.

    `transport` is a name ("ndp", "dcqcn:paper") or the path of a .py file, `params` are as an
    experiment writes them ({"rto": "1ms"}). `long` uses longer flows, for about ten times as long.
    `cases` are names from `CASES` (default: all).

    Raises InputError if the transport, a parameter or a case is unknown.
    """
    return list(each(Testbed.of(transport, params=params, seed=seed, long=long), cases))


def check_queue(
    queue: str | Path,
    *,
    keys: Mapping[str, Any] | None = None,
    seed: int = 1,
    long: bool = False,
    cases: Sequence[str] | None = None,
) -> list[Finding]:
    """Run every case on a queue discipline; see `check`.

    `queue` is a name ("trim") or the path of a .py file, `keys` are keys of [fabric] as an
    experiment writes them ({"queue_bytes": "20pkt"}), `cases` names from `QUEUE_CASES`.
    """
    return list(each(QueueTestbed.of(queue, keys=keys, seed=seed, long=long), cases))


def check_routing(
    routing: str | Path,
    *,
    keys: Mapping[str, Any] | None = None,
    seed: int = 1,
    long: bool = False,
    cases: Sequence[str] | None = None,
) -> list[Finding]:
    """Run every case on a routing algorithm; see `check_queue`. `cases` are from
    `ROUTING_CASES`."""
    testbed = RoutingTestbed.of(routing, keys=keys, seed=seed, long=long)
    return list(each(testbed, cases))


def check_traffic(
    traffic: str | Path,
    *,
    params: Mapping[str, Any] | None = None,
    seed: int = 1,
    long: bool = False,
    cases: Sequence[str] | None = None,
) -> list[Finding]:
    """Run every case on a traffic pattern; see `check`. `cases` are from `TRAFFIC_CASES`; `long`
    uses more hosts."""
    testbed = TrafficTestbed.of(traffic, params=params, seed=seed, long=long)
    return list(each(testbed, cases))


CASES_OF = {
    Testbed: CASES,
    QueueTestbed: QUEUE_CASES,
    RoutingTestbed: ROUTING_CASES,
    TrafficTestbed: TRAFFIC_CASES,
}


def each(
    testbed: Testbed,
    cases: Sequence[str] | None = None,
    *,
    starting: Callable[[Case], None] = lambda _: None,
    on_hang: Callable[[Finding], None] | None = None,
) -> Iterator[Finding]:
    """Yield the finding of each case. Raises InputError if a case is unknown.

    `starting` is called with every case. `on_hang` is called, in another thread, with the finding
    of a case whose compiled code does not return: only the end of the process stops it.
    """
    seen: dict[str, str] = {}
    chosen = _chosen(CASES_OF[type(testbed)], cases)
    for done, case in enumerate(chosen):
        starting(case)
        step(case.name, done, len(chosen))
        finding = _run(case, _reporting(on_hang, case, testbed))
        step("")
        if finding.failed:
            first = seen.setdefault(finding.detail, case.name)
            if first != case.name:
                finding = Finding(case.name, FAIL, f"as in {first}")
        yield finding


def failures(findings: Iterable[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.failed]


def _chosen(cases: Sequence[Case], names: Sequence[str] | None) -> list[Case]:
    known = {case.name: case for case in cases}
    for name in names or ():
        if name not in known:
            raise InputError(f'unknown case "{name}"', hint=did_you_mean(name, known))
    return [case for case in cases if names is None or case.name in names]


def _reporting(on_hang: Callable[[Finding], None] | None, case: Case, testbed: Testbed) -> Testbed:
    """Return the testbed with `on_hang` called if this case's code does not return."""
    if on_hang is None:
        return testbed
    report = on_hang
    return replace(testbed, on_hang=lambda message: report(Finding(case.name, FAIL, message)))


def _run(case: Case, testbed: Testbed) -> Finding:
    try:
        if getattr(testbed.plugin.module, "CLOSED_FORM", False):
            raise NotApplicableError("closed form: no packets are sent")
        if COMPILED in case.needs and not jit_enabled():
            raise NotApplicableError("NUMBA_DISABLE_JIT is set")
        if RELIABLE in case.needs and not testbed.reliable:
            raise NotApplicableError("the transport declares RELIABLE = False")
        found = case.run(testbed)
        if isinstance(found, str):
            return Finding(case.name, PASS, found)
        text = "; ".join(f"{name}: {value:.4g}" for name, value in found.items())
        if doubt := case.doubt(found):
            return Finding(case.name, WARN, f"{text} ({doubt})", found)
        return Finding(case.name, METRIC, text, found)
    except NotApplicableError as reason:
        return Finding(case.name, SKIP, str(reason))
    except (InputError, RunError) as reason:
        return Finding(case.name, FAIL, str(reason))
    except (Exception, SystemExit, EndlessError) as error:
        return Finding(case.name, FAIL, explain(error, testbed.subject))
