"""Run cases and keep their outcomes in one file, rewritten after each case."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from netsim.common.writing import replacing_file, write_text
from netsim.errors import InputError, RunError, did_you_mean
from netsim.results.files import plain
from netsim.results.provenance import BY_USE, PACKAGE, code_inputs, commits
from netsim.validation.cases import GROUPS, Row, Verdict, cases, find
from netsim.version import __version__

JSON, PARQUET = "validation.json", "validation.parquet"

Name = tuple[str, str]
"""Group and case."""


@dataclass(frozen=True)
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

    A case that is named is chosen in either way. Raises InputError for an unknown name, and for a
    named group that needs a checkout where there is none.
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
    """Return about how long each case takes on one core: as before, where that was measured."""
    took = {one.name: one.seconds for one in earlier if not one.count(Verdict.NEEDS_DATA)}
    return {name: took.get(name, cases(name[0])[name[1]].seconds) for name in todo}


@cache
def _code() -> str:
    """Return a hash of the code and the tables that decide outcomes."""
    digest = hashlib.sha256(json.dumps(code_inputs(), sort_keys=True).encode())
    folders = [Path(one) for name in BY_USE for one in import_module(f"netsim.{name}").__path__]
    files = [*(file for one in folders for file in one.glob("*.py")), *PACKAGE.rglob("*.toml")]
    for file in sorted(files):
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()


def key_of(name: Name, data: Path | None) -> str:
    """Return what a case's outcome depends on, as a hash."""
    digest, case = hashlib.sha256(), cases(name[0])[name[1]]
    for path in (*(find(data, needed) for needed in case.needs), *case.files()):
        digest.update(path.read_bytes() if path else b"-")
    return f"{_code()[:16]}-{digest.hexdigest()[:16]}"


def divide(
    chosen: Sequence[Name], earlier: Sequence[Outcome], data: Path | None
) -> tuple[dict[Name, Outcome], list[tuple[Name, str]]]:
    """Return earlier outcomes that still hold, and the cases to measure with their keys."""
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
    """Run cases, several at a time, and yield their outcomes as they come."""
    if jobs == 1 or len(todo) < 2:
        for name, key in todo:
            yield measure(name, key, data)
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, context, initializer=_without_ctrl_c)
    try:
        for future in as_completed([pool.submit(measure, *one, data) for one in todo]):
            yield future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.terminate()


def _without_ctrl_c() -> None:
    """Leave Ctrl-C to the process that waits."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


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
