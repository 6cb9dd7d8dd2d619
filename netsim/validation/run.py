"""Run cases and write their outcomes to one file, rewritten after each case, and a page."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from netsim.common.writing import replacing_file, write_text
from netsim.errors import InputError, RunError, did_you_mean
from netsim.frozen import frozen
from netsim.results.files import plain
from netsim.results.provenance import BY_USE, PACKAGE, code_inputs, commits
from netsim.units import format_number
from netsim.validation.cases import GROUPS, QUESTIONS, Row, Verdict, cases, find
from netsim.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure

JSON, PARQUET = "validation.json", "validation.parquet"

Name = tuple[str, str]  # group and case


@frozen
class Outcome:
    """The rows of a case, and its run time in seconds."""

    group: str
    case: str
    key: str
    seconds: float
    rows: list[dict[str, Any]]

    @property
    def name(self) -> Name:
        return self.group, self.case

    def count(self, verdict: Verdict) -> int:
        """Return the number of rows with a verdict."""
        return sum(row["verdict"] == verdict for row in self.rows)


def select(names: Sequence[str], full: bool) -> list[Name]:
    """Return the cases of these groups (GROUP or GROUP/CASE), quick ones unless `full`.

    A case named explicitly is always chosen. Raises InputError for an unknown name, and for a named
    group that needs a checkout if there is none.
    """
    chosen: list[Name] = []
    for name in names or GROUPS:
        group, _, case = name.partition("/")
        for kind, word, known in (("group", group, GROUPS), ("case", case or None, cases(group))):
            if word is not None and word not in known:
                hint = did_you_mean(word, known)
                raise InputError(f"unknown {kind} {word}", hint=hint, code="unknown_value")
        some = [cases(group)[case]] if case else list(cases(group).values())
        if needs_checkout(group):
            if names:
                hint = "a clone of the repository, installed with pip install -e"
                raise InputError(f"{group} needs a checkout", hint=hint, code="unreadable")
            continue
        chosen += [(group, each.name) for each in some if case or full or each.quick]
    return list(dict.fromkeys(chosen))


def needs_checkout(group: str) -> bool:
    """Return whether the group reads files of a checkout that are missing."""
    return any(each.reads and not each.files() for each in cases(group).values())


def expected_s(todo: Iterable[Name], earlier: Iterable[Outcome]) -> dict[Name, float]:
    """Estimate how long each case takes on one core: as long as last time, if measured."""
    took = {one.name: one.seconds for one in earlier if not one.count(Verdict.NEEDS_DATA)}
    return {name: took.get(name, cases(name[0])[name[1]].seconds) for name in todo}


@cache
def _code() -> str:
    """Return a hash of the code and tables that decide outcomes."""
    digest = hashlib.sha256(json.dumps(code_inputs(), sort_keys=True).encode())
    folders = [Path(one) for name in BY_USE for one in import_module(f"netsim.{name}").__path__]
    files = [*(file for one in folders for file in one.glob("*.py")), *PACKAGE.rglob("*.toml")]
    for file in sorted(files):
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()


def key_of(name: Name, data: Path | None) -> str:
    """Return a hash of all that a case's outcome depends on."""
    digest, case = hashlib.sha256(), cases(name[0])[name[1]]
    for path in (*(find(data, needed) for needed in case.needs), *case.files()):
        digest.update(path.read_bytes() if path else b"-")
    return f"{_code()[:16]}-{digest.hexdigest()[:16]}"


def divide(
    chosen: Sequence[Name], earlier: Sequence[Outcome], data: Path | None
) -> tuple[dict[Name, Outcome], list[tuple[Name, str]]]:
    """Return earlier outcomes that are still valid, and the cases to measure with their keys."""
    keys = {name: key_of(name, data) for name in chosen}
    holds = {
        one.name: one
        for one in earlier
        if keys.get(one.name, one.key) == one.key and one.key.startswith(_code()[:16])
    }
    return holds, [(name, key) for name, key in keys.items() if name not in holds]


