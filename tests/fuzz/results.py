"""Check properties that the results of every run must have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .judge import Finding

SLACK = 1.000001


def folders(out: Path) -> list[Path]:
    """Return the folders of the single results in `out`."""
    return sorted(path.parent for path in out.rglob("summary.json"))


def hashes(out: Path) -> list[str]:
    """Return the hashes of all results in `out`."""
    from netsim.results import load_result

    return [load_result(folder).summary["hash"] for folder in folders(out)]


def judged(out: Path, *, complete: bool) -> Iterator[Finding]:
    """Yield the findings of a run's results; `complete` is what its exit status states."""
    from netsim.results import load_result

    found = folders(out)
    if complete and not found:
        yield Finding("nonsense", "complete, but nothing is written")
    loaded = [load_result(folder) for folder in found]
    if loaded and complete != all(result.complete for result in loaded):
        words = [result.summary["stop_reason"] for result in loaded]
        yield Finding("nonsense", f"exit status {int(not complete)} and {sorted(set(words))}")
    for result in loaded:
        yield from _summary(result)
        yield from _flows(result)
        if "rate_bps" in (result.links.columns if _has_links(result) else ()):
            yield from _links(result)


def _has_links(result: object) -> bool:
    from netsim.results import Result
    from netsim.results.files import LINKS

    assert isinstance(result, Result)
    return (result.path / LINKS).is_file()


def _wrong(what: str, detail: object) -> Finding:
    return Finding("nonsense", f"result: {what}", str(detail)[:300])


def _summary(result: object) -> Iterator[Finding]:
    from netsim.results import Result

    assert isinstance(result, Result)
    summary = result.summary
    if summary["simulated_ps"] < 0:
        yield _wrong("negative time", summary["simulated_ps"])
    if summary["hash"] != result.experiment["hash"]:
        yield _wrong("two hashes", "")
    held = summary.get("flows_unstarted", 0)  # flows that a program never started
    done = summary["flows_finished"] + held == summary["flows"]
    if summary["complete"] and not done and _reliable(result):
        yield _wrong("complete with flows missing", summary)
    if summary["complete"] and summary["stop_reason"] != "finished":
        yield _wrong(f"complete and {summary['stop_reason']}", "")


def _reliable(result: object) -> bool:
    """Return whether all transports of a result deliver every flow."""
    from netsim.plugins import registry
    from netsim.results import Result

    assert isinstance(result, Result)
    resolved = result.experiment["resolved"]
    uses = [
        resolved["transport"],
        *(one["transport"] for one in resolved.get("flow_classes", {}).values()),
    ]
    names = [registry.split_preset(use["kind"])[0] for use in uses]
    modules = [registry.find("transport", name).module for name in names]
    return all(getattr(module, "RELIABLE", True) for module in modules)


def _flows(result: object) -> Iterator[Finding]:
    import polars as pl

    from netsim.results import Result

    assert isinstance(result, Result)
    end = result.summary["simulated_ps"]
    rules = {
        "an FCT below the ideal": pl.col("fct_ps") < pl.col("ideal_ps"),
        "a start in the past": pl.col("start_ps") < 0,
        "an FCT of no time": pl.col("fct_ps") <= 0,
        "known before it is done": pl.col("acked_ps") < pl.col("fct_ps"),
        "done after the end": pl.col("start_ps") + pl.col("fct_ps") > end,
        "done, but not all was sent": pl.col("fct_ps").is_not_null()
        & (pl.col("packets_sent") < pl.col("packets")),
        "more retransmissions than packets": pl.col("retransmits") > pl.col("packets_sent"),
        "negative counts": (pl.col("packets_sent") < 0) | (pl.col("retransmits") < 0),
        "no size": (pl.col("size_bytes") < 1) | (pl.col("packets") < 1),
    }
    if not _reliable(result):  # its senders finish once everything is sent
        del rules["known before it is done"]
    for what, rule in rules.items():
        bad = result.flows.filter(rule)
        if len(bad):
            yield _wrong(what, bad.row(0, named=True))
    finished = result.flows["fct_ps"].drop_nulls().len()
    if finished != result.summary["flows_finished"]:
        yield _wrong("flows are miscounted", f"{finished}, {result.summary['flows_finished']}")


def _links(result: object) -> Iterator[Finding]:
    import polars as pl

    from netsim.results import Result

    assert isinstance(result, Result)
    counts = [
        name
        for name in result.links.columns
        if result.links[name].dtype.is_numeric() and name not in ("utilization",)
    ]
    for name in counts:
        low = result.links[name].min()
        if isinstance(low, int | float) and low < 0:
            yield _wrong("negative counts", f"{name} = {low}")
    by_link = result.links.group_by("link").agg(pl.col("bytes").sum(), pl.col("rate_bps").first())
    # A packet counts from its first bit, so one may still be in transmission at the end.
    room = pl.col("rate_bps").cast(pl.Float64) / 8e12 * result.summary["simulated_ps"] + 2**17
    over = by_link.filter(pl.col("bytes") > room * SLACK)
    if len(over):
        yield _wrong("a link carried more than it can", over.row(0, named=True))
