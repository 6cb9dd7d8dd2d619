"""Measured collectives of nccl-tests and rccl-tests, and the curves fitted to their times.

The tests' text has a line of column names and a line per size; launchers may put prefixes before
them. Only out-of-place times are read.

The times of all shapes and sizes of a collective are fitted together, on log t, by damped
Gauss-Newton. Values that few measurements determine stay near NCCL's tuning model; `START` has its
latencies. Its spreads and `NOISE` were chosen so that published times of other node counts and
networks are predicted well.

The file also computes the errors of the fit, also on held-out measurements, and writes the
calibrated machine as TOML.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from netsim.common.inputs import read_json, read_text
from netsim.common.writing import toml_text
from netsim.errors import InputError, printable
from netsim.frozen import frozen
from netsim.limits import SIZE_BYTES
from netsim.model.columns import Floats
from netsim.params import as_table
from netsim.units import format_bytes, shortened, written
from netsim.version import __version__
from netsim.workloads.job.machine import (
    LEFT_OUT,
    CollectiveCurves,
    Curve,
    Estimate,
    Factors,
    Shape,
    Spread,
    extended,
    part_count,
    terms,
)

MAX_ROWS = 100_000  # most measurements of a file

MAX_GPUS = 1 << 20

MAX_US = 1e12

NAMES = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "sendrecv": "send",
}
"""Collectives as the tools name them, without "_"."""

OTHERS = ("broadcast", "reduce", "gather", "scatter", "hypercube", "alltoallv")

_JSON = re.compile(r"\s*(?:\{|\[\s*[\[{\]])")

_TAG = re.compile(r"\[\d+,\d+\]<std(?:out|err)>:")  # mpirun's, also inside lines

_PREFIX = re.compile(r"\s*(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*\s+)?(?:\d+:)?\s*")

ERROR = 0.01  # largest error of correct results, in older tests' column for wrong results

_RANK = re.compile(
    r"#\s+Rank\s+(\d{1,9})\s+(?:Group\s+(\d{1,9})\s+)?Pid\s+\d+\s+on\s+(\S+)\s+device\s+\d+"
    r"\s+\[[^\]]*\]\s*(.*)"
)

_TEST = re.compile(r"\b([a-z_]{1,30})_perf\b")

_VERSION = re.compile(r"\b(?:[NR]CCL version|nccl-tests version|rccl-tests: Version)\s*[\w.+:-]+")


class Measurement(NamedTuple):
    """A time of a collective."""

    what: str
    shape: Shape
    size_bytes: int
    time_us: float
    file: str = ""


@dataclass
class MeasuredFile:
    """Measurements of a file, and its statements about the machine."""

    name: str
    sha256: str
    shape: Shape | None  # the shape of files that do not list ranks
    rows: list[Measurement] = field(default_factory=list)
    versions: set[str] = field(default_factory=set)
    devices: set[str] = field(default_factory=set)
    left_out: Counter[str] = field(default_factory=Counter)
    # context of the row being read: its line, its test, and the hosts of ranks
    line: int = 0
    test: str = ""
    hosts: dict[int, str] = field(default_factory=dict)


def read_measured(path: Path, shape: Shape | None = None) -> MeasuredFile:
    """Read a file; `shape` is the shape of files that do not list ranks."""
    text = read_text(path)
    found = MeasuredFile(path.name, hashlib.sha256(text.encode()).hexdigest(), shape)
    found.test = _test_in(path.name)
    try:
        if _JSON.match(text):
            _read_json(found, read_json(path))
        else:
            _read_lines(found, text)
    except InputError as error:
        raise error.at(file=f"{path}:{found.line}" if found.line else str(path)) from None
    if not found.rows:
        left = ", ".join(f"{n} {why}" for why, n in found.left_out.items())
        hint = f"left out: {left}" if left else "the output of nccl-tests or rccl-tests"
        raise InputError("has no measured collective", file=str(path), hint=hint)
    return found


def _read_lines(found: MeasuredFile, text: str) -> None:
    columns: list[str] = []
    for found.line, tagged in enumerate(text.splitlines(), 1):
        raw = _TAG.sub("", tagged)
        line = raw[_PREFIX.match(raw).end() :]  # type: ignore[union-attr]
        words = line.split()
        if version := _VERSION.search(line):
            found.versions.add(version[0])
        if match := _TEST.search(line):
            found.test = match[1]
        if line.startswith("#"):
            names = line.lstrip("# ").split()
            if names[:3] == ["size", "count", "type"]:
                columns = names
            elif names[:1] in (["nThread"], ["Using"]):
                found.hosts = {}
            elif (rank := _RANK.match(line)) and int(rank[2] or 0) == 0:
                found.hosts[int(rank[1])] = rank[3]
                found.devices.add(rank[4].strip())
                if len(found.hosts) > MAX_GPUS:
                    raise InputError(f"more than {MAX_GPUS:,} ranks")
        elif words and words[0].isascii() and words[0].isdigit():
            _add(found, *_row_of(words, columns))


def _row_of(words: list[str], columns: list[str]) -> tuple[Any, Any, Any]:
    """Return size, time and wrong values of a line."""
    at = next((k for k, name in enumerate(columns) if name in ("time", "cputime")), None)
    if at is None or len(columns) <= at + 3:
        hint = "size count type ... time algbw busbw #wrong"
        raise InputError("numbers without column names before them", hint=hint)
    if len(words) <= at + 3:
        raise InputError(f"{len(words)} values, at least {at + 4} expected")
    wrong = words[at + 3]
    if columns[at + 3] == "error" and wrong != "N/A":
        wrong = "0" if _number(wrong) <= ERROR else "1"
    return words[0], words[at], wrong


def _read_json(found: MeasuredFile, value: Any) -> None:
    results = value
    if isinstance(value, dict):
        args, results = value.get("args"), value.get("results")
        for word in args if isinstance(args, list) else []:
            if isinstance(word, str) and (match := _TEST.search(word)):
                found.test = match[1]
        if isinstance(version := value.get("nccl_version"), int):
            found.versions.add(f"NCCL version {version}")
        for one in _tables(value.get("devices", []), "devices"):
            rank, host = one.get("rank"), one.get("hostname")
            if not isinstance(rank, int) or not isinstance(host, str):
                raise InputError("devices must have rank and hostname")
            if one.get("group", 0) == 0:
                found.hosts[rank] = host
                found.devices.add(str(one.get("device_info", "")).strip()[:100])
    for one in _tables(results, "results"):
        if isinstance(name := one.get("name"), str):
            found.test = _test_in(name)
        if one.get("inPlace") in (1, "1"):
            continue
        timed = one.get("out_of_place", one)
        if timed is None:
            found.left_out["only in place"] += 1
            continue
        if not isinstance(timed, dict):
            raise InputError(f"{written(timed)} must be a table of times")
        time = timed.get("time", timed.get("cpu_time"))
        wrong = timed.get("nwrong", timed.get("wrong", 0))
        _add(found, one.get("size"), time, "N/A" if wrong is None else wrong)


def _tables(value: Any, what: str) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise InputError(f"{what} must be a list of tables")
    if len(value) > MAX_GPUS:
        raise InputError(f"more than {MAX_GPUS:,} {what}")
    return value


def _add(found: MeasuredFile, given_size: Any, given_time: Any, wrong: Any) -> None:
    """Check and add a row, or count why it is left out."""
    size, time = _number(given_size), _number(given_time)
    if size == 0:
        found.left_out["of size 0"] += 1
        return
    if not 0 < size < SIZE_BYTES or size != int(size):
        raise InputError(f"invalid size {shortened(str(given_size))}")
    if not 0 < time < MAX_US:
        raise InputError(f"invalid time {shortened(str(given_time))}", hint="microseconds")
    if wrong != "N/A" and _number(wrong) != 0:
        found.left_out["with wrong results"] += 1
        return
    test = found.test.replace("_", "").lower()
    if test in OTHERS:
        found.left_out[f"of {found.test}"] += 1
        return
    if test not in NAMES:
        hint = "name the file after its test, such as all_reduce_perf.txt"
        raise InputError("unknown collective", hint=hint)
    if len(found.rows) == MAX_ROWS:
        raise InputError(f"more than {MAX_ROWS:,} measurements")
    shape = found.shape
    if found.hosts:
        gpus = Counter(found.hosts.values())
        if len(set(gpus.values())) > 1:
            raise InputError("nodes with different numbers of GPUs")
        shape = Shape(len(gpus), next(iter(gpus.values())))
    if shape is None:
        raise InputError("no list of ranks", hint="--shape NODESxGPUS")
    if shape.n < 2:
        found.left_out["of one GPU"] += 1
        return
    found.rows.append(Measurement(NAMES[test], shape, int(size), time, found.name))


def _number(value: Any) -> float:
    number = math.nan
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        with suppress(ValueError, OverflowError):
            number = float(value)
    if not math.isfinite(number):
        raise InputError(f"{written(value)} is not a number")
    return number


def _test_in(name: str) -> str:
    plain = name.lower().replace("_", "").replace("-", "")
    known = sorted((*NAMES, *OTHERS), key=len, reverse=True)
    return next((test for test in known if test in plain), "")


def parse_shape(text: str, option: str = "--shape") -> Shape:
    """Parse "2x8": nodes and GPUs per node."""
    match = re.fullmatch(r"([1-9]\d{0,6})x([1-9]\d{0,6})", text)
    if match is None or int(match[1]) * int(match[2]) > MAX_GPUS:
        raise InputError(f"{written(text)} is not a shape", file=option, hint="such as 2x8")
    return Shape(int(match[1]), int(match[2]))


Fits = dict[tuple[str, bool], CollectiveCurves]
"""Curves of each collective inside a node (False) and between nodes (True)."""


class Start(NamedTuple):
    """Initial values for the fit of a curve: latencies in us, and fractions of the links' rates."""

    base: float
    step: float
    hop: float
    inside: float
    between: float


