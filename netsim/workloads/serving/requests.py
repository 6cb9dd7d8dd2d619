"""The requests of a serving run: arrivals and lengths.

Arrivals are a Poisson process, have gamma-distributed gaps (of a given coefficient of variation: 1
is Poisson, 0 even), are evenly spaced, or come from a trace. `rate` scales the gaps of a trace.
Lengths are drawn or come from a trace.

Gaps are drawn before lengths, and a rate only scales gaps: the requests of all rates are the same,
in the same order.

| length_distribution | tokens of a request |
|---|---|
| fixed | the given number |
| uniform | `least` to `most`, each with equal probability |
| lognormal | exp of a normal variable, with the given mean and coefficient of variation |
| zipf | `least` + k - 1, up to `most`, with probability proportional to k^-exponent |
| table | from a file of token counts and cumulative probabilities |
| trace | from the trace |

All are rounded to integers of at least 1. Vidur draws the fixed, uniform and Zipf distributions
(microsoft/vidur, vidur/request_generator), but for prompt and output together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.common.inputs import read_distribution, user_path
from netsim.common.memory import require_room
from netsim.errors import InputError
from netsim.limits import COUNT, HORIZON_PS
from netsim.model.checks import HORIZON
from netsim.params import Param
from netsim.units import written
from netsim.workloads.importers.request_trace import UNITS_PS, RequestTrace, read_request_trace
from netsim.workloads.serving.data import Requests, check_used

FIXED, UNIFORM, LOGNORMAL, ZIPF, TABLE, TRACE = LENGTHS = (
    *("fixed", "uniform", "lognormal", "zipf", "table", "trace"),
)

MAX_TOKENS = 1 << 24  # largest number of tokens drawn: no model has a context of 16 million tokens

POISSON, GAMMA, EVEN, OF_TRACE = ARRIVALS = ("poisson", "gamma", "even", "trace")

ONE_PART = {"prompt": "a prompt", "output": "an output"}
PARTS = tuple(ONE_PART)

REQUEST_BYTES = 400  # bytes per request while requests are drawn

DEFAULTS = {"requests": 1000, "prompt": 1500, "output": 200}  # defaults without a trace

SHAPES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "length_cv": (1.0, (LOGNORMAL,)),
    "length_min": (1, (UNIFORM, ZIPF)),
    "length_max": (4096, (UNIFORM, ZIPF)),
    "zipf_exponent": (1.0, (ZIPF,)),
}
"""Parameters of distributions: their defaults, and the distributions that use them."""

REQUEST_PARAMS = [
    Param("arrival_process", "choice", POISSON, "arrival process", choices=ARRIVALS),
    Param(
        "rate",
        "ratio",
        None,
        "requests per second in total; default for a trace: its own",
        maximum=1e9,
    ),
    Param(
        "burstiness",
        "ratio",
        None,
        "gamma: coefficient of variation of the gaps; 1 is Poisson",
        minimum=0.01,
        maximum=100,
    ),
    Param(
        "requests", "count", None, "number of requests; default: 1000, or all of a trace", minimum=1
    ),
    Param("trace", "file", None, "CSV or JSONL file of arrivals and tokens"),
    Param(
        "trace_time_unit",
        "choice",
        None,
        "unit of the trace's arrivals, where their column does not tell it",
        choices=tuple(UNITS_PS),
    ),
    Param(
        "length_distribution",
        "choice",
        FIXED,
        "distribution of prompt and output tokens",
        choices=LENGTHS,
        each=PARTS,
    ),
    *(
        Param(
            part,
            "count",
            None,
            f"fixed: tokens of {one}, lognormal: their mean; default: {DEFAULTS[part]}",
            minimum=1,
            maximum=MAX_TOKENS,
        )
        for part, one in ONE_PART.items()
    ),
    Param(
        "length_cv",
        "ratio",
        None,
        "lognormal: coefficient of variation; default: 1",
        maximum=100,
        each=PARTS,
    ),
    *(
        Param(
            name,
            "count",
            None,
            f"uniform, zipf: {which} tokens; default: {SHAPES[name][0]}",
            minimum=1,
            maximum=MAX_TOKENS,
            each=PARTS,
        )
        for name, which in (("length_min", "fewest"), ("length_max", "most"))
    ),
    Param("zipf_exponent", "ratio", None, "zipf: exponent; 0 is uniform; default: 1", each=PARTS),
    *(
        Param(
            f"{part}_table",
            "file",
            None,
            f"table: file of {part} tokens and cumulative probabilities",
        )
        for part in PARTS
    ),
]


@dataclass(frozen=True, eq=False)
class Drawn:
    """The requests of a run, and their source."""

    requests: Requests  # in order of arrival
    notes: tuple[str, ...]  # notes for the user
    trace: RequestTrace | None  # source of the lengths, if any; request i is row i, cyclically

    def check_room(self, capacity_tokens: int, instance: str, *, prompts: bool = False) -> None:
        """Raise InputError if a request does not fit into the KV cache of an instance.

        `capacity_tokens` is the room next to the weights, `instance` a name, "a decode instance".
        With `prompts`, the instance holds no output tokens.
        """
        requests = self.requests
        tokens = requests.prompt_tokens + (0 if prompts else requests.output_tokens)
        for request in np.flatnonzero(tokens > capacity_tokens)[:1].tolist():
            prompt, output = (
                int(column[request]) for column in (requests.prompt_tokens, requests.output_tokens)
            )
            file = None
            if self.trace is not None:
                file = f"{self.trace.path}:{self.trace.lines[request % len(self.trace)]}"
            raise InputError(
                f"request {request} has {prompt:,} prompt tokens and {output:,} output tokens; "
                f"the KV cache of {instance} holds {max(0, capacity_tokens):,}",
                file=file,
                key=None if file else "traffic.length_distribution",
                hint="shorter requests, or GPUs with more memory",
            )


def draw_requests(params: Mapping[str, Any], rng: np.random.Generator, directory: Path) -> Drawn:
    """Return the requests that `REQUEST_PARAMS` describe; relative paths start at `directory`."""
    _check(params)
    trace = None
    if params["trace"] is not None:
        timed = params["arrival_process"] == OF_TRACE
        file = user_path(params["trace"], directory)
        trace = read_request_trace(file, params["trace_time_unit"], timed=timed)
    n = params["requests"] or (DEFAULTS["requests"] if trace is None else len(trace))
    require_room(n * REQUEST_BYTES, what=f"{n:,} requests", key="traffic.requests")
    arrival_ps = _arrivals(params, n, rng, trace)
    prompt, output = (_tokens(part, params, n, rng, trace, directory) for part in PARTS)
    of_trace = TRACE in params["length_distribution"].values()
    notes = trace.notes if trace is not None else ()
    return Drawn(Requests(arrival_ps, prompt, output), notes, trace if of_trace else None)


def _check(params: Mapping[str, Any]) -> None:
    arrivals, lengths = params["arrival_process"], params["length_distribution"]
    if arrivals != OF_TRACE and params["rate"] is None:
        raise InputError("missing", key="traffic.rate", hint="requests per second, such as 10.0")
    if params["rate"] is not None and params["rate"] <= 0:
        raise InputError("must be positive", key="traffic.rate", code="out_of_range")
    uses = {
        "burstiness": (arrivals == GAMMA, 'arrival_process = "gamma"'),
        "trace_time_unit": (arrivals == OF_TRACE, 'arrival_process = "trace"'),
        "trace": (arrivals == OF_TRACE or TRACE in lengths.values(), 'arrival_process = "trace"'),
    }
    for part in PARTS:
        kind, hint = lengths[part], f"length_distribution = {{{part} = "
        uses[part] = kind in (FIXED, LOGNORMAL), f'{hint}"{FIXED}"}}'
        uses[f"{part}_table"] = kind == TABLE, f'{hint}"{TABLE}"}}'
    check_used(params, uses, optional=(*DEFAULTS, "trace_time_unit"))
    _check_shapes(params)


def _check_shapes(params: Mapping[str, Any]) -> None:
    """Check that every parameter of a distribution is used."""
    lengths = params["length_distribution"]
    for name, (_, kinds) in SHAPES.items():
        given = params[name]
        used = {part: lengths[part] in kinds for part in PARTS}
        hint = f"it is for length_distribution = {' or '.join(written(kind) for kind in kinds)}"
        if not any(used.values()) and any(one is not None for one in given.values()):
            raise InputError("has no effect", key=f"traffic.{name}", hint=hint, code="no_effect")
        for part in PARTS:
            # A value given for both parts may be unused in one.
            if given[part] is not None and not used[part] and len(set(given.values())) > 1:
                raise InputError("has no effect", key=f"traffic.{name}.{part}", hint=hint)


def _arrivals(
    params: Mapping[str, Any], n: int, rng: np.random.Generator, trace: RequestTrace | None
) -> NDArray[np.int64]:
    """int64[n], in ps, not decreasing."""
    kind, rate = params["arrival_process"], params["rate"]
    if kind == OF_TRACE and trace is not None:
        if n > len(trace):
            message = f"{n:,} requests exceed the trace's {len(trace):,}"
            raise InputError(message, key="traffic.requests", hint=f"at most {len(trace):,}")
        return _at_rate(trace.arrival_ps[:n], rate)
    if kind == EVEN:
        gaps = np.ones(n)
        gaps[0] = 0.0
    elif kind == GAMMA:
        cv = params["burstiness"]
        gaps = rng.gamma(cv**-2, cv**2, n)
    else:
        gaps = rng.exponential(1.0, n)
    return _in_time(np.cumsum(gaps) * (1e12 / rate))


def _at_rate(arrival_ps: NDArray[np.int64], rate: float | None) -> NDArray[np.int64]:
    """Scale a trace's arrivals to a rate, in 1/s, if any."""
    if rate is None:
        return arrival_ps
    since = arrival_ps - arrival_ps[0]
    if not since[-1]:
        message = "all requests of the trace arrive at once: it has no rate to scale"
        raise InputError(message, key="traffic.rate", hint="leave it out")
    return _in_time(since * ((since.size - 1) / rate * 1e12 / since[-1]))


