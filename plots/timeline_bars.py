"""What stands on a timeline: a bar for each task, or operation, in the row of its stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netsim.errors import InputError

if TYPE_CHECKING:
    import polars as pl

    from netsim.results import Result

WHOLE, UPPER, LOWER = (-0.4, 0.8), (-0.4, 0.4), (0.0, 0.4)
"""Of a bar within its row: where it begins, from above, and its height."""

RESOLUTION = 4000
"""A picture has no more places from left to right: what lies closer together is one bar."""


@dataclass(frozen=True)
class Timeline:
    """Rows, from above, and the bars in them.

    Attributes:
        rows: one each: `row` (its number), `host`, `name`, and by what pieces of a critical path
            find it: `stream` (of computes) or `kind` (of communication).
        bars: `row`, `begin_ps`, `end_ps`, `place` (index into PLACES), `category`, `computes`
            (bool), `text`, in the order of rows and times.
        left_out: how many rows are not among them.
    """

    rows: pl.DataFrame
    bars: pl.DataFrame
    left_out: int


PLACES = (WHOLE, UPPER, LOWER)


def timeline_of(
    result: Result,
    hosts: Sequence[int] | None,
    from_ps: int,
    to_ps: int,
    most_rows: int,
) -> Timeline:
    """The timeline of a result: of operations, if it has any, else of tasks.

    `hosts` are those shown, None stands for all; the first `most_rows` rows are. Only what is done
    has a bar, and only what lies between the times.

    Raises InputError if there are no tasks, or none that would be seen.
    """
    import polars as pl

    if result.tasks is None:
        raise InputError("the result has no tasks", file=str(result.path))
    bars = _operations(result) if result.operations is not None else _tasks(result)
    if not len(bars):
        raise InputError("no task is done", file=str(result.path))
    if hosts is not None:
        bars = bars.filter(pl.col("host").is_in(list(hosts)))
        if not len(bars):
            raise InputError("nothing was done there", file=str(result.path), key="--hosts")
    keys = ["host", "rank", "communicates", "stream", "kind"]
    rows = bars.select(keys).unique().sort(keys, nulls_last=True).with_row_index("row")
    rows = rows.with_columns(name=_names(rows))
    bars = bars.filter((pl.col("begin_ps") < to_ps) & (pl.col("end_ps") > from_ps))
    if not len(bars):
        raise InputError("nothing was done in that time", file=str(result.path))
    shown = rows.head(most_rows)
    bars = bars.join(shown.select(*keys, "row"), on=keys, nulls_equal=True)
    return Timeline(shown, _merged(bars, (to_ps - from_ps) // RESOLUTION), len(rows) - len(shown))


def _tasks(result: Result) -> pl.DataFrame:
    """A bar for each task that is done: of one that receives from its flow's start on."""
    import polars as pl

    table = result.tasks
    assert table is not None
    labels = pl.col("label").cast(pl.String) if "label" in table.columns else pl.lit("")
    starts = result.flows.select("flow", pl.col("start_ps").alias("flow_start_ps"))
    kind = pl.col("kind").cast(pl.String)
    begin = pl.when(kind == "receive").then("flow_start_ps").otherwise("start_ps")
    return (
        table.filter(pl.col("end_ps").is_not_null() & (kind != "join"))
        .join(starts, on="flow", how="left", maintain_order="left")
        .select(
            "host",
            pl.col("host").alias("rank"),
            (kind != "compute").alias("communicates"),
            "stream",
            pl.lit("").alias("kind"),
            begin.alias("begin_ps"),
            "end_ps",
            _place(kind).alias("place"),
            pl.when(kind == "compute").then(_word(labels)).otherwise(kind).alias("category"),
            _number(labels).alias("text"),
        )
    )


def _operations(result: Result) -> pl.DataFrame:
    """A bar for each operation that is done."""
    import polars as pl

    table = result.operations
    assert table is not None
    what, kind = pl.col("what").cast(pl.String), pl.col("kind").cast(pl.String)
    labels = pl.col("label").cast(pl.String) if "label" in table.columns else pl.lit("")
    kinds = table.filter(pl.col("group").is_not_null())["kind"].cast(pl.String).unique().to_list()
    communicates = (what != "compute") | (kind.is_in(kinds) & (kind != ""))
    named = pl.when(kind != "").then(kind)
    done = table.filter(pl.col("end_ps").is_not_null() & (what != "join"))
    return done.select(
        "host",
        "rank",
        communicates.alias("communicates"),
        pl.when(~communicates).then("stream").alias("stream"),
        pl.when(communicates).then(kind).otherwise(pl.lit("")).alias("kind"),
        "begin_ps",
        "end_ps",
        _place(what).alias("place"),
        pl.coalesce(named, pl.when(communicates).then(what), _word(labels)).alias("category"),
        _number(labels).alias("text"),
    )


def _word(labels: pl.Expr) -> pl.Expr:
    """What a label says before its number, such as "forward" of "forward 3"."""
    return labels.str.extract(r"^([^\d]*[^\d\s])", 1).fill_null("compute")


def _number(labels: pl.Expr) -> pl.Expr:
    """The last number of a label."""
    return labels.str.extract(r"(\d+)\D*$", 1).fill_null("")


def _place(what: pl.Expr) -> pl.Expr:
    """The index into PLACES: what is sent is above what is received."""
    import polars as pl

    return (
        pl.when(what == "send").then(1).when(what == "receive").then(2).otherwise(0).cast(pl.Int8)
    )


def _names(rows: pl.DataFrame) -> pl.Series:
    """The names of rows: that of the rank stands before its first one."""
    import polars as pl

    several = len(rows.filter(~pl.col("communicates")).unique(["rank", "stream"])) > len(
        rows.filter(~pl.col("communicates")).unique("rank")
    )
    names, last = [], None
    for row in rows.iter_rows(named=True):
        name = row["kind"] or "flows"
        if not row["communicates"]:
            name = f"stream {row['stream']}" if several else "compute"
        where = f"h{row['host']}"
        if row["rank"] != row["host"]:
            where = f"rank {row['rank']} ({where})"
        names.append(name if (row["host"], row["rank"]) == last else f"{where}  {name}")
        last = row["host"], row["rank"]
    return pl.Series("name", names, pl.String)


def _merged(bars: pl.DataFrame, gap_ps: int) -> pl.DataFrame:
    """The bars; those of one row and category with less than `gap_ps` between them are one."""
    import polars as pl

    keys = ["row", "category", "place"]
    before = pl.col("end_ps").cum_max().shift(1).over(keys)
    apart = (pl.col("begin_ps") - before > gap_ps) | before.is_null()
    short = pl.col("end_ps") - pl.col("begin_ps") > gap_ps
    # A long bar stays one of its own, so that bars that touch can be told apart.
    parted = apart | short | short.shift(1, fill_value=True).over(keys)
    return (
        bars.sort(*keys, "begin_ps")
        .with_columns(part=parted.cum_sum().over(keys))
        .group_by(*keys, "part", maintain_order=True)
        .agg(
            pl.col("begin_ps").min(),
            pl.col("end_ps").max(),
            pl.col("communicates").first(),
            pl.when(pl.len() == 1).then(pl.col("text").first()).otherwise(pl.lit("")).first(),
        )
        .drop("part")
        .sort("row", "begin_ps")
    )