START = {
    ("ring", "ll"): Start(6.6, 0.6, 2.7, 0.25, 0.25),
    ("ring", "ll128"): Start(14.0, 1.9, 4.0, 0.7, 0.7),
    ("ring", "simple"): Start(8.4, 3.4, 14.0, 0.8, 0.95),
    ("tree", "ll"): Start(6.8, 0.6, 7.5, 0.25, 0.25),
    ("tree", "ll128"): Start(14.0, 1.25, 12.7, 0.7, 0.7),
    ("tree", "simple"): Start(8.4, 4.0, 21.0, 0.8, 0.87),
    ("nvls", "simple"): Start(1.0, 25.0, 18.0, 0.62, 0.85),
    ("direct", "ll"): Start(6.6, 0.6, 2.7, 0.25, 0.25),
    ("direct", "simple"): Start(8.4, 3.4, 14.0, 0.8, 0.95),
}
"""Latencies are NCCL's, except 1.5 times for hops of trees, where inner nodes wait for two others;
the 1.5 was chosen like the spreads."""

BY_COLLECTIVE = {
    "all_reduce": ("ring", "tree", "nvls"),
    "reduce_scatter": ("ring",),
    "all_gather": ("ring",),
    "all_to_all": ("direct",),
    "send": ("direct",),
}

