"""Run the suite on one transport, or on one queue discipline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from netsim.conformance.cases import CASES, COMPILED, QUEUE_CASES, RELIABLE, Case
from netsim.conformance.finding import (
    FAIL,
    FIGURE,
    PASS,
    SKIP,
    Finding,
    NotApplicableError,
)
from netsim.conformance.lab import Lab
from netsim.conformance.queue_lab import QueueLab
from netsim.conformance.watch import EndlessError, explain
from netsim.engine.compiling.specialize import jit_enabled
from netsim.errors import InputError, RunError, did_you_mean


def check(
    transport: str | Path,
    *,
    params: Mapping[str, Any] | None = None,
    seed: int = 1,
    long: bool = False,
    cases: Sequence[str] | None = None,
) -> list[Finding]:
    """Try a transport on every case.

    Parameters
    ----------
    transport : its name ("ndp", "dcqcn:paper") or the path of its file, which ends in .py.
    params : parameters as an experiment writes them, such as {"rto": "1ms"}.
    seed : of all that is random.
    long : longer flows, some ten times the time.
    cases : names of the cases to run; all of `CASES` by default.

    Raises InputError if there is no such transport, parameter or case.
    """
    return list(each(Lab.of(transport, params=params, seed=seed, long=long), cases))


def check_queue(
    queue: str | Path,
    *,
    keys: Mapping[str, Any] | None = None,
    seed: int = 1,
    long: bool = False,
    cases: Sequence[str] | None = None,
) -> list[Finding]:
    """Try a queue discipline on every case, as `check` a transport.

    Parameters
    ----------
    queue : its name ("trim") or the path of its file, which ends in .py.
    keys : of [fabric], as an experiment writes them, such as {"queue_bytes": "20pkt"}.
    seed, long, cases : as for `check`; the cases are `QUEUE_CASES`.
    """
    return list(each(QueueLab.with_queue(queue, keys=keys, seed=seed, long=long), cases))


def each(
    lab: Lab,
    cases: Sequence[str] | None = None,
    *,
    starting: Callable[[Case], None] = lambda _: None,
    on_hang: Callable[[Finding], None] | None = None,
) -> Iterator[Finding]:
    """The findings on what a lab is for, each as soon as it is there.

    `starting` is told of every case. `on_hang` is given, in another thread, the finding of a case
    whose compiled code does not come back: only the end of the process ends that.
    Raises InputError if there is no such case.
    """
    seen: dict[str, str] = {}
    for case in _chosen(QUEUE_CASES if isinstance(lab, QueueLab) else CASES, cases):
        starting(case)
        finding = _run(case, _telling(on_hang, case, lab))
        if finding.failed:
            first = seen.setdefault(finding.detail, case.name)
            if first != case.name:
                finding = Finding(case.name, FAIL, f"as in {first}")
        yield finding


def failures(findings: Iterable[Finding]) -> list[Finding]:
    """Those that ask for a change of the file."""
    return [finding for finding in findings if finding.failed]


def _chosen(cases: Sequence[Case], names: Sequence[str] | None) -> list[Case]:
    known = {case.name: case for case in cases}
    for name in names or ():
        if name not in known:
            raise InputError(f'unknown case "{name}"', hint=did_you_mean(name, known))
    return [case for case in cases if names is None or case.name in names]


def _telling(on_hang: Callable[[Finding], None] | None, case: Case, lab: Lab) -> Lab:
    """The lab, which tells `on_hang` of code in this case that does not come back."""
    if on_hang is None:
        return lab
    tell = on_hang
    return replace(lab, on_hang=lambda message: tell(Finding(case.name, FAIL, message)))


def _run(case: Case, lab: Lab) -> Finding:
    try:
        if getattr(lab.plugin.module, "CLOSED_FORM", False):
            raise NotApplicableError("closed form: no packets are sent")
        if COMPILED in case.needs and not jit_enabled():
            raise NotApplicableError("NUMBA_DISABLE_JIT is set")
        if RELIABLE in case.needs and not lab.reliable:
            raise NotApplicableError("the transport says that it is not reliable")
        found = case.run(lab)
        if isinstance(found, str):
            return Finding(case.name, PASS, found)
        text = "; ".join(f"{name}: {value:.4g}" for name, value in found.items())
        return Finding(case.name, FIGURE, text, found)
    except NotApplicableError as reason:
        return Finding(case.name, SKIP, str(reason))
    except (InputError, RunError) as reason:
        return Finding(case.name, FAIL, str(reason))
    except (Exception, SystemExit, EndlessError) as error:
        return Finding(case.name, FAIL, explain(error, lab.subject))
