"""`netsim why`: explain the waits of a flow, step or request: where, and due to which traffic."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netsim.cli.options import (
    PATH,
    experiment_dir_option,
    flow_number,
    json_option,
    print_json,
    together,
    trust_option,
)
from netsim.common.discovery import applications
from netsim.common.terminal import Column, Wide, common_unit, number, show
from netsim.errors import InputError

if TYPE_CHECKING:
    from netsim.results import Result
    from netsim.tracing.why import Explanation

SUBJECTS = [import_module(name) for package in applications("cli") for name in package.SUBJECTS]
"""Modules of applications that explain other parts of a result: OPTION (name, click option),
applies(result), whether it is the default for a result, and explain(result, value, where)."""

FLOW = "p99"  # default of --flow
ROWS = 15  # rows of the table; one more sums up the rest
NAMED = 2  # flows named in a row of the table


@click.command("why")
@click.argument("result", type=PATH)
@click.option("--flow", metavar="N",
              help=f'Flow number, "slowest", or rank: "p50", "p99:slowdown" ({FLOW}).')  # fmt: skip
@together(*(one.OPTION[1] for one in SUBJECTS))
@experiment_dir_option
@trust_option
@json_option
@click.option("--quiet", is_flag=True, help="Show no progress.")
def command(
    result: Path,
    flow: str | None,
    directory: Path | None,
    trust: bool,
    as_json: bool,
    quiet: bool,
    **asked: Any,
) -> None:
    """Explain why a flow, step or request of RESULT was slow: what it waited for, and where.

    netsim simulates the run again, records the flow and the ports where it waited, and prints a
    paragraph and a budget whose parts add up to the time. Without an option, it explains the
    request with the worst time to first token of a serving run, the last step of a job, the
    critical path of other tasks, or else the flow at the 99th percentile.
    """
    from netsim.cli.progress import reporter
    from netsim.results import load_result

    loaded = load_result(result)
    report = None if quiet or as_json else reporter()
    watch = report.watch(loaded.name) if report else None
    where = {"directory": directory, "trust": trust, "progress": watch}
    try:
        found = explanation(loaded, {"flow": flow, **asked}, where)
    finally:
        if report:
            report.close()
    for warning in found.warnings:
        click.echo(f"warning: {warning}", err=True)
    if as_json:
        names = ("subject", "total_ps", "ideal_ps", "main_cause")
        content = {name: getattr(found, name) for name in names}
        print_json({**content, "text": found.text(), "budget": found.budget.to_dicts()})
        return
    click.echo(click.wrap_text(found.text(), 100))
    click.echo()
    show(budget_shown(found))


def explanation(result: Result, asked: Mapping[str, Any], where: Mapping[str, Any]) -> Explanation:
    """Explain what the options select; `where` are arguments of `explain_flow`."""
    from netsim.tracing.why import explain_flow

    given = [name for name, value in asked.items() if value is not None]
    if len(given) > 1:
        both = " and ".join(f"--{name}" for name in given)
        raise InputError(f"{both} are mutually exclusive", hint="remove one of them")
    for one in SUBJECTS:
        name = one.OPTION[0]
        if name in given or (not given and one.applies(result)):
            found: Explanation = one.explain(result, asked[name], where)
            return found
    return explain_flow(result, flow_number(result, asked["flow"] or FLOW), **where)


def budget_shown(found: Explanation) -> Wide:
    """Return the budget as a table with a sum."""
    rows, rest = found.parts[:ROWS], found.parts[ROWS:]
    unit, scale = common_unit([found.total_ps])
    sums = [f"{len(rest):,} more"] * bool(rest) + ["sum"]
    times = [part.time_ps for part in rows]
    times += [sum(part.time_ps for part in rest)] * bool(rest)
    times.append(sum(times))
    none = [""] * len(sums)
    whose = [found.whose(part.flows, NAMED) for part in rows]
    roots = [f"queue of {part.root}" * (part.root not in ("", part.place)) for part in rows]
    columns = [
        Column("cause", [*(found.causes[part.cause] for part in rows), *sums], left=True),
        Column(f"time\n{unit}", [number(time, scale) for time in times]),
        Column("share", [f"{100 * time / max(1, found.total_ps):.1f} %" for time in times], 1),
        Column("how", [*(part.manner for part in rows), *none], left=True),
        Column("where", [*(part.place for part in rows), *none], left=True),
    ]
    if any(roots):
        columns.append(Column("because of", [*roots, *none], left=True))
    if any(whose):
        columns.append(Column("with", [*whose, *none], left=True, rank=2))
    return Wide(columns, elsewhere="--json has all")
