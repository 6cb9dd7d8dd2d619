"""Two results or sweeps, paired by point, seed and flow.

print(compare(netsim.load("results/before"), netsim.load("results/after")).statistics)
"""

from __future__ import annotations

import difflib
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from netsim.common.inputs import flat
from netsim.errors import InputError
from netsim.frozen import frozen
from netsim.results.columns import metrics
from netsim.units import listed, written

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

    from netsim.results.read import Result

NOT_COMPARED = ("name", "description", "reference", "seed")
"""Keys of an experiment that do not affect results; seeds are paired."""

OF_MACHINE = ("wall_s", "compile_s", "packet_hops_per_s")  # metrics that depend on the machine
NAMED = 5  # maximum number of points, flows or keys in a message

Row = tuple[Any, ...]


@frozen
class Pair:
    """The results of one point and seed on both sides. `key` is the point without its seed."""

    key: str
    seed: int
    before: Result
    after: Result

    @cached_property
    def difference(self) -> str:
        """Why the flows of both sides cannot be paired; "" if they can."""
        import numpy as np

        before, after = self.before.flows, self.after.flows
        if len(before) != len(after):
            return f"{len(before):,} and {len(after):,} flows"
        for name in ("src", "dst", "size_bytes"):
            differs = np.flatnonzero(before[name].to_numpy() != after[name].to_numpy())
            if differs.size:
                values = " and ".join(str(one[name][int(differs[0])]) for one in (before, after))
                return f"flow {differs[0]} has {name} {values}"
        return ""

    @cached_property
    def flows(self) -> pl.DataFrame:
        """Flows that both finished: flow, src, dst, size_bytes, before_ps, after_ps; none if they
        are not paired."""
        import polars as pl

        columns = ("flow", "src", "dst", "size_bytes")
        after = self.after.flows.select("flow", after_ps="fct_ps")
        before = self.before.flows.select(*columns, before_ps="fct_ps")
        if self.difference:
            before = before.clear()
        return (
            before.join(after, on="flow")
            .drop_nulls()
            .sort("flow")
            .cast(dict.fromkeys(("before_ps", "after_ps"), pl.Int64))
        )

    @property
    def times(self) -> list[np.ndarray]:
        """Completion times of both sides: of the flows that both finished, or of all that did if
        they are not paired."""
        if not self.difference:
            return [*self.flows.select("before_ps", "after_ps").to_numpy().T.astype(float)]
        sides = (self.before, self.after)
        return [one.flows["fct_ps"].drop_nulls().to_numpy().astype(float) for one in sides]

    @property
    def unfinished(self) -> tuple[int, int]:
        """Number of unfinished flows on both sides."""
        counts = [one.flows["fct_ps"].null_count() for one in (self.before, self.after)]
        return counts[0], counts[1]


@frozen
class Comparison:
    """The differences between two results or sweeps.

    Attributes:
        pairs: the pairs of results.
        statistics: a row per point and statistic of completion times: point, statistic, seeds,
            flows, before_ps, after_ps (means over seeds), change (relative), and low and high, its
            95 % interval: over seeds (Student's t on the changes of each seed), or for one seed
            over its flows (bootstrap); null for a single flow, the maximum, and flows that are not
            paired.
        metrics: metrics of the summaries that differ: point, metric, unit, before, after, change.
        experiment: keys that differ: key, before, after, points (how many).
        versions: name, before and after of versions, commits and hashes of plugins that differ.
        diffs: unified diffs of the sources of plugins outside netsim.
    """

    pairs: Sequence[Pair]
    statistics: pl.DataFrame
    metrics: pl.DataFrame
    experiment: pl.DataFrame
    versions: pl.DataFrame
    diffs: tuple[str, ...]

    def _repr_html_(self) -> str:
        return self.statistics._repr_html_()

    @property
    def identical(self) -> bool:
        """Whether all tables are the same."""
        return all(pair.before.summary["hash"] == pair.after.summary["hash"] for pair in self.pairs)

    @property
    def unpaired(self) -> list[str]:
        """Points whose flows are not paired, and how the traffic of both sides differs."""
        return [f"{pair.key}: {pair.difference}" for pair in self.pairs if pair.difference]

    @property
    def unfinished(self) -> tuple[int, int]:
        """Number of unfinished flows on both sides."""
        counts = [pair.unfinished for pair in self.pairs]
        return sum(one for one, _ in counts), sum(other for _, other in counts)

    def moved(self, most: int) -> pl.DataFrame:
        """Return the flows whose completion time changed most: point, seed, flow, src, dst,
        size_bytes, before_ps, after_ps, change_ps."""
        import polars as pl

        found = []
        for pair in self.pairs:
            change = (pl.col("after_ps") - pl.col("before_ps")).alias("change_ps")
            flows = pair.flows.with_columns(
                change, point=pl.lit(pair.key), seed=pl.lit(pair.seed, pl.Int64)
            )
            found.append(
                flows.filter(change != 0)
                .sort(pl.col("change_ps").abs(), descending=True, maintain_order=True)
                .head(most)
            )
        moved = pl.concat(found).select("point", "seed", pl.exclude("point", "seed"))
        size = pl.col("change_ps").abs()
        return moved.sort(size, descending=True, maintain_order=True).head(most)

    def slower_than(self, share: float) -> list[str]:
        """Return why the second side fails a limit: points whose mean or p99 completion time grew
        by more than a share, points with more unfinished flows, and points with other traffic."""
        found = [f"other traffic: {text}" for text in self.unpaired]
        for row in self.statistics.iter_rows(named=True):
            if row["statistic"] in ("mean", "p99") and row["change"] > share:
                found.append(f"{row['point']}: FCT {row['statistic']} {row['change']:+.2%}")
        for pair in self.pairs:
            before, after = pair.unfinished
            if after > before:
                name = f"{pair.key}, seed {pair.seed}"
                found.append(f"{name}: {after:,} unfinished flows, before {before:,}")
        return found