def measure(name: Name, key: str, data: Path | None) -> Outcome:
    """Run a case. An error becomes a row that fails."""
    began_s = time.monotonic()
    try:
        found = list(cases(name[0])[name[1]].rows(data))
    except (InputError, RunError) as error:
        key = ""  # is measured again
        found = [Row(name[1], why=f"ended with an error: {error}")]
    records = [plain(row.record()) for row in found]
    return Outcome(*name, key, round(time.monotonic() - began_s, 1), records)


def measured(todo: Sequence[tuple[Name, str]], data: Path | None, jobs: int) -> Iterator[Outcome]:
    """Run cases, several at a time, and yield their outcomes as they finish."""
    if jobs == 1 or len(todo) < 2:
        for name, key in todo:
            yield measure(name, key, data)
        return
    context = multiprocessing.get_context("spawn")
    ignored = (signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that waits
    pool = ProcessPoolExecutor(jobs, context, initializer=signal.signal, initargs=ignored)
    try:
        for future in as_completed([pool.submit(measure, *one, data) for one in todo]):
            yield future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.terminate()


def read(file: Path) -> list[Outcome]:
    """Return the outcomes of a file that an earlier command wrote; none if there is no file."""
    try:
        content = json.loads(file.read_text("utf-8"))
        return [Outcome(**one) for one in content["cases"]]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError, KeyError):
        raise InputError("not a file of netsim validate", file=str(file)) from None


def write(folder: Path, outcomes: Sequence[Outcome], machine: str) -> None:
    """Write all outcomes to `folder`, with date, commit and machine."""
    known = [(group, case) for group in GROUPS for case in cases(group)]
    order = {name: n for n, name in enumerate(known)}
    listed = sorted(outcomes, key=lambda one: order.get(one.name, len(order)))
    count = {str(v): sum(one.count(v) for one in listed) for v in Verdict}
    content = {
        **stamp(),
        "machine": machine,
        "n_cases": len(listed),
        "n_known_cases": sum(len(cases(group)) for group in GROUPS),
        "rows": count,
    }
    head = json.dumps(plain(content))[:-1]
    lines = ",\n".join(json.dumps(plain(vars(one)), ensure_ascii=False) for one in listed)
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / JSON, f'{head}, "cases": [\n{lines}\n]}}\n')


def stamp() -> dict[str, Any]:
    """Return netsim's version and commit, and the date."""
    commit = _commit()
    return {
        "version": __version__,
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit.get("commit"),
        "changed_since_commit": commit.get("dirty"),
    }


@cache
def _commit() -> Mapping[str, Any]:
    """Return the commit of netsim's code, where it runs from a repository."""
    if not (PACKAGE.parent / ".git").exists():
        return {}
    return next(iter(commits(PACKAGE.rglob("*.py"))), {})


def write_parquet(folder: Path, outcomes: Sequence[Outcome]) -> None:
    """Write the rows of all outcomes as one table."""
    import polars as pl

    flat = [{"group": o.group, "case": o.case, **row} for o in outcomes for row in o.rows]
    with replacing_file(folder / PARQUET) as file:
        pl.DataFrame(flat, infer_schema_length=None).write_parquet(file)


# --- the page -------------------------------------------------------------------------------------

TableRow = Mapping[str, Any]

HEAD = """\
# Comparisons

Every row of `netsim validate --full --page docs/comparisons.md`, from
[its results](comparisons.json): {n_cases} of {n_known_cases} cases, netsim {version}, {date},
commit `{commit}`, {machine}.

Each row holds our value against theirs: a law's, a machine's or another simulator's. A row fails
if the difference exceeds the tolerance, whether or not a reason is known. Where others give a
range, a value passes within that range, widened by the tolerance. [Accuracy](accuracy.md) sums up
what was compared, what fails and why.
"""

