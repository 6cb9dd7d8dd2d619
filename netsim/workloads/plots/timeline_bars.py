"""Bars of a timeline: one per task or operation, in the row of its stream.

`timeline.py`, the report and `perfetto.py` draw them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from netsim.errors import InputError, warn_once
from netsim.plots import seed_curves
from netsim.units import parse_time_ps, written
from netsim.workloads.job.placement import Ranks

if TYPE_CHECKING:
    import polars as pl

    from netsim.results import Result
    from netsim.workloads.tracing.critical_path import CriticalPath

WHOLE, UPPER, LOWER = (-0.4, 0.8), (-0.4, 0.4), (0.0, 0.4)
"""Top and height of bars within their row."""

PLACES = (WHOLE, UPPER, LOWER)

CRITICAL, PATH_HOSTS = "critical", 8
"""Keyword for the critical path's hosts, and their largest number, by time on the path."""

MAX_HOSTS = 1_000_000


@dataclass(frozen=True)
class View:
    """The visible hosts (None: all), times, and the critical path, if any."""

    hosts: Sequence[int] | None = None
    from_ps: int = 0
    to_ps: int | None = None
    path: CriticalPath | None = None


def view_of(
    results: Sequence[Result],
    *,
    hosts: str | None = None,
    since: str | None = None,
    until: str | None = None,
    critical_path: bool = False,
    trust: bool = False,
) -> View:
    """Return a view: hosts such as "0..3,8" or CRITICAL, and times."""
    from_ps, to_ps = (None if text is None else parse_time_ps(text) for text in (since, until))
    path = None
    if (critical_path or hosts == CRITICAL) and len(results) == 1:
        from netsim.workloads.tracing import critical_path as tracing

        path = tracing.critical_path(results[0], trust=trust)
        for warning in path.warnings:
            warn_once(warning)
        if hosts == CRITICAL:
            return View(path.hosts(PATH_HOSTS, from_ps or 0, to_ps), from_ps or 0, to_ps, path)
    return View(_hosts(hosts), from_ps or 0, to_ps, path)


def _hosts(text: str | None) -> list[int] | None:
    """Parse hosts such as "0..3,8"."""
    if text is None:
        return None
    found: list[int] = []
    for part in text.split(","):
        first, dots, last = (one.strip() for one in part.partition(".."))
        ends = (first, last if dots else first)
        if not all(re.fullmatch("[0-9]{1,9}", end) for end in ends):
            raise InputError(
                f"{written(part.strip())} is not a host", key="--hosts", hint='such as "0..3,8"'
            )
        if int(ends[1]) - int(ends[0]) >= MAX_HOSTS:
            raise InputError(f"{written(part.strip())}: too many hosts", key="--hosts")
        found += range(int(ends[0]), int(ends[1]) + 1)
    return found


