"""Run the cases on a plugin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from netsim.common.steps import step
from netsim.conformance import builder_cases, engine_cases, networks
from netsim.conformance.builder_cases import TopologyTestbed, TrafficTestbed
from netsim.conformance.finding import (
    COMPILED,
    FAIL,
    METRIC,
    PASS,
    RELIABLE,
    SKIP,
    WARN,
    Case,
    Finding,
    NotApplicableError,
)
from netsim.conformance.handler_monitor import EndlessError, explain
from netsim.conformance.testbed import QueueTestbed, RoutingTestbed, Settings, Testbed
from netsim.engine.compiling.specialize import in_background, jit_enabled
from netsim.engine.kernels.handlers import HANDLERS, QUEUE_HANDLERS, ROUTING_HANDLERS
from netsim.errors import InputError, RunError, did_you_mean
from netsim.plugins import registry
from netsim.plugins.registry import REQUIRED_FUNCTION

TESTBEDS: dict[str, type[Testbed]] = {
    "transport": Testbed,
    "queue": QueueTestbed,
    "routing": RoutingTestbed,
    "traffic": TrafficTestbed,
    "topology": TopologyTestbed,
}
CASES = {
    "transport": engine_cases.TRANSPORT,
    "queue": engine_cases.QUEUE,
    "routing": engine_cases.ROUTING,
    "traffic": builder_cases.TRAFFIC,
    "topology": builder_cases.TOPOLOGY,
}
"""Kind of plugin -> its cases, in the order in which they run."""

FUNCTIONS = {
    **{kind: (function,) for kind, function in REQUIRED_FUNCTION.items()},
    "queue": tuple(QUEUE_HANDLERS),
    "routing": tuple(ROUTING_HANDLERS),
    "transport": (*HANDLERS, "CLOSED_FORM"),
}
"""Kind of plugin -> functions that identify a file of that kind."""


def kind_of(file: str | Path) -> str:
    """Return the kind of the plugin in a .py file, by the functions that it defines. Raises
    InputError if the file cannot be loaded or its functions fit no kind, or several."""
    module = registry.load(Path(file).resolve(), shown=str(file))
    found = [kind for kind, names in FUNCTIONS.items() if any(hasattr(module, n) for n in names)]
    if "traffic" in found:  # a program shares on_timer with transports
        found = [kind for kind in found if kind != "transport"]
    if len(found) == 1:
        return found[0]
    message = f"has functions of a {' and a '.join(found)}" if found else "is not a plugin"
    known = "; ".join(f"{kind}: {', '.join(names[:5])}" for kind, names in FUNCTIONS.items())
    raise InputError(message, file=str(file), hint=f"it is recognized by a function: {known}")


def load_testbed(plugin: str | Path, kind: str | None = None, **options: Any) -> Testbed:
    """Return the testbed of a plugin; arguments as for `check`, without the cases."""
    return TESTBEDS[kind or kind_of(plugin)].of(plugin, **options)


def check(
    plugin: str | Path,
    kind: str | None = None,
    *,
    settings: Settings = None,
    seed: int = 1,
    long: bool = False,
    cases: Sequence[str] | None = None,
) -> list[Finding]:
    """Run every case on a plugin.

    `plugin` is the path of a .py file, or a name ("ndp", "dcqcn:paper") with its `kind`
    ("transport"). `settings` are parameters as an experiment writes them ({"rto": "1ms"}); of a
    queue discipline or a routing algorithm, keys of [fabric]. `long` uses longer flows or more
    hosts, for about ten times as long. `cases` are names from `CASES` (default: all).

    Raises InputError if the plugin, a setting or a case is unknown.
    """
    return list(each(load_testbed(plugin, kind, settings=settings, seed=seed, long=long), cases))


def each(
    testbed: Testbed,
    cases: Sequence[str] | None = None,
    *,
    starting: Callable[[Case], None] = lambda _: None,
    on_hang: Callable[[Finding], None] | None = None,
) -> Iterator[Finding]:
    """Yield the finding of each case. Raises InputError if a case is unknown.

    `starting` is called with every case. `on_hang` is called, in another thread, with the finding
    of a case whose compiled code does not return; only ending the process stops that code.
    """
    seen: dict[str, str] = {}
    chosen = _chosen(CASES[testbed.KIND], cases)
    with _compiled_ahead(testbed, chosen):
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


def _compiled_ahead(testbed: Testbed, cases: Sequence[Case]) -> AbstractContextManager[None]:
    """Compile code for later cases while others run in plain Python."""
    needed = [COMPILED in case.needs for case in cases]
    if len(cases) < 2 or not any(needed) or not jit_enabled():
        return nullcontext()
    network = testbed.prepared(networks.tree())
    return in_background(lambda: testbed.engine(testbed.crowd(), network, jit=True))


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
