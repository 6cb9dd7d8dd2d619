"""Request traces of LLM serving: arrivals, prompt tokens and output tokens.

A CSV file, optionally gzip-compressed. Its first line names the columns; empty lines and lines that
begin with # are skipped. Three columns are read, in any order, by the names that published traces
use, in any case:

==============  ====================================================================================
column          names
==============  ====================================================================================
arrival         arrival_s, arrived_at (Vidur), arrival_timestamp (Splitwise's simulator), TIMESTAMP
                (Azure, BurstGPT), arrival_ms, arrival_us
prompt tokens   prompt_tokens, num_prefill_tokens (Vidur), ContextTokens (Azure), prompt_size
                (Splitwise's simulator), Request tokens (BurstGPT)
output tokens   output_tokens, num_decode_tokens (Vidur), GeneratedTokens (Azure), token_size
                (Splitwise's simulator), Response tokens (BurstGPT)
==============  ====================================================================================

An arrival is a number, in seconds unless the name has another unit, or in column TIMESTAMP a date
and time such as 2023-11-16 18:15:46.6805900, counted from the earliest one.

Sources: Azure/AzurePublicDataset, AzureLLMInferenceDataset2023.md (schema); microsoft/vidur,
data/processed_traces and vidur/request_generator; Mutinifni/splitwise-sim; HPMLL/BurstGPT.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.inputs import at_line, bounded, read_bytes, reading, unpacked, unreadable
from netsim.limits import COUNT, HORIZON_PS
from netsim.units import written

Ints = NDArray[np.int64]

ARRIVAL = {
    "arrival_s": 10**12,
    "arrived_at": 10**12,
    "arrival_timestamp": 10**12,
    "timestamp": 10**12,
    "arrival_ms": 10**9,
    "arrival_us": 10**6,
}
"""Names of arrival columns, in lower case, and their unit in ps."""

PROMPT = ("prompt_tokens", "num_prefill_tokens", "contexttokens", "prompt_size", "request tokens")
OUTPUT = ("output_tokens", "num_decode_tokens", "generatedtokens", "token_size", "response tokens")

HEADER = "such as arrival_s,prompt_tokens,output_tokens"

_WHEN = re.compile(
    r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,12}))?(Z|[+-]\d\d:\d\d)?", re.ASCII
)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True, eq=False)
class RequestTrace:
    """The requests of a trace in order of arrival; ties keep the file's order.

    Attributes:
        arrival_ps: int64[n], not negative, not decreasing.
        prompt_tokens, output_tokens: int64[n], at least 1 each.
        lines: int64[n], line numbers.
        without_output: number of skipped requests without output tokens.
        out_of_order: number of requests below a later one.
    """

    path: Path
    arrival_ps: Ints
    prompt_tokens: Ints
    output_tokens: Ints
    lines: Ints
    without_output: int
    out_of_order: int

    def __len__(self) -> int:
        return int(self.arrival_ps.size)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on deviations from the file."""
        name, found = self.path.name, []
        if self.without_output:
            found.append(
                f"{self.without_output:,} requests of {name} without output tokens skipped"
            )
        if self.out_of_order:
            found.append(f"{self.out_of_order:,} requests of {name} were out of order and sorted")
        return tuple(found)


def read_request_trace(path: Path) -> RequestTrace:
    """Read a trace. Requests without output tokens are skipped and counted.

    Raises InputError with line and column.
    """
    (first, header), *body = _rows(path)
    names = [cell.strip() for cell in header]
    with reading(path, first):
        when, prompt, output = (
            _column(names, known, what)
            for known, what in (
                (tuple(ARRIVAL), "the arrival"),
                (PROMPT, "the prompt's tokens"),
                (OUTPUT, "the output's tokens"),
            )
        )
    if not body:
        raise InputError(
            "has no requests", file=str(path), hint="one line per request below the header"
        )
    unit_ps = ARRIVAL[names[when].lower()]
    first_arrival = "".join(body[0][1][when : when + 1]).strip()
    dated = names[when].lower() == "timestamp" and _WHEN.fullmatch(first_arrival)
    to_ps = _clock_ps if dated else partial(_time_ps, scale=unit_ps)
    for line, cells in body:
        if len(cells) != len(names):
            raise at_line(path, line, f"has {len(cells)} values for {len(names)} columns")
    converters = {when: to_ps, prompt: partial(_tokens, least=1), output: _tokens}
    found: dict[int, list[int]] = {}
    for column, convert in converters.items():
        found[column] = []
        try:
            for _, cells in body:
                found[column].append(convert(cells[column]))
        except InputError as error:
            line = body[len(found[column])][0]
            raise error.at(file=f"{path}:{line}", key=names[column]) from None
    lines = [line for line, _ in body]
    arrival = _since_first(path, lines, names[when], found[when]) if dated else found[when]
    columns = (arrival, found[prompt], found[output], lines)
    return _sorted(path, *(np.array(column, np.int64) for column in columns))