NOISE = 0.3  # error of the curves on log t, before factors

OWN = (0.2, 0.2, 0.2, 0.1, 0.1)

COMMON = (("base", 0.4), ("latency", 1.0), ("latency", 1.0), ("inside", 0.4), ("between", 0.4))
"""Standard deviations of log base, step, hop, inside and between from their initial values: for
each curve, and for the part common to a name. Latencies per step and hop scale together."""

SHARPNESS = (6.0, 60.0)  # exponents of the smooth minimum over curves, one fit after the other

MAX_STEPS = 60


@frozen
class Rates:
    """Rates of a GPU inside a node and of its port between nodes, in bit/s."""

    inside_bps: int
    port_bps: int
    reduces: bool = False  # whether switches inside a node reduce


def fit(rows: Sequence[Measurement], rates: Rates) -> CollectiveCurves:
    """Return curves for measurements of one collective, all inside a node or all between nodes."""
    what = rows[0].what
    between = rows[0].shape.nodes > 1
    names = [
        (algorithm, protocol)
        for algorithm, protocol in START
        if algorithm in BY_COLLECTIVE[what]
        and (between or algorithm != "tree")
        and (rates.reduces or algorithm != "nvls")
    ]
    start = np.log(
        [
            (one.base, one.step, one.hop, one.inside * rates.inside_bps / 8e6, one.between)
            for one in (START[name] for name in names)
        ]
    )
    times = _timer(rows, [name[0] for name in names], rates)
    whiten = _whitening(len(names))
    measured = np.log([row.time_us for row in rows])

    x = start.ravel()
    for sharpness in SHARPNESS:

        def errors(x: Floats, sharpness: float = sharpness) -> Floats:
            logs = np.log(times(x.reshape(start.shape)))
            low = logs.min(axis=0)
            took = low - np.log(np.exp(-sharpness * (logs - low)).sum(axis=0)) / sharpness
            return np.concatenate([(took - measured) / NOISE, whiten @ (x - start.ravel())])

        x = _least_squares(errors, x)
    values = np.exp(x.reshape(start.shape))
    curves = tuple(
        Curve(
            algorithm=algorithm,
            protocol=protocol,
            base=_ps(base),
            step=_ps(step),
            hop=_ps(hop) if between else 0,
            inside=round(inside / 1e3) * 8 * 10**9,
            efficiency=round(share, 4) if between else 1.0,
        )
        for (algorithm, protocol), (base, step, hop, inside, share) in zip(
            names, values.tolist(), strict=True
        )
    )
    return _corrected(CollectiveCurves(what=what, curves=curves, pieces=True), rows, rates)


