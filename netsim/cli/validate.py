"""`netsim validate`: hold netsim against laws, measurements and other simulators."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netsim.cli.app import FAILED
from netsim.cli.bench import processor
from netsim.errors import InputError
from netsim.limits import THREADS
from netsim.memory import available_cores
from netsim.steps import format_duration

if TYPE_CHECKING:
    from netsim.accuracy.run import Name, Outcome
    from netsim.terminal import Wide

FIRM_S = 10.0
"""Seconds after which the measured time of cases weighs as much as its prediction."""


@click.command("validate")
@click.argument("groups", nargs=-1, metavar="[GROUP]...")
@click.option("--quick/--full", default=True, help="Quick cases (default), or all of them.")
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Folder of other projects' files that some cases need.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    default=Path("results/validation"),
    help="Folder for validation.json and .parquet (results/validation).",
)
@click.option(
    "--page",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write a Markdown page of all results in the folder, with pictures beside it.",
)
@click.option("--jobs", type=click.IntRange(1, THREADS), help="Cases at a time (cores).")
@click.option(
    "--blind",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Predict the cases of a TOML file; the predictions are written beside it.",
)
@click.option(
    "--reveal",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Hold these predictions against the truth that FILE has by now.",
)
def command(
    groups: tuple[str, ...],
    quick: bool,
    data: Path | None,
    out: Path,
    page: Path | None,
    jobs: int | None,
    blind: Path | None,
    reveal: Path | None,
) -> None:
    """Hold netsim against laws, measurements and other simulators.

    A GROUP is closed_forms, reference, theory, routing, simulators, uec_outcomes, predictions or
    hardware; GROUP/CASE is one of its cases. Each row has our value, theirs, the difference, a
    tolerance and a verdict. The exit status is 1 if a difference exceeds its tolerance, explained
    or not.

    Results are stored after each case. The same command continues an interrupted one, and cases
    are measured again only if the code or their data have changed.
    """
    from netsim.accuracy.run import JSON, divide, measured, read, select, write, write_parquet

    for folder in (data, page and page.parent):
        if folder is not None and not folder.is_dir():
            raise InputError("no such folder", file=str(folder), code="unreadable")
    if blind or reveal:
        if groups or page or (blind and reveal):
            raise InputError("--blind FILE and --reveal FILE stand alone", code="conflict")
        if blind:
            _predict(blind, data)
        elif reveal and _reveal(reveal):
            raise SystemExit(FAILED)
        return
    chosen = select(groups, full=not quick)
    done, todo = divide(chosen, read(out / JSON), data)
    if old := len(chosen) - len(todo):
        click.echo(f"{old} of {len(chosen)} cases are in {out}", err=True)
    workers = min(jobs or available_cores(), max(1, len(todo)))
    progress, failed = _Progress([name for name, _ in todo], workers), False
    try:
        for outcome in measured(todo, data, workers):
            done[outcome.name] = outcome
            write(out, list(done.values()), processor())
            click.echo(progress.line(outcome), err=True)
    finally:
        if found := [done[name] for name in chosen if name in done]:
            write_parquet(out, list(done.values()))
            failed = _report(found)
            click.echo(f"results in {out}")
    if page is not None:
        from netsim.accuracy.page import write_page

        write_page(page, out / JSON)
    if failed:
        raise SystemExit(FAILED)


def _predict(file: Path, data: Path | None) -> None:
    from netsim.accuracy.blind import load, predict
    from netsim.accuracy.run import stamp

    cases = load(file)
    digest = predict(cases, data, stamp(), lambda name: click.echo(f"{name}: predicted", err=True))
    click.echo(f"{cases.predictions}, sha256 {digest}")


def _reveal(file: Path) -> bool:
    """Print predictions beside the truth; return whether one fails."""
    from netsim.accuracy.blind import load, reveal
    from netsim.accuracy.cases import Verdict
    from netsim.terminal import show

    rows = list(reveal(load(file)))
    show(_table(file.stem, [row.record() for row in rows]))
    return any(row.verdict == Verdict.FAIL for row in rows)


class _Progress:
    """Cases done and time left: as predicted, scaled by what the cases took so far."""

    def __init__(self, todo: Sequence[Name], workers: int) -> None:
        from netsim.accuracy.cases import cases

        self._left = {name: cases(name[0])[name[1]].seconds for name in todo}
        self._total, self._workers = len(todo), workers
        self._began_s, self._expected_s = time.monotonic(), 0.0

    def line(self, outcome: Outcome) -> str:
        """Count a case and return a line about it."""
        from netsim.accuracy.cases import Verdict

        self._expected_s += self._left.pop(outcome.name) / self._workers
        passed, n = outcome.count(Verdict.PASS), len(outcome.rows)
        text = f"{outcome.group}/{outcome.case}: {passed} of {n} pass"
        if outcome.count(Verdict.NEEDS_DATA):
            text = f"{outcome.group}/{outcome.case}: needs data"
        took_s = time.monotonic() - self._began_s
        ratio = (took_s + FIRM_S) / (self._expected_s + FIRM_S)
        left_s = ratio * sum(self._left.values()) / self._workers
        count = f"{self._total - len(self._left)}/{self._total}"
        return f"[{count}, {format_duration(left_s)} left] {text}"


def _report(found: Sequence[Outcome]) -> bool:
    """Print a table of each group and a summary; return whether a row failed."""
    from netsim.accuracy.cases import Verdict
    from netsim.terminal import show

    for group in dict.fromkeys(one.group for one in found):
        show(_table(group, [row for one in found if one.group == group for row in one.rows]))
    rows = [row for one in found for row in one.rows]
    passed, failed, needy = (sum(row["verdict"] == which for row in rows) for which in Verdict)
    text = f"{len(found)} cases, {len(rows)} rows: {passed} pass, {failed} fail"
    if failed:
        reasons = sum(row["verdict"] == Verdict.FAIL and bool(row["why"]) for row in rows)
        text += f" ({reasons} with a reason)"
    if needy:
        text += f", {needy} need data"
    click.echo(text)
    return bool(failed)


def _table(group: str, rows: Sequence[Mapping[str, Any]]) -> Wide:
    from netsim.accuracy.page import number, percent
    from netsim.terminal import Column, Wide

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