def _sorted(path: Path, arrival: Ints, prompt: Ints, output: Ints, lines: Ints) -> RequestTrace:
    """Return the requests with output tokens, in order of arrival."""
    some = np.flatnonzero(output)
    if not some.size:
        raise InputError("has no request with output tokens", file=str(path))
    late = arrival[some] < np.maximum.accumulate(arrival[some])
    order = some[np.argsort(arrival[some], kind="stable")]
    return RequestTrace(
        path,
        arrival[order],
        prompt[order],
        output[order],
        lines[order],
        without_output=arrival.size - some.size,
        out_of_order=int(late.sum()),
    )


def _rows(path: Path) -> list[tuple[int, list[str]]]:
    """Return the non-empty rows of a CSV file with their lines, header first."""
    try:
        text = unpacked(path, read_bytes(path)).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise unreadable(path, error) from None
    rows: list[tuple[int, list[str]]] = []
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for cells in reader:
            if cells and not cells[0].lstrip().startswith("#"):
                rows.append((reader.line_num, cells))
    except csv.Error as error:
        raise at_line(path, reader.line_num, f"is not CSV: {error}") from None
    if not rows:
        raise InputError("is empty", file=str(path), hint=f"the first line names columns, {HEADER}")
    return rows


def _column(names: list[str], known: Sequence[str], what: str) -> int:
    """Return the column with one of the known names."""
    found = [column for column, name in enumerate(names) if name.lower() in known]
    if len(found) > 1:
        both = " and ".join(written(names[column]) for column in found[:2])
        raise InputError(f"{both} are both {what}", hint="one column")
    if not found:
        columns = ", ".join(written(name) for name in names[:8])
        hint = f"one of {', '.join(known)}"
        raise InputError(f"has no column of {what}, but {columns}", hint=hint)
    return found[0]


def _tokens(cell: str, least: int = 0) -> int:
    return bounded("tokens", cell, least, COUNT + 1)


def _since_first(path: Path, lines: list[int], column: str, times: list[int]) -> list[int]:
    """Return times from the earliest one on."""
    first = min(times)
    since = [time - first for time in times]
    last = max(since)
    if last >= HORIZON_PS:
        message = f"{column}: is {last / 3.6e15:,.1f} hours after the first request"
        line = lines[since.index(last)]
        raise at_line(path, line, message, "a trace of less than 20 hours")
    return since


def _time_ps(cell: str, scale: int) -> int:
    """Convert a number in units of `scale` ps."""
    try:
        if _NUMBER.fullmatch(cell.strip()) is None:
            raise ValueError
        time = Decimal(cell.strip())
    except (ValueError, InvalidOperation):
        raise InputError(f"{written(cell)} is not a time", hint="a number") from None
    if time < 0:
        raise InputError(f"{written(cell)} is negative", hint="from 0 on", code="out_of_range")
    if time >= Decimal(HORIZON_PS) / scale:
        raise InputError(f"{written(cell)} is too late", hint="less than 20 hours")
    return int((time * scale).to_integral_value())


def _clock_ps(cell: str) -> int:
    """Convert a date and time to ps since 1970, in UTC unless it has an offset."""
    match = _WHEN.fullmatch(cell.strip())
    try:
        if match is None:
            raise ValueError
        day, clock, fraction, zone = match.groups()
        offset = "+00:00" if zone in (None, "Z") else zone
        when = datetime.fromisoformat(f"{day}T{clock}{offset}")
    except ValueError:
        hint = "like 2023-11-16 18:15:46.6805900, as the first"
        raise InputError(f"{written(cell)} is not a date and time", hint=hint) from None
    seconds = when - datetime(1970, 1, 1, tzinfo=UTC)
    whole_seconds = seconds.days * 86_400 + seconds.seconds
    return whole_seconds * 10**12 + int((fraction or "0").ljust(12, "0"))
