"""`netsim validate`: validate netsim against laws, measurements and other simulators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netsim.cli.app import FAILED
from netsim.cli.bench import processor
from netsim.cli.options import FILE, FOLDER
from netsim.common.memory import available_cores
from netsim.common.steps import format_duration
from netsim.errors import InputError
from netsim.limits import THREADS

if TYPE_CHECKING:
    from netsim.common.terminal import Wide
    from netsim.validation.run import Name, Outcome


@click.command("validate")
@click.argument("groups", nargs=-1, metavar="[GROUP]...")
@click.option("--quick/--full", default=True, help="Quick cases (default), or all of them.")
@click.option("--data", type=FOLDER, metavar="FOLDER",
              help="Folder of other projects' files that some cases need.")  # fmt: skip
@click.option("--out", type=FOLDER, metavar="FOLDER", default=Path("results/validation"),
              help="Folder for validation.json and .parquet (results/validation).")  # fmt: skip
@click.option(
    "--page",
    type=FILE,
    metavar="FILE",
    help="Write a Markdown page of all results in the folder, with pictures beside it.",
)
@click.option("--jobs", type=click.IntRange(1, THREADS), help="Cases at a time (cores).")
def command(
    groups: tuple[str, ...],
    quick: bool,
    data: Path | None,
    out: Path,
    page: Path | None,
    jobs: int | None,
) -> None:
    """Validate netsim against laws, measurements and other simulators.

    A GROUP is closed_forms, reference, theory, routing, simulators, uec_outcomes, predictions or
    hardware; GROUP/CASE is one of its cases. Each row has our value, theirs, the difference, a
    tolerance and a verdict. The exit status is 1 if a difference exceeds its tolerance, explained
    or not.

    Results are stored after each case. The same command continues an interrupted one, and cases
    are measured again only if the code or their data have changed.
    """
    from netsim.validation import run
    from netsim.validation.cases import GROUPS

    for folder in (data, page and page.parent):
        if folder is not None and not folder.is_dir():
            raise InputError("no such folder", file=str(folder), code="unreadable")
    chosen = run.select(groups, full=not quick)
    for group in filter(run.needs_checkout, GROUPS):
        click.echo(f"{group}: left out, needs a checkout", err=True)
    earlier = run.read(out / run.JSON)
    done, todo = run.divide(chosen, earlier, data)
    if old := len(chosen) - len(todo):
        click.echo(f"{old} of {len(chosen)} cases are in {out}", err=True)
    workers = min(jobs or available_cores(), max(1, len(todo)))
    progress = Progress(run.expected_s((name for name, _ in todo), earlier), workers)
    failed = False
    try:
        for outcome in run.measured(todo, data, workers):
            done[outcome.name] = outcome
            run.write(out, list(done.values()), processor())
            click.echo(f"{progress.line(outcome)} {_verdicts(outcome)}", err=True)
    finally:
        if found := [done[name] for name in chosen if name in done]:
            run.write_parquet(out, list(done.values()))
            failed = _report(found)
            click.echo(f"results in {out}")
    if page is not None:
        from netsim.validation.run import write_page

        write_page(page, out / run.JSON)
    if failed:
        raise SystemExit(FAILED)


class Progress:
    """Cases done and time left: each case's earlier time, scaled by the speed of this run.

    The first cases may have to compile, which says little about the rest: measured times weigh as
    much as the estimates only once a quarter of them is done.
    """

    def __init__(self, seconds: Mapping[Name, float], workers: int) -> None:
        self._left, self._total, self._workers = dict(seconds), len(seconds), workers
        self._prior_s = sum(seconds.values()) / 4 + 10
        self._took_s = self._expected_s = 0.0

    def line(self, outcome: Outcome) -> str:
        """Count a case and return a line about it."""
        self._took_s += outcome.seconds
        self._expected_s += self._left.pop(outcome.name)
        ratio = (self._took_s + self._prior_s) / (self._expected_s + self._prior_s)
        left_s = ratio * sum(self._left.values()) / self._workers
        count = f"{self._total - len(self._left)}/{self._total}"
        return f"[{count}, {format_duration(left_s)} left]"


def _verdicts(outcome: Outcome) -> str:
    from netsim.validation.cases import Verdict

    name, passed = "/".join(outcome.name), outcome.count(Verdict.PASS)
    if outcome.count(Verdict.NEEDS_DATA):
        return f"{name}: needs data"
    return f"{name}: {passed} of {len(outcome.rows)} pass"


def _report(found: Sequence[Outcome]) -> bool:
    """Print a table of each group and a summary; return whether a row failed."""
    from netsim.common.terminal import show
    from netsim.validation.cases import Verdict

    for group in dict.fromkeys(one.group for one in found):
        show(_table(group, [row for one in found if one.group == group for row in one.rows]))
    rows = [row for one in found for row in one.rows]
    passed, failed, needy = (sum(row["verdict"] == which for row in rows) for which in Verdict)
    text = f"{len(found)} cases, {len(rows)} rows: {passed} pass, {failed} fail"
    if failed:
        whys = [row["why"] or "unexplained" for row in rows if row["verdict"] == Verdict.FAIL]
        text += f" ({sum(not why.startswith('unexplained') for why in whys)} with a reason)"
    if needy:
        text += f", {needy} need data"
    click.echo(text)
    return bool(failed)


def _table(group: str, rows: Sequence[Mapping[str, Any]]) -> Wide:
    from netsim.common.terminal import Column, Wide
    from netsim.validation.run import number, percent

    columns = [
        Column("case", [row["name"] for row in rows], left=True),
        Column("ours", [number(row, "ours") for row in rows]),
        Column("theirs", [number(row, "theirs") for row in rows]),
        Column("error", [percent(row["error"], sign=True) for row in rows], 1),
        Column("tolerance", [percent(row["tolerance"]) for row in rows], 2),
        Column("verdict", [row["verdict"] for row in rows], left=True),
        Column("source", [row["source"] for row in rows], 4, left=True),
        Column("reason", [row["why"] for row in rows], 3, left=True),
    ]
    return Wide(columns, title=group, elsewhere="validation.json has all")