@dataclass(frozen=True)
class Timeline:
    """Rows, top to bottom, and their bars.

    Attributes:
        rows: columns `row` (its number), `host`, `rank`, `stream` (of computes) or `kind` (of
            communication), `name`, `rank_name`, and `title`, with that in the first row of each.
        bars: columns `row`, `start_ps`, `end_ps`, `place` (index into PLACES), `category`,
            `communicates` and `text`; unless merged, also `name`, `number` (of the task or
            operation) and `message` (of a message, else null).
        from_ps, to_ps: the visible time.
        left_out: number of omitted rows.
        without_rows: hosts without bars that were requested or that have flows.
    """

    rows: pl.DataFrame
    bars: pl.DataFrame
    from_ps: int
    to_ps: int
    left_out: int = 0
    without_rows: tuple[int, ...] = ()

    def merged(self, resolution: int) -> Timeline:
        """Merge bars of a row and category that are too short and close to be distinguished at a
        horizontal resolution."""
        return replace(self, bars=_merged(self.bars, (self.to_ps - self.from_ps) // resolution))


def ranks_of(result: Result) -> Ranks | None:
    """Return the ranks of a training step, read off its messages; None for other runs.

    A pipeline message goes to a rank one stage further, so their least distance is that of stages.
    """
    import polars as pl

    table = result.operations
    if table is None or seed_curves.resolved(result, "traffic.kind") != "training":
        return None
    kinds = table.select("rank", "group", "ranks", pl.col("kind").cast(pl.String))
    sent = kinds.filter((pl.col("kind") == "pp") & pl.col("group").is_not_null())
    ends = sent.group_by("group").agg(pl.col("rank").max() - pl.col("rank").min())
    count = int(table["rank"].max() or 0) + 1  # type: ignore[arg-type]
    stage = int(ends.filter(pl.col("rank") > 0)["rank"].min() or count)  # type: ignore[arg-type]
    tp, cp = (
        int(kinds.filter(pl.col("kind") == kind)["ranks"].max() or 1)  # type: ignore[arg-type]
        for kind in ("tp", "cp")
    )
    whole = count % stage == 0 and stage % (tp * cp) == 0
    return Ranks(tp, cp, stage // (tp * cp), count // stage) if whole else None


def first_of_stages(result: Result) -> list[int] | None:
    """Return the host of the first rank of each pipeline stage, None if there are no stages."""
    ranks = ranks_of(result)
    table = result.operations
    if ranks is None or table is None or ranks.pp == 1:
        return None
    first = range(0, len(ranks), len(ranks) // ranks.pp)
    hosts = table.filter(table["rank"].is_in(list(first)))["host"].unique().sort()
    return [int(host) for host in hosts]


def timeline_of(results: Sequence[Result], view: View, most_rows: int | None = None) -> Timeline:
    """Return the timeline of one run: its operations if any, else its tasks.

    For serving runs it has the iterations, in the row of each instance's leader. Only the first
    `most_rows` rows are read, if given, and only finished work between the times has bars. Raises
    InputError for several runs or an empty timeline.
    """
    import polars as pl

    if len(results) != 1:
        raise InputError(f"{len(results)} results", hint="a timeline shows one")
    (result,) = results
    file = str(result.path)
    from_ps, to_ps = view.from_ps, view.to_ps
    to_ps = _end(result) if to_ps is None else to_ps
    if from_ps >= max(1, to_ps):
        raise InputError("the time range is empty", key="--from", hint="a later --to")
    if result.tasks is None:
        raise InputError("the result has no tasks", file=file)
    bars = _operations(result) if result.operations is not None else _tasks(result)
    if result.iterations is not None:
        bars = pl.concat([_iterations(result), bars.filter("communicates")], how="vertical_relaxed")
    keys = ["host", "rank", "communicates", "stream", "kind"]
    rows = bars.select(keys).unique().sort(keys, nulls_last=True).collect()
    if not len(rows):
        raise InputError("no task is done", file=file)
    wanted = set(view.hosts if view.hosts is not None else _ends_of_flows(result))
    without_rows = tuple(sorted(wanted - set(rows["host"].to_list())))
    if view.hosts is not None:
        rows = rows.filter(pl.col("host").is_in(list(view.hosts)))
        if not len(rows):
            raise InputError("these hosts did nothing", file=file, key="--hosts")
    left_out = 0 if most_rows is None else max(0, len(rows) - most_rows)
    rows = rows.head(len(rows) - left_out).with_row_index("row")
    rows = rows.with_columns(_names(rows, ranks_of(result)))
    # Texts are computed only for visible bars.
    seen = pl.col("host").is_in(rows["host"].unique().to_list())
    seen &= (pl.col("start_ps") < to_ps) & (pl.col("end_ps") > from_ps)
    shown = bars.filter(seen).collect().join(rows.select(*keys, "row"), on=keys, nulls_equal=True)
    if not len(shown):
        raise InputError("nothing was done in this time range", file=file)
    return Timeline(rows, shown.sort("row", "start_ps"), from_ps, to_ps, left_out, without_rows)


def _ends_of_flows(result: Result) -> set[int]:
    """Return the hosts at either end of flows."""
    return set(result.flows["src"].to_list()) | set(result.flows["dst"].to_list())


def _end(result: Result) -> int:
    """Return the end of the last flow, task or serving iteration."""
    end = int(result.summary.get("makespan_ps", 0))
    table = result.iterations
    return end if table is None else max(end, int(table["end_ps"].max() or 0))  # type: ignore[arg-type]


def _tasks(result: Result) -> pl.LazyFrame:
    """Return a bar per finished task; receives begin with their flow."""
    import polars as pl

    table = result.tasks
    assert table is not None
    labels = pl.col("label").cast(pl.String) if "label" in table.columns else pl.lit("")
    starts = result.flows.lazy().select("flow", pl.col("start_ps").alias("flow_start_ps"))
    kind = pl.col("kind").cast(pl.String)
    begin = pl.when(kind == "receive").then("flow_start_ps").otherwise("start_ps")
    return (
        table.lazy()
        .filter(pl.col("end_ps").is_not_null() & (kind != "join"))
        .join(starts, on="flow", how="left", maintain_order="left")
        .select(
            "host",
            pl.col("host").alias("rank"),
            (kind != "compute").alias("communicates"),
            "stream",
            pl.lit("").alias("kind"),
            begin.alias("start_ps"),
            "end_ps",
            _place(kind).alias("place"),
            pl.when(kind == "compute").then(_word(labels)).otherwise(kind).alias("category"),
            _number(labels).alias("text"),
            pl.when(labels != "").then(labels).otherwise(kind).alias("name"),
            pl.col("task").alias("number"),
            pl.col("flow").alias("message"),
        )
    )


def _operations(result: Result) -> pl.LazyFrame:
    """Return a bar per finished operation."""
    import polars as pl

    table = result.operations
    assert table is not None
    what, kind = pl.col("operation_type").cast(pl.String), pl.col("kind").cast(pl.String)
    labels = pl.col("label").cast(pl.String) if "label" in table.columns else pl.lit("")
    kinds = table.filter(pl.col("group").is_not_null())["kind"].cast(pl.String).unique().to_list()
    communicates = (what != "compute") | (kind.is_in(kinds) & (kind != ""))
    named = pl.when(kind != "").then(kind)
    done = table.lazy().filter(pl.col("end_ps").is_not_null() & (what != "join"))
    return done.select(
        "host",
        "rank",
        communicates.alias("communicates"),
        pl.when(~communicates).then("stream").alias("stream"),
        pl.when(communicates).then(kind).otherwise(pl.lit("")).alias("kind"),
        "start_ps",
        "end_ps",
        _place(what).alias("place"),
        pl.coalesce(named, pl.when(communicates).then(what), _word(labels)).alias("category"),
        _number(labels).alias("text"),
        pl.when(labels != "").then(labels).otherwise(what).alias("name"),
        pl.col("operation").alias("number"),
        pl.when(what.is_in(["send", "receive"])).then("group").alias("message"),
    )


def _iterations(result: Result) -> pl.LazyFrame:
    """Return a bar per serving iteration, with its batch."""
    import polars as pl

    table = result.iterations
    assert table is not None
    prompts, decodes = pl.col("prompt_tokens") > 0, pl.col("decode_batch") > 0
    alone = pl.when(prompts).then(pl.lit("prefill")).otherwise(pl.lit("decode"))
    category = pl.when(prompts & decodes).then(pl.lit("prefill, decode")).otherwise(alone)
    tokens = pl.when(decodes).then("decode_batch").otherwise("prompt_tokens").cast(pl.String)
    return table.lazy().select(
        "host",
        pl.col("host").alias("rank"),
        pl.lit(False).alias("communicates"),
        pl.lit(0).alias("stream"),
        pl.lit("").alias("kind"),
        "start_ps",
        "end_ps",
        pl.lit(0, pl.Int8).alias("place"),
        category.alias("category"),
        tokens.alias("text"),
        category.alias("name"),
        pl.int_range(pl.len()).alias("number"),
        pl.lit(None, pl.Int64).alias("message"),
    )


def _word(labels: pl.Expr) -> pl.Expr:
    """Return the text of a label before its number, such as "forward" of "forward 3"."""
    return labels.str.extract(r"^([^\d]*[^\d\s])", 1).fill_null("compute")


def _number(labels: pl.Expr) -> pl.Expr:
    """Return the last number of a label."""
    return labels.str.extract(r"(\d+)\D*$", 1).fill_null("")


def _place(what: pl.Expr) -> pl.Expr:
    """Return the index into PLACES: sends above receives."""
    import polars as pl

    return (
        pl.when(what == "send").then(1).when(what == "receive").then(2).otherwise(0).cast(pl.Int8)
    )


def _names(rows: pl.DataFrame, ranks: Ranks | None) -> list[pl.Series]:
    """Return names and titles of rows; the first row of a rank has the rank in its title."""
    import polars as pl

    computing = rows.filter(~pl.col("communicates"))
    several = len(computing.unique(["rank", "stream"])) > len(computing.unique("rank"))
    axes = {} if ranks is None else ranks.coordinates()
    names, of_ranks, titles, last = [], [], [], None
    for row in rows.iter_rows(named=True):
        name = row["kind"] or "flows"
        if not row["communicates"]:
            name = f"stream {row['stream']}" if several else "compute"
        parts = [
            f"{'stage' if axis == 'pp' else axis} {places[row['rank']]}"
            for axis, places in axes.items()
            if places[row["rank"]] or (axis in ("pp", "dp") and places[-1])
        ]
        of = rank_name(row["host"], row["rank"], ", ".join(parts))
        of_ranks.append(of)
        titles.append(name if of == last else f"{of}  {name}")
        names.append(name)
        last = of
    found = {"name": names, "rank_name": of_ranks, "title": titles}
    return [pl.Series(name, values, pl.String) for name, values in found.items()]


def rank_name(host: int, rank: int, place: str = "") -> str:
    """Return a rank's name: its place in the job and its host, or host and number if different."""
    if place:
        return f"{place} (h{host})"
    return f"h{host}" if rank == host else f"rank {rank} (h{host})"


def _merged(bars: pl.DataFrame, gap_ps: int) -> pl.DataFrame:
    """Merge bars as `Timeline.merged` does."""
    import polars as pl

    keys = ["row", "category", "place"]
    before = pl.col("end_ps").cum_max().shift(1).over(keys)
    apart = (pl.col("start_ps") - before > gap_ps) | before.is_null()
    long = pl.col("end_ps") - pl.col("start_ps") > gap_ps
    # Long bars are not merged, so that touching bars remain distinct.
    parted = apart | long | long.shift(1, fill_value=True).over(keys)
    return (
        bars.sort(*keys, "start_ps")
        .with_columns(part=parted.cum_sum().over(keys))
        .group_by(*keys, "part", maintain_order=True)
        .agg(
            pl.col("start_ps").min(),
            pl.col("end_ps").max(),
            pl.col("communicates").first(),
            pl.when(pl.len() == 1).then(pl.col("text").first()).otherwise(pl.lit("")).first(),
        )
        .drop("part")
        .sort("row", "start_ps")
    )