def _ps(time_us: float) -> int:
    """Return a time in ps, in whole nanoseconds."""
    return 1000 * round(1000 * time_us)


def _whitening(n: int) -> Floats:
    """Return the matrix that decorrelates the logarithms of values of `n` curves."""
    names = np.array([name for name, _ in COMMON])
    spread = np.array([value for _, value in COMMON])
    same = (names[:, None] == names) * spread[:, None] * spread
    covariance = np.kron(np.ones((n, n)), same) + np.kron(np.eye(n), np.diag(np.square(OWN)))
    made: Floats = np.linalg.inv(np.linalg.cholesky(covariance))
    return made


def _timer(
    rows: Sequence[Measurement], algorithms: Sequence[str], rates: Rates
) -> Callable[[Floats], Floats]:
    """Return a function from logarithms of values to times in us, by curve and row."""
    parts = np.array(
        [[terms(row.what, algorithm, row.shape) for row in rows] for algorithm in algorithms]
    )
    size = np.array([row.size_bytes for row in rows], float)
    steps, hops, inside = (parts[:, :, k] for k in range(3))
    between = 8e6 * parts[:, :, 3] / (parts[:, :, 4] * rates.port_bps)

    def times(logs: Floats) -> Floats:
        base, step, hop, rate, share = np.exp(logs).T[:, :, None]
        wire: Floats = size * np.maximum(inside / rate, between / share)
        latency: Floats = base + steps * step + hops * hop
        return latency + wire

    return times


def _least_squares(errors: Callable[[Floats], Floats], x: Floats) -> Floats:
    """Minimize the sum of squares (Levenberg-Marquardt, numerical derivatives)."""
    now, damping = errors(x), 1.0
    for _ in range(MAX_STEPS):
        slopes = np.stack([(errors(x + d) - now) / 1e-5 for d in 1e-5 * np.eye(x.size)], axis=1)
        square, down = slopes.T @ slopes, -slopes.T @ now
        before = float(now @ now)
        while damping < 1e9:
            step = np.linalg.solve(square + damping * np.diag(np.diag(square)), down)
            then = errors(x + np.clip(step, -1.0, 1.0))
            if float(then @ then) < before:
                break
            damping *= 4
        else:
            break
        x, now, damping = x + np.clip(step, -1.0, 1.0), then, damping / 6
        if before - float(now @ now) < 1e-4 * before:
            break
    return x