DATA = """\
## Other projects' files

Cases that need them say so, and name them as their source. `netsim validate --data FOLDER` finds
them by name anywhere in the folder. Connection matrices (`.cm`) are inputs of csg-htsim
(github.com/Broadcom/csg-htsim) and uet-htsim (github.com/ultraethernet/uet-htsim). Completion
times are CSV files with columns draw and fct_us. Tables of collectives are CSV files with columns
collective, nodes, gpus_per_node, size_bytes, oop_time_us and ip_time_us, which nccl-tests prints.

## Make it again

`netsim validate` runs quick cases; none of them failed when they were chosen, so a failing one is a
change. `--full` runs all cases. Interrupted, it continues: results are stored after each case. The
exit status is 1 if any row fails.
"""

LEAST = 1e-5  # smallest error in the picture of errors; 0 has no logarithm


def number(row: TableRow, which: str) -> str:
    """Return a value with its unit, or their range if they have one."""
    value = row[which]
    if value is None:
        return "-"
    text = format_number(value)
    if which == "theirs" and row["theirs_low"] is not None:
        text = f"{format_number(row['theirs_low'])} to {format_number(row['theirs_high'])}"
    return f"{text} {row['unit']}".strip()


def percent(share: float | None, *, sign: bool = False) -> str:
    """Return a share in percent."""
    if share is None:
        return "-"
    digits = 2 if 0 < abs(share) < 0.01 else 1
    return f"{100 * share:{'+' if sign else ''}.{digits}f} %"


def write_page(page: Path, file: Path) -> None:
    """Write the page of a result file and, next to it under its name, a copy and the pictures."""
    from netsim.plots.style import save

    text = file.read_text("utf-8")
    content = json.loads(text)
    write_text(page, page_text(content, page.stem))
    write_text(page.with_suffix(".json"), text)
    rows = rows_of(content)
    save(scatter_figure(rows), page.with_name(f"{page.stem}_values.png"))
    save(error_figure(rows), page.with_name(f"{page.stem}_errors.png"))


def page_text(content: Mapping[str, Any], name: str) -> str:
    """Return the page; its pictures begin with `name`."""
    return "\n".join(_lines(content, name)).rstrip() + "\n"


