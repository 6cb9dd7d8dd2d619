"""Request traces of LLM serving: arrivals, prompt tokens and output tokens.

"Traces" in `docs/serving.md` describes the files. Columns have the names of published traces, in
upper or lower case. An arrival in the column `timestamp` may be a date and time, such as 2023-11-16
18:15:46.6805900, counted from the earliest one. The name of the column gives the unit of numbers,
or else the format, which the prompt column identifies (`FORMATS`).

Sources: Azure/AzurePublicDataset, AzureLLMInferenceDataset2023.md (schema); microsoft/vidur,
data/processed_traces and vidur/request_generator; Mutinifni/splitwise-sim; HPMLL/BurstGPT;
kvcache-ai/Mooncake, FAST25-release (timestamps in milliseconds).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from functools import partial
from pathlib import Path

import numpy as np

from netsim.common.inputs import at_line, bounded, read_text
from netsim.errors import InputError, errors_at
from netsim.frozen import frozen
from netsim.limits import COUNT, HORIZON_PS
from netsim.model.columns import Ints
from netsim.traffic._rows import Rows, each, fail_at, read_csv
from netsim.units import written

UNITS_PS = {"s": 10**12, "ms": 10**9, "us": 10**6, "ns": 10**3}  # units of arrivals

TIMES = ("arrival", "arrival_time", "arrived_at", "arrival_timestamp", "timestamp")
ARRIVAL = (*(f"arrival_{unit}" for unit in UNITS_PS), *TIMES)
ARRIVAL += tuple(f"{name}_{unit}" for name in TIMES[1:] for unit in UNITS_PS)
PROMPT = (
    *("prompt_tokens", "num_prefill_tokens", "contexttokens", "prompt_size", "request tokens"),
    "input_length",
)
OUTPUT = (
    *("output_tokens", "num_decode_tokens", "generatedtokens", "token_size", "response tokens"),
    "output_length",
)
"""Names of columns, in lower case."""

FORMATS = {
    ("arrived_at", "num_prefill_tokens"): "s",
    ("arrival_timestamp", "prompt_size"): "s",
    ("timestamp", "request tokens"): "s",
    ("timestamp", "input_length"): "ms",
}
"""Columns of arrivals and of prompts that identify a format, and its unit."""

_WHEN = re.compile(
    r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,12}))?(Z|[+-]\d\d:\d\d)?", re.ASCII
)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


@frozen(eq=False)
class RequestTrace:
    """The requests of a trace in order of arrival; ties keep the file's order."""

    path: Path
    arrival_ps: Ints  # int64[n], not negative, not decreasing
    # prompt_tokens, output_tokens: int64[n], at least 1 each
    prompt_tokens: Ints
    output_tokens: Ints
    lines: Ints  # int64[n], line numbers
    without_output: int  # number of skipped requests without output tokens
    out_of_order: int  # number of requests below a later one

    def __len__(self) -> int:
        return int(self.arrival_ps.size)

    @property
    def notes(self) -> tuple[str, ...]:
        name, found = self.path.name, []
        if self.without_output:
            found.append(
                f"{self.without_output:,} requests of {name} without output tokens skipped"
            )
        if self.out_of_order:
            found.append(f"{self.out_of_order:,} requests of {name} were out of order and sorted")
        return tuple(found)


def read_request_trace(path: Path, unit: str | None = None, *, timed: bool = True) -> RequestTrace:
    """Read a trace. Requests without output tokens are skipped and counted.

    `unit`, one of `UNITS_PS`, is the unit of arrivals if their column does not state it. Without
    `timed`, arrivals only order the requests.

    Raises InputError with line and column, also for arrivals of unknown unit.
    """
    rows = _objects(path) if read_text(path).lstrip().startswith("{") else read_csv(path)
    with errors_at(file=f"{path}:{rows.lines[0]}"):
        when, prompt, output = (
            _column([*rows.columns], known, what)
            for known, what in (
                (ARRIVAL, "the arrival"),
                (PROMPT, "the prompt's tokens"),
                (OUTPUT, "the output's tokens"),
            )
        )
    if not rows.n_rows:
        hint = "one line per request below the header"
        raise InputError("has no requests", file=str(path), hint=hint)
    dated = when.lower() == "timestamp" and _WHEN.fullmatch(rows.columns[when][0].strip())
    with errors_at(file=f"{path}:{rows.lines[0]}"):
        of_names = unit if dated else _unit(when, prompt, unit, timed=timed)
    to_ps = _clock_ps if dated else partial(_time_ps, scale=UNITS_PS[of_names or "ns"])
    arrival = each(rows, when, to_ps)
    if dated:
        first = min(arrival)
        arrival = [time - first for time in arrival]
        hours = np.array(arrival, float) / 3.6e15
        late = hours >= HORIZON_PS / 3.6e15
        fail_at(
            rows, late, lambda row: f"{when}: is {hours[row]:,.1f} hours after the first request"
        )
    to_tokens = (partial(bounded, "tokens", least=least, below=COUNT + 1) for least in (1, 0))
    tokens = map(partial(each, rows), (prompt, output), to_tokens)
    columns = (arrival, *tokens, rows.lines[1:])
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


def _unit(arrival: str, prompt: str, given: str | None, *, timed: bool) -> str | None:
    """Return the unit of arrivals; None if it is neither known nor needed."""
    name = arrival.lower()
    suffix = name.rpartition("_")[2] if name not in TIMES else None
    known = suffix or FORMATS.get((name, prompt.lower()))
    if suffix and given not in (None, suffix):
        message = f"{written(arrival)} is in {suffix}, not in {given}"
        raise InputError(message, hint="without trace_time_unit", code="conflict")
    found = given or known
    if timed and not found:
        units = ", ".join(f'"{unit}"' for unit in UNITS_PS)
        hint = f"traffic.trace_time_unit = one of {units}; or a column such as arrival_ms"
        raise InputError(f"{written(arrival)} has no unit", hint=hint, code="missing")
    return found


def _objects(path: Path) -> Rows:
    """Return the values of JSON objects, one a line, by the keys of the first."""
    rows: list[list[str]] = []
    lines: list[int] = []
    names: list[str] = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            found = json.loads(line, parse_int=str, parse_float=str, parse_constant=str)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise at_line(path, number, f"{written(line)} is not a JSON object")
        names = names or [*found]
        lines += [number] * (1 if lines else 2)  # the first one is the header too
        values = (found.get(name) for name in names)
        rows.append([one if isinstance(one, str) else "" for one in values])
    columns: dict[str, Sequence[str]] = dict(zip(names, zip(*rows, strict=True), strict=False))
    return Rows(
        path, columns, len(rows), lambda row, text: at_line(path, lines[row + 1], text), lines
    )


def _column(names: list[str], known: Sequence[str], what: str) -> str:
    found = [name for name in names if name.lower() in known]
    if len(found) > 1:
        both = " and ".join(map(written, found[:2]))
        raise InputError(f"{both} are both {what}", hint="one column")
    if not found:
        columns = ", ".join(map(written, names[:8]))
        hint = f"one of {', '.join(known)}"
        raise InputError(f"has no column of {what}, but {columns}", hint=hint)
    return found[0]


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