def _corrected(
    bare: CollectiveCurves, rows: Sequence[Measurement], rates: Rates
) -> CollectiveCurves:
    """Add the factors of each shape: one per size, or the mean of sizes within about 20 %."""
    found: dict[Shape, dict[int, list[tuple[float, float]]]] = {}
    for row in rows:
        at = math.log2(max(1.0, row.size_bytes / part_count(row.what, row.shape.n)))
        took = bare.time_ps(row.shape, row.size_bytes, rates.port_bps)
        errors = found.setdefault(row.shape, defaultdict(list))
        errors[round(4 * at)].append((at, math.log(row.time_us * 1e6 / took)))
    factors = []
    for shape, errors in sorted(found.items()):
        means = [np.mean(errors[k], axis=0).tolist() for k in sorted(errors)]
        by_size = tuple((at, log) for at, log in means)
        factors.append(Factors(nodes=shape.nodes, per_node=shape.per_node, by_size=by_size))
    return replace(bare, factors=tuple(factors))


def fitted(rows: Iterable[Measurement], rates: Rates) -> Fits:
    """Return the curves of each collective, inside a node (False) and between nodes (True)."""
    groups: dict[tuple[str, bool], list[Measurement]] = defaultdict(list)
    for row in rows:
        groups[row.what, row.shape.nodes > 1].append(row)
    return {key: fit(group, rates) for key, group in sorted(groups.items())}


BANDS = ((64 << 10, "<= 64 KiB"), (16 << 20, "<= 16 MiB"), (1 << 60, "above"))
"""Largest size and name of each band."""

MAX_NODE_COUNTS = 32  # most numbers of nodes that are left out in turn


class Residual(NamedTuple):
    """A measurement; its predicted time over the measured one, minus 1; and its distance, as a
    difference of logarithms, from the times interpolated from neighboring sizes."""

    row: Measurement
    error: float
    miss: float


class Summary(NamedTuple):
    """Errors of some measurements: number, median and largest by band."""

    name: str
    bands: tuple[tuple[int, float, float], ...]


def residuals(fits: Fits, rows: Iterable[Measurement], rates: Rates) -> list[Residual]:
    """Return the errors of measurements that have curves."""
    found = []
    for row in rows:
        curves = fits.get((row.what, row.shape.nodes > 1))
        if curves is not None:
            times_ps = curves.times_ps(row.shape, row.size_bytes, rates.port_bps)
            ratios = [time_ps / 1e6 / row.time_us for time_ps in times_ps]
            miss = max(0.0, math.log(min(ratios)), -math.log(max(ratios)))
            found.append(Residual(row, ratios[0] - 1, miss))
    return found


def summary(name: str, found: Iterable[Residual]) -> Summary:
    """Return median and largest error by band of sizes."""
    by_band: list[list[float]] = [[] for _ in BANDS]
    for one in found:
        by_band[_band(one.row.size_bytes)].append(abs(one.error))
    return Summary(
        name,
        tuple(
            (len(errors), median(errors) if errors else 0, max(errors, default=0))
            for errors in by_band
        ),
    )


def _band(size_bytes: int) -> int:
    return next(k for k, (largest, _) in enumerate(BANDS) if size_bytes <= largest)


class LeftOut(NamedTuple):
    """Errors of measurements held out of fits, by collective, and for node counts also by number of
    nodes."""

    sizes: dict[str, list[Residual]]
    node_counts: dict[str, dict[int, list[Residual]]]


def left_out(rows: Sequence[Measurement], rates: Rates) -> LeftOut:
    """Hold out sizes, then node counts."""
    by_what: dict[str, list[Measurement]] = defaultdict(list)
    for row in rows:
        by_what[row.what].append(row)
    counts = {what: without_node_counts(some, rates) for what, some in by_what.items()}
    return LeftOut(without_sizes(rows, rates), counts)