def rows_of(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of all cases with their group."""
    return [{"group": o["group"], **row} for o in content["cases"] for row in o["rows"]]


def _lines(content: Mapping[str, Any], name: str) -> Iterator[str]:
    rows = rows_of(content)
    commit = (content["commit"] or "unknown")[:10]
    commit += " with changes" if content["changed_since_commit"] else ""
    yield HEAD.format(**{**content, "commit": commit})
    groups = list(dict.fromkeys(row["group"] for row in rows))
    yield "| group | rows | pass | fail | need data | median error | nine in ten within | largest |"
    yield "|---|---|---|---|---|---|---|---|"
    for group in groups:
        yield _summary(group, [row for row in rows if row["group"] == group])
    yield f"\n![Our values against theirs, by group, on the diagonal]({name}_values.png)\n"
    yield f"![Distribution of absolute errors, by group]({name}_errors.png)\n"
    yield from _failures(rows)
    for group in groups:
        yield f"## {_title(group)}\n"
        yield from _table([row for row in rows if row["group"] == group])
    yield DATA


class Expected(NamedTuple):
    """Sorted errors of the rows that answer a question, and of the rows predicted in advance."""

    question: str
    errors: list[float]
    predicted: list[float]


def expected(rows: Sequence[TableRow]) -> Iterator[Expected]:
    """Yield the errors to expect for each of QUESTIONS that rows answer."""
    for name, question in QUESTIONS.items():
        some = [r for r in rows if r["question"] == name and r["error"] is not None]
        if some:
            before = sorted(row["error"] for row in some if row["predicted"])
            yield Expected(question, sorted(row["error"] for row in some), before)


def interval(errors: Sequence[float]) -> str:
    """Return the range of the middle nine tenths of sorted errors; of all if there are few."""
    cut = len(errors) // 20
    ends = (percent(errors[n], sign=True) for n in (cut, -1 - cut))
    return " to ".join(ends)


def _summary(group: str, rows: Sequence[TableRow]) -> str:
    counts = [sum(row["verdict"] == verdict for row in rows) for verdict in Verdict]
    errors = sorted(abs(row["error"]) for row in rows if row["error"] is not None)
    found = ("-",) * 3
    if errors:
        nine = errors[-(-9 * len(errors) // 10) - 1]
        found = (percent(median(errors)), percent(nine), percent(errors[-1]))
    cells = (f"[{_title(group)}](#{group.replace('_', '-')})", len(rows), *counts, *found)
    return "| " + " | ".join(map(str, cells)) + " |"


def _failures(rows: Sequence[TableRow]) -> Iterator[str]:
    """Yield the list of failures."""
    failed = [row for row in rows if row["verdict"] == Verdict.FAIL]
    if not failed:
        return
    yield "## What fails\n"
    yield "| row | error | tolerance | reason |"
    yield "|---|---|---|---|"
    for row in failed:
        cells = (row["name"], percent(row["error"], sign=True), percent(row["tolerance"]))
        yield "| " + " | ".join((*cells, row["why"] or "unexplained")) + " |"
    yield ""


def _table(rows: Sequence[TableRow]) -> Iterator[str]:
    """Yield the rows of a group; a ditto mark replaces a repeated source."""
    yield "| case | ours | theirs | error | tolerance | verdict | source |"
    yield "|---|---|---|---|---|---|---|"
    above = ""
    for row in rows:
        cells = (
            *(row["name"], number(row, "ours"), number(row, "theirs")),
            *(percent(row["error"], sign=True), percent(row["tolerance"]), row["verdict"]),
            '"' if row["source"] == above else row["source"],
        )
        yield "| " + " | ".join(cells) + " |"
        above = row["source"]
    yield ""
    for share, why in dict.fromkeys((row["tolerance"], row["tolerance_why"]) for row in rows):
        yield f"- Tolerance {percent(share)}: {why}."
    yield ""


def _title(group: str) -> str:
    words = group.replace("_", " ")
    return (words[0].upper() + words[1:]).replace("Uec ", "UEC ")


def scatter_figure(rows: Sequence[TableRow]) -> Figure:
    """Draw our values against theirs, each group in its color."""
    from netsim.plots.style import COLORS, new_figure

    figure, (axes,) = new_figure()
    shown = [
        row for row in rows if row["error"] is not None and min(row["ours"], row["theirs"]) > 0
    ]
    for group, color in zip(dict.fromkeys(row["group"] for row in shown), COLORS, strict=False):
        some = [row for row in shown if row["group"] == group]
        values = [[row[which] for row in some] for which in ("theirs", "ours")]
        axes.plot(*values, "o", color=color, markersize=4, alpha=0.6, label=_title(group))
    ends = [f(row["theirs"] for row in shown) for f in (min, max)]
    axes.plot(ends, ends, color="gray", linewidth=0.8, zorder=0)
    axes.set(xscale="log", yscale="log", xlabel="theirs, each in its unit", ylabel="ours")
    axes.legend(frameon=False)
    return figure


def error_figure(rows: Sequence[TableRow]) -> Figure:
    """Draw the share of rows within each absolute error."""
    from netsim.plots.style import COLORS, new_figure

    figure, (axes,) = new_figure()
    shown = [row for row in rows if row["error"] is not None]
    for group, color in zip(dict.fromkeys(row["group"] for row in shown), COLORS, strict=False):
        found = sorted(max(LEAST, abs(row["error"])) for row in shown if row["group"] == group)
        shares = [(n + 1) / len(found) for n in range(len(found))]
        errors = [100 * one for one in found]
        axes.step(errors, shares, where="post", color=color, label=_title(group))
    axes.set(xscale="log", xlabel="absolute error, % (0.001: that or less)", ylabel="share of rows")
    axes.set_ylim(0, 1.02)
    axes.legend(frameon=False)
    return figure