def compare(before: Sequence[Result], after: Sequence[Result]) -> Comparison:
    """Compare two results of one point each, or of two sweeps.

    Points of sweeps are paired by name, flows by number, unless they differ in number, ends or
    size. Raises InputError if a point has no partner.
    """
    pairs = _pairs(before, after)
    groups: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        groups[pair.key].append(pair)
    return Comparison(
        pairs,
        _table(_STATISTICS, chain(*(_statistics(*one) for one in groups.items()))),
        _table(_METRICS, chain(*(_metrics(*one) for one in groups.items()))),
        _table(_EXPERIMENT, _experiment(pairs)),
        _table(_VERSIONS, _versions(pairs)),
        tuple(_diffs(pairs)),
    )


def _pairs(before: Sequence[Result], after: Sequence[Result]) -> list[Pair]:
    if len(before) == 1 == len(after):
        return [Pair(_key(before[0]), int(before[0].experiment["seed"]), before[0], after[0])]
    others = {result.name: result for result in after}
    names = [result.name for result in before]
    for missing, where in (
        ([name for name in names if name not in others], "second"),
        ([name for name in others if name not in names], "first"),
    ):
        if missing:
            message = f"the {where} one lacks {listed(missing, NAMED)}"
            hint = "sweeps of the same points, or one result each"
            raise InputError(f"sweeps of different points: {message}", hint=hint)
    return [
        Pair(_key(result), int(result.experiment["seed"]), result, others[result.name])
        for result in before
    ]


def _key(result: Result) -> str:
    """Return the name of a point without its seed."""
    parts = [part for part in result.name.split(",") if not part.startswith("seed=")]
    return ",".join(parts) or "all seeds"


def _rank(share: float) -> Callable[[np.ndarray], Any]:
    def of(times: np.ndarray) -> Any:
        import numpy as np

        return np.quantile(times, share, axis=-1)

    return of


STATISTICS: dict[str, Callable[[np.ndarray], Any]] = {
    "mean": lambda times: times.mean(axis=-1),
    "p50": _rank(0.5),
    "p99": _rank(0.99),
    "max": _rank(1.0),
}


def _statistics(key: str, group: Sequence[Pair]) -> Iterator[Row]:
    """Yield the statistics of the completion times of a point over its seeds."""
    import numpy as np

    times = [both for both in (pair.times for pair in group) if both[0].size and both[1].size]
    is_paired = not any(pair.difference for pair in group)
    for name, statistic in STATISTICS.items() if times else ():
        values = np.array([[statistic(one) for one in both] for both in times])
        changes = (values[:, 1] / values[:, 0] - 1).tolist()
        mean = sum(changes) / len(changes)
        low = high = None
        if len(changes) > 1:
            margin = margin_95(changes) or 0.0
            low, high = mean - margin, mean + margin
        elif is_paired and times[0][0].size > 1 and name != "max":  # no resample has a larger one
            low, high = bootstrap_95(np.stack(times[0]), statistic)
        before, after = values.mean(axis=0).tolist()
        flows = sum(one.size for _, one in times)
        yield key, name, len(times), flows, before, after, mean, low, high


def _metrics(key: str, group: Sequence[Pair]) -> Iterator[Row]:
    """Yield the metrics of a point that differ, as means over its seeds."""
    for metric in metrics():
        if metric.name in OF_MACHINE or metric.name.startswith(("fct_", "slowdown_", "flows")):
            continue
        both = [(metric.of(one.before.summary), metric.of(one.after.summary)) for one in group]
        if not all(_is_number(one) and _is_number(other) for one, other in both):
            continue
        before, after = (sum(values) / len(values) for values in zip(*both, strict=True))
        if before != after:
            change = after / before - 1 if before else None
            yield key, metric.name, metric.unit, before, after, change


def _is_number(value: Any) -> bool:
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return known and not math.isnan(value)