def summaries(
    rows: Sequence[Measurement], fits: Fits, rates: Rates, left: LeftOut
) -> Iterator[Summary]:
    """Yield the errors of the fit, of held-out sizes, and of held-out node counts."""
    for what, sizes in left.sizes.items():
        some = [row for row in rows if row.what == what]
        yield summary(f"{what}: fitted", residuals(fits, some, rates))
        yield summary(f"{what}: every third size left out", sizes)
        for nodes, found in left.node_counts[what].items():
            yield summary(f"{what}: {nodes} nodes left out", found)


def without_node_counts(rows: Sequence[Measurement], rates: Rates) -> dict[int, list[Residual]]:
    """Return the errors of a collective by number of nodes, each held out of a fit."""
    counts = sorted({row.shape.nodes for row in rows if row.shape.nodes > 1})
    found = {}
    for nodes in counts if 1 < len(counts) <= MAX_NODE_COUNTS else ():
        out = [row for row in rows if row.shape.nodes == nodes]
        rest = [row for row in rows if row.shape.nodes != nodes]
        found[nodes] = residuals(fitted(rest, rates), out, rates)
    return found


def without_sizes(rows: Iterable[Measurement], rates: Rates) -> dict[str, list[Residual]]:
    """Return the errors of inner sizes by collective; each third is held out of a fit."""
    found: dict[str, list[Residual]] = {row.what: [] for row in rows}
    for rest, out in thirds(rows):
        for residual in residuals(fitted(rest, rates), out, rates):
            found[residual.row.what].append(residual)
    return found


def thirds(
    rows: Iterable[Measurement],
) -> Iterator[tuple[list[Measurement], list[Measurement]]]:
    """Yield, for each third of the inner sizes, the rows that are kept and those held out."""
    groups: dict[tuple[str, Shape], list[Measurement]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.size_bytes):
        groups[row.what, row.shape].append(row)
    for start in range(3):
        out = {row for group in groups.values() for row in group[1:-1][start::3]}
        yield [row for group in groups.values() for row in group if row not in out], sorted(out)


NINE_IN_TEN = 0.9
REPEATED = 0.05  # difference of logarithms between pairs of nodes of a machine (xxrjun's 45 pairs)
ENOUGH = 10  # minimum held-out measurements for a band of sizes to have its own spread


def with_spreads(fits: Fits, left: LeftOut) -> Fits:
    """Add to curves the errors of measurements when they were held out."""
    found = {}
    for (what, between), curves in fits.items():
        sizes = [one for one in left.sizes[what] if (one.row.shape.nodes > 1) is between]
        counts = [one for some in left.node_counts[what].values() for one in some]
        kinds = zip(LEFT_OUT, (sizes, counts if between else []), strict=True)
        spreads = tuple(each for kind, some in kinds for each in _spreads(kind, some))
        found[what, between] = replace(curves, spreads=spreads)
    return found


def _spreads(kind: str, found: Sequence[Residual]) -> Iterator[Spread]:
    """Yield the spread of each band of sizes; bands with few measurements use all measurements."""
    for band in range(len(BANDS)):
        misses = [one.miss for one in found if _band(one.row.size_bytes) == band]
        if len(misses) < ENOUGH:
            misses = [one.miss for one in found]
        if misses:
            above = BANDS[band - 1][0] if band else 0
            factor = math.ceil(1e3 * math.exp(_nine_in_ten(misses))) / 1e3
            yield Spread(left_out=kind, above=above, factor=factor, times=len(misses))


def _nine_in_ten(misses: Sequence[float]) -> float:
    """Return a bound on nine in ten further values: the values' quantile (Vovk's conformal
    prediction), or an exponential distribution's if they are too few; at least the difference of
    repeated measurements."""
    n = len(misses)
    rank = math.ceil(NINE_IN_TEN * (n + 1))
    if rank <= n:
        return sorted(misses)[rank - 1]
    few = math.fsum(misses) * (math.pow(1 - NINE_IN_TEN, -1 / n) - 1)
    return max(few, *misses, REPEATED)