def _in_time(times: NDArray[np.float64]) -> NDArray[np.int64]:
    """Round times to ps. Raises InputError if the last is too late."""
    if times[-1] >= HORIZON_PS:
        hours = times[-1] / 3.6e15
        message = f"the last of {times.size:,} requests would arrive after {hours:.3g} hours"
        raise InputError(message, key="traffic.rate", hint=HORIZON)
    return np.asarray(np.rint(times).astype(np.int64))


def _tokens(
    part: str,
    params: Mapping[str, Any],
    n: int,
    rng: np.random.Generator,
    trace: RequestTrace | None,
    directory: Path,
) -> NDArray[np.int64]:
    """int64[n]: tokens of prompts or outputs."""
    kind = params["length_distribution"][part]
    if kind == TRACE and trace is not None:
        return np.resize(getattr(trace, f"{part}_tokens"), n)
    if kind == TABLE:
        path = user_path(params[f"{part}_table"], directory)
        points = read_distribution(path, "number of tokens", COUNT)
        tokens, below = np.array(points, np.float64).T
        if tokens.size == 1:
            return np.full(n, int(tokens[0]), np.int64)
        return _rounded(np.interp(rng.random(n), below, tokens))
    mean = params[part] or DEFAULTS[part]
    if kind == FIXED:
        return np.full(n, mean, np.int64)
    cv, least, most, exponent = (
        default if params[name][part] is None else params[name][part]
        for name, (default, _) in SHAPES.items()
    )
    if kind == LOGNORMAL:
        spread = np.log1p(cv**2)
        drawn = rng.lognormal(np.log(mean) - spread / 2, np.sqrt(spread), n)
        return _rounded(np.minimum(drawn, MAX_TOKENS))
    if most < least:
        message = f"{most} is below the minimum, {least}"
        raise InputError(message, key=f"traffic.length_max.{part}")
    if kind == UNIFORM:
        return rng.integers(least, most + 1, n)
    weights = np.arange(1, most - least + 2) ** -float(exponent)
    chances = np.cumsum(weights)
    above = np.searchsorted(chances, rng.random(n) * chances[-1], side="right")
    return np.asarray((least + above).astype(np.int64))


def _rounded(drawn: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.maximum(1, np.rint(drawn)).astype(np.int64)