def _experiment(pairs: Sequence[Pair]) -> Iterator[Row]:
    """Yield the keys of the experiments that differ."""
    found: dict[tuple[str, str, str], int] = defaultdict(int)
    for pair in pairs:
        before, after = (
            {
                name: value if isinstance(value, str) else written(value)
                for name, value in flat(one.experiment["resolved"])
            }
            for one in (pair.before, pair.after)
        )
        for name in dict.fromkeys((*before, *after)):
            values = before.get(name, "-"), after.get(name, "-")
            if values[0] != values[1] and name.split(".")[0] not in NOT_COMPARED:
                found[name, *values] += 1
    yield from ((*row, points) for row, points in found.items())


def _versions(pairs: Sequence[Pair]) -> Iterator[Row]:
    """Yield the versions, commits and plugins that differ, each once."""
    found: dict[Row, None] = {}
    for pair in pairs:
        both = [dict(_codes(one.experiment)) for one in (pair.before, pair.after)]
        for name in dict.fromkeys((*both[0], *both[1])):
            values = both[0].get(name, "-"), both[1].get(name, "-")
            if values[0] != values[1]:
                found[name, *values] = None
    yield from found


def _codes(experiment: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the versions of the code that made a result."""
    for name, version in experiment.get("versions", {}).items():
        yield name, str(version)
    for number, one in enumerate(experiment.get("git", ())):
        changed = " with changes" if one.get("dirty") else ""
        name = f"commit {number + 1}" if number else "commit"
        yield name, f"{str(one.get('commit'))[:12]}{changed}"
    for one in experiment["plugins"]:
        yield f"{one['kind']} {one['name']}", f"sha256 {one['sha256'][:12]}"


def _diffs(pairs: Sequence[Pair]) -> Iterator[str]:
    """Yield unified diffs of plugin sources stored in both results, each once."""
    seen: dict[str, None] = {}
    for pair in pairs:
        both = [
            {(one["kind"], one["name"]): one.get("sources") or {} for one in side["plugins"]}
            for side in (pair.before.experiment, pair.after.experiment)
        ]
        for key in both[0].keys() & both[1].keys():
            old, new = both[0][key], both[1][key]
            for name in sorted({*old, *new}):
                before, after = (side.get(name, "").splitlines() for side in (old, new))
                names = f"before/{name}", f"after/{name}"
                diff = difflib.unified_diff(before, after, names[0], names[1], lineterm="")
                seen["\n".join(diff)] = None
    yield from (text for text in seen if text)


_STATISTICS: dict[str, type] = {"point": str, "statistic": str, "seeds": int, "flows": int}
_STATISTICS |= dict.fromkeys(("before_ps", "after_ps", "change", "low", "high"), float)
_METRICS: dict[str, type] = {"point": str, "metric": str, "unit": str}
_METRICS |= dict.fromkeys(("before", "after", "change"), float)
_EXPERIMENT = {"key": str, "before": str, "after": str, "points": int}
_VERSIONS = {"name": str, "before": str, "after": str}  # columns of the tables


def _table(columns: Mapping[str, type], rows: Iterable[Row]) -> pl.DataFrame:
    import polars as pl

    types: dict[type, Any] = {str: pl.String, int: pl.Int64, float: pl.Float64}
    schema = {name: types[kind] for name, kind in columns.items()}
    return pl.DataFrame(list(rows), schema, orient="row")


# --- confidence intervals -------------------------------------------------------------------------

STUDENT_95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""97.5 % quantiles of Student's t distribution for 1, 2, ... degrees of freedom."""

NORMAL_95 = 1.960

ONE_SEED = "one seed: differences may be chance; --seed 1..4 runs every point with four"

RESAMPLES = 1000  # resamples of a bootstrap, fewer if they would draw more than MOST_DRAWN values
MOST_DRAWN = 20_000_000
FEWEST = 100


def margin_95(values: Sequence[float]) -> float | None:
    """Return half the 95 % confidence interval of the mean (Student's t); None for one value."""
    count = len(values)
    if count < 2:
        return None
    mean = sum(values) / count
    variance = sum((value - mean) ** 2 for value in values) / (count - 1)
    factor = STUDENT_95[count - 2] if count - 2 < len(STUDENT_95) else NORMAL_95
    return factor * math.sqrt(variance / count)


def bootstrap_95(
    pairs: np.ndarray, statistic: Callable[[np.ndarray], np.ndarray]
) -> tuple[float, float]:
    """Return the 95 % bootstrap interval (percentiles) of the relative change of a statistic.

    `pairs` is float64[2, n], before and after. `statistic` maps arrays [..., n] to [...]. The draws
    are the same for the same n.
    """
    import numpy as np

    n = pairs.shape[1]
    rng = np.random.default_rng(n)
    changes = []
    for _ in range(max(FEWEST, min(RESAMPLES, MOST_DRAWN // n))):
        before, after = statistic(pairs[:, rng.integers(0, n, n)])
        changes.append(after / before - 1)
    low, high = np.quantile(changes, (0.025, 0.975))
    return float(low), float(high)
