"""`netsim check-transport`, `check-queue` and so on: test a plugin on small networks."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from netsim.cli.interrupt import end_now
from netsim.steps import Steps

if TYPE_CHECKING:
    from netsim.conformance import Finding

MIN_DETAIL = 20
"""Minimum width of the last column on a terminal."""


def _options(set_help: str, metavar: str) -> Callable[[Any], Any]:
    """Return a decorator that adds the options of both commands."""
    options = (
        click.option("--set", "overrides", multiple=True, metavar=metavar, help=set_help),
        click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=1, help="Seed (1)."),
        click.option("--case", "cases", multiple=True, help="Run only this case; repeatable."),
        click.option("--long", is_flag=True, help="Use longer flows, or more hosts: minutes."),
    )

    def add(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return add


@click.command("check-transport")
@click.argument("transport", metavar="NAME|FILE")
@_options("Set a parameter of the transport.", "PARAM=VALUE")
def transport(
    transport: str, overrides: tuple[str, ...], seed: int, cases: tuple[str, ...], long: bool
) -> None:
    """Test a transport, given by name or Python file, on small networks.

    Every flow must arrive, also under loss, reordering and trimming. The result must not depend
    on the number of threads, and handlers may change only the state that they declare. Fairness
    and utilization are measured. The exit status is 1 if a case fails.
    """
    from netsim.conformance import Testbed, each

    testbed = Testbed.of(transport, params=_tree(overrides), seed=seed, long=long)
    print_findings(transport, partial(each, testbed, cases or None))


@click.command("check-queue")
@click.argument("queue", metavar="NAME|FILE")
@_options("Set a key of [fabric].", "KEY=VALUE")
def queue(
    queue: str, overrides: tuple[str, ...], seed: int, cases: tuple[str, ...], long: bool
) -> None:
    """Test a queue discipline, given by name or Python file, on small networks.

    Every packet must arrive, or be dropped or trimmed and counted. No packet may wait forever. A
    port may idle while packets wait only if the discipline shapes. Packets of a flow stay in order
    unless the discipline serves a packet other than the head. The result must not depend on the
    number of threads. The exit status is 1 if a case fails.
    """
    from netsim.conformance import QueueTestbed, each

    testbed = QueueTestbed.of(queue, keys=_tree(overrides), seed=seed, long=long)
    print_findings(queue, partial(each, testbed, cases or None))


@click.command("check-routing")
@click.argument("routing", metavar="NAME|FILE")
@_options("Set a key of [fabric].", "KEY=VALUE")
def routing(
    routing: str, overrides: tuple[str, ...], seed: int, cases: tuple[str, ...], long: bool
) -> None:
    """Test a routing algorithm, given by name or Python file, on small networks.

    Every packet must arrive on a tree, planes, a dragonfly and a torus, without loops: by at most
    MAX_HOPS links of the file, or the longest way of the routing tables. After a failure, packets
    must follow the new routes. With PFC, packets must not wait for each other in a cycle. The
    result must not depend on the number of threads or a checkpoint. The exit status is 1 if a case
    fails.
    """
    from netsim.conformance import RoutingTestbed, each

    testbed = RoutingTestbed.of(routing, keys=_tree(overrides), seed=seed, long=long)
    print_findings(routing, partial(each, testbed, cases or None))


@click.command("check-traffic")
@click.argument("traffic", metavar="NAME|FILE")
@_options("Set a parameter of the traffic.", "PARAM=VALUE")
def traffic(
    traffic: str, overrides: tuple[str, ...], seed: int, cases: tuple[str, ...], long: bool
) -> None:
    """Test a traffic pattern, given by name or Python file, on small networks.

    Flows must be valid, the same for the same seed, and offer the load that is given. Any value of
    a parameter must give flows or an error that names a key, before much memory is taken. The exit
    status is 1 if a case fails.

    \b
    netsim check-traffic poisson --set sizes=4096B --set load=0.5 --set n_flows=5000
    """
    from netsim.conformance import TrafficTestbed, each

    testbed = TrafficTestbed.of(traffic, params=_tree(overrides), seed=seed, long=long)
    print_findings(traffic, partial(each, testbed, cases or None))


def _tree(overrides: tuple[str, ...]) -> dict[str, Any]:
    from netsim.experiment.document import apply_overrides

    tree: dict[str, Any] = {}
    apply_overrides(tree, overrides)
    return tree


def print_findings(subject: str, each: Callable[..., Iterator[Finding]]) -> None:
    """Print each finding as `netsim.conformance.each` yields it.

    Raises FailedRun if `subject`, a file or a name, fails a case.
    """
    from netsim.cli.app import FAILED, FailedRun
    from netsim.conformance import failures

    def hung(finding: Finding) -> None:
        click.echo(_row(finding.case, finding.status, finding.detail))
        click.echo(f"error: {finding.detail}; remaining cases are skipped", err=True)
        end_now(FAILED)

    findings: list[Finding] = []
    with Steps():
        for finding in each(
            starting=lambda case: click.echo(f"{case.name}: {case.about}", err=True), on_hang=hung
        ):
            if not findings:
                click.echo(_row("case", "result", "detail"))
            findings.append(finding)
            click.echo(_row(finding.case, finding.status, finding.detail))
    failed = failures(findings)
    if failed:
        raise FailedRun(f"{subject} fails {len(failed)} of {len(findings)} cases")


def _row(case: str, status: str, detail: str) -> str:
    """Format a row in aligned columns, wrapped on a terminal."""
    from netsim.conformance import CASES
    from netsim.conformance.finding import STATUSES

    first = max(len(known.name) for known in CASES)
    second = max(map(len, STATUSES))
    start = f"{case:{first}}  {status:{second}}  "
    if not sys.stdout.isatty():
        return start + " ".join(detail.split())
    width = max(shutil.get_terminal_size().columns, len(start) + MIN_DETAIL)
    indent = " " * len(start)
    return textwrap.fill(detail, width, initial_indent=start, subsequent_indent=indent)