class Prediction(NamedTuple):
    """The time of a collective, with its interval."""

    what: str
    estimate: Estimate


def predictions(fits: Fits, rates: Rates, shape: Shape, size_bytes: int) -> Iterator[Prediction]:
    """Yield the time of each measured collective in a shape, at a size."""
    for (what, between), curves in fits.items():
        if between == (shape.nodes > 1):
            yield Prediction(what, curves.estimate(shape, size_bytes, rates.port_bps))


class Gap(NamedTuple):
    """Two sizes between which the algorithm or protocol changes; the data do not say where."""

    what: str
    shape: Shape
    low_bytes: int
    high_bytes: int

    @property
    def text(self) -> str:
        return f"{format_bytes(self.low_bytes)} to {format_bytes(self.high_bytes)}"


CHANGE = "another algorithm or protocol"

JUMP = 0.1  # minimum difference of log time taken as another algorithm or protocol


def gaps(rows: Iterable[Measurement]) -> Iterator[Gap]:
    """Yield the gaps whose ends lie on different lines: the smaller sizes' line misses the larger
    end, and the larger sizes' line misses the smaller end."""
    groups: dict[tuple[str, Shape], dict[float, list[float]]] = {}
    for row in rows:
        groups.setdefault((row.what, row.shape), defaultdict(list))[row.size_bytes].append(
            row.time_us
        )
    for (what, shape), found in sorted(groups.items()):
        sizes = sorted(found)
        times = [median(found[size]) for size in sizes]
        for k in range(1, len(sizes)):
            at_larger = extended(sizes[k], sizes[k - 1 :: -1], times[k - 1 :: -1]) / times[k]
            at_smaller = extended(sizes[k - 1], sizes[k:], times[k:]) / times[k - 1]
            if min(abs(math.log(at_larger)), abs(math.log(at_smaller))) > JUMP:
                yield Gap(what, shape, int(sizes[k - 1]), int(sizes[k]))


def machine_toml(
    base: Mapping[str, Any],
    fits: Fits,
    files: Sequence[MeasuredFile],
    found: Iterable[Summary],
    changes: Sequence[Gap],
) -> str:
    """Return the text of a machine file: values of `base`, fitted curves, and their provenance."""
    names = ", ".join(file.name for file in files)
    source = f"collectives measured ({names}); otherwise: {base.get('source', 'its own file')}"
    table = {**base, "source": source}
    for between, link in ((False, "scale_up"), (True, "scale_out")):
        curves = {what: as_table(one) for (what, far), one in fits.items() if far == between}
        if curves:
            table[link] = {**table[link], "measured": curves}
    comments = "\n".join("# " + printable(line) for line in _provenance(files, found, changes))
    return comments + "\n" + toml_text(table)


def _provenance(
    files: Sequence[MeasuredFile], found: Iterable[Summary], changes: Sequence[Gap]
) -> Iterator[str]:
    yield f"netsim calibrate {__version__}, {datetime.now(UTC):%Y-%m-%d}. Measured files:"
    for file in files:
        yield f"  {file.name}, sha256 {file.sha256}: {len(file.rows)} times"
        for line in sorted(file.versions | file.devices - {""}):
            yield f"    {line}"
        for why, n in sorted(file.left_out.items()):
            yield f"    left out: {n} {why}"
    bands = ", ".join(name for _, name in BANDS)
    yield f"Errors, median and largest, of {bands}:"
    for one in found:
        errors = [
            "-" if not n else f"{100 * mid:.1f} % {100 * top:.1f} %" for n, mid, top in one.bands
        ]
        yield f"  {one.name}: {', '.join(errors)}"
    if changes:
        yield f"{CHANGE} begins between two measured sizes:"
    for (what, shape), some in groupby(changes, key=lambda one: one[:2]):
        sizes = ", ".join(one.text for one in some)
        yield f"  {what} on {shape.nodes} x {shape.per_node}: {sizes}"
