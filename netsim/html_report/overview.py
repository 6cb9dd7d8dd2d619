"""The first lines of the page: what was simulated, how it ended, and what caused delay. The last
section of a point: versions, commits, hash, and the experiment as TOML to copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from netsim.common.discovery import FOLDERS, modules, summary
from netsim.common.writing import toml_text
from netsim.html_report import parts
from netsim.html_report.network import busiest_links, longest_pause
from netsim.html_report.parts import Section
from netsim.html_report.report import Point, Report, slowness, unit_of
from netsim.html_report.slowest import flows_of
from netsim.plots import sweeps
from netsim.plots.networks import per_link
from netsim.plots.style import for_people
from netsim.results.comparison import ONE_SEED
from netsim.units import format_bytes, format_number, format_rate, format_time

ORDER, PROVENANCE = 1, 90
FEW_POINTS = 4  # up to this many points, completion times are in a sentence, else in a table
MAX_EXPLAINED, SLOW = 2, 1.2  # explained transports, and their minimum slowdown
TELLING = 0.25  # minimum share of the delay at which collisions are mentioned
MAX_NETWORKS = 16  # maximum number of points whose networks are named
SLOWEST = 12  # flows whose lost time is broken down


def setting(report: Report) -> Iterator[str]:
    yield _networks(report)
    yield from _transports(report)


def headlines(report: Report) -> Iterator[str | parts.Part]:
    """Yield how flows ended and what caused delay, unless tasks send the flows."""
    if len(report.simulated) > 1 and max(len(curve.results) for curve in report.curves) == 1:
        yield ONE_SEED[:1].upper() + ONE_SEED[1:] + "."
    if any(point.result.tasks is not None for point in report.points):
        return
    done = [point for point in report.simulated if _last(point)]
    if not done:
        return
    if len(report.simulated) <= FEW_POINTS:
        yield "; ".join(_ended(point) for point in done) + "."
    else:
        yield _endings(report.simulated)
    for point in _explained(report):
        yield from causes(point)


def _explained(report: Report) -> list[Point]:
    """Return the points whose causes are headlines: the slowest one of each slowest transport."""
    if any(point.result.tasks is not None for point in report.points):
        return []
    slowest = {point.transport: point for point in sorted(report.simulated, key=slowness)}
    found = sorted(slowest.values(), key=slowness, reverse=True)[:MAX_EXPLAINED]
    return [point for point in found if slowness(point) > SLOW and _last(point)]


def _endings(points: Sequence[Point]) -> parts.Part:
    unit, scale = unit_of(map(_last, points))
    rows = []
    for point in points:
        found, last = point.result.summary, _last(point)
        unfinished = found["flows"] - found["flows_finished"]
        row = [point.label, last / scale if last else None, slowness(point) or None, unfinished]
        rows.append(row)
    names = ("point", f"last flow ends ({unit})", "times its ideal, at most", "flows unfinished")
    return parts.table(names, rows)


def of_point(report: Report, point: Point) -> Iterator[Section]:
    """Yield the causes of delay of this point's flows, if the headlines do not, and its
    provenance."""
    text = [] if point.is_ideal or point in _explained(report) else list(causes(point))
    if text:
        yield Section("causes", "In short", tuple(text))
    yield _provenance(point)


def _networks(report: Report) -> str:
    points = report.simulated or report.points
    networks = list(dict.fromkeys(_network(point) for point in points[:MAX_NETWORKS]))
    first = points[0].result
    sizes = first.flows["size_bytes"].to_numpy()
    low, high = (int(sizes.min()), int(sizes.max())) if len(sizes) else (0, 0)
    size = format_bytes(low, 4) + (f" to {format_bytes(high, 4)}" if high > low else "")
    flows = "flow" if len(sizes) == 1 else "flows"
    traffic = first.experiment["resolved"].get("traffic", {}).get("kind", "")
    return f"{' or '.join(networks[:3])}; traffic {traffic}: {len(sizes):,} {flows} of {size}."


def _network(point: Point) -> str:
    topology = point.result.experiment["resolved"].get("topology", {}).get("kind", "")
    if point.graph is None:
        return f"Topology {topology}"
    links = point.result.links
    nodes = links["from_node"].n_unique()
    hosts = int(point.graph.members[point.graph.is_host].sum())
    rates = links.filter(links["from_node"] < hosts)["rate_bps"].unique().sort().to_list()
    rate = " and ".join(format_rate(int(one), 4) for one in rates[:3])
    return f"{hosts:,} hosts with links of {rate} and {nodes - hosts:,} switches ({topology})"


def _transports(report: Report) -> list[str]:
    """Return the first line of the documentation of each transport that is part of netsim."""
    known = modules(FOLDERS["transport"])
    names = dict.fromkeys(sweeps.transport(point.result) for point in report.simulated)
    told = [(for_people([name])[0], summary(known[name])) for name in names if name in known]
    lines = [text if text.startswith(name) else f"{name}: {text}" for name, text in told]
    return lines[:FEW_POINTS]


def _last(point: Point) -> float:
    """Return the longest completion time in ps, 0 if no flow finished."""
    return float(point.result.summary["fct_ps"].get("max") or 0)


def _ended(point: Point) -> str:
    found = point.result.summary
    unfinished = found["flows"] - found["flows_finished"]
    more = f", {unfinished:,} flows unfinished" if unfinished else ""
    time, ratio = format_time(int(_last(point)), 4), format_number(slowness(point), 3)
    return f"{point.label}: the last flow ends after {time}, at most {ratio} times its ideal{more}"


def causes(point: Point) -> Iterator[str]:
    """Yield the causes of delay of a point's flows."""
    found = [
        text
        for cause in (_faults, _collisions, _lost_time, _pauses, _losses)
        for text in cause(point)
    ]
    if found:
        yield f"What cost time with {point.label}: {found[0]}"
        yield from (one[:1].upper() + one[1:] for one in found[1:])
    if not point.result.complete and point.result.reason:
        yield f"{point.label} is incomplete: {point.result.reason}."


def _faults(point: Point) -> Iterator[str]:
    faults, recovery = point.result.faults, point.result.summary.get("recovery")
    if faults is None:
        return
    down = faults.filter(faults["event"] == "down")
    if len(down):
        start, end = (down[name].to_numpy() for name in ("start_ps", "end_ps"))
        known = not down["end_ps"].null_count()
        back = f"until {format_time(int(end.max()), 4)}" if known else "to the end of the run"
        yield (
            f"{_named(point)}{len(down):,} links (one per direction) were down from "
            f"{format_time(int(start.min()), 4)} {back}."
        )
    if recovery and recovery.get("p50_ps") is not None:
        yield (
            f"{recovery['flows']:,} flows received nothing for some time after that, in the median "
            f"for {format_time(int(recovery['p50_ps']), 4)}, at most for "
            f"{format_time(int(recovery['max_ps']), 4)}."
        )


def _named(point: Point) -> str:
    """Return the faults of the experiment, such as "by the fault broken (plane0.*), "."""
    faults = point.result.experiment["resolved"].get("faults")
    told = [
        f"{name} ({one.get('node') or one.get('links')})"
        for name, one in (faults.items() if isinstance(faults, dict) else ())
        if isinstance(one, dict)
    ]
    return f"by the fault {', '.join(told[:3])}, " if told else ""


def _collisions(point: Point) -> Iterator[str]:
    """Yield how much of the last flow's delay fair sharing of the hashed paths explains."""
    found, last = point.result.summary, _last(point)
    fair, ideal = found.get("fair_ps"), found.get("ideal_max_ps")
    if not fair or not ideal or last <= ideal:
        return
    share = (fair["max"] - ideal) / (last - ideal)
    if share >= TELLING:
        yield (
            f"flows collide on hashed paths. With fair shares of the same paths the last flow "
            f"would need {format_time(int(fair['max']), 4)}, which explains "
            f"{min(100, 100 * share):.0f} % of its delay beyond the ideal of "
            f"{format_time(int(ideal), 4)}{_most_flows(point)}."
        )


def _most_flows(point: Point) -> str:
    """Return the link between switches with the most flows."""
    paths, graph = point.paths, point.graph
    if paths is None or graph is None or paths.shape[1] < 3:
        return ""
    inner = paths[:, 1:].copy()
    inner[:, :-1][inner[:, 1:] < 0] = -1  # links to hosts
    inner[:, -1] = -1
    counts = np.bincount(inner[inner >= 0])
    if not len(counts):
        return ""
    link, mean = int(np.argmax(counts)), float(counts[counts > 0].mean())
    return (
        f". {graph.link_names[link]} is on the paths of {counts[link]:,} flows; the mean of the "
        f"links between switches that are on any is {format_number(mean, 2)}"
    )


def _lost_time(point: Point) -> Iterator[str]:
    """Yield where the slowest flows lost time, unless fair shares explain it."""
    if point.graph is None or point.result.summary.get("fair_ps"):
        return
    flows = flows_of(point)
    if flows.paths is None:
        return
    order = np.argsort(flows.ideal - flows.time, kind="stable")[:SLOWEST].tolist()
    sums = np.sum([flows.budget(flow, flows.busiest(flow)) for flow in order], axis=0)
    lost = sums[1] + sums[2]
    if lost <= 0:
        return
    yield (
        f"each flow keeps one hashed path, and of the time that the {len(order)} slowest lost, "
        f"{100 * sums[1] / lost:.0f} % went to other flows on the busiest link of that path, "
        f"{100 * sums[2] / lost:.0f} % to stops, waiting and repetition."
    )
    yield from busiest_links(per_link(point.result.links, "utilization"), point.graph)


def _pauses(point: Point) -> Iterator[str]:
    longest, total = longest_pause(point), point.result.summary["simulated_ps"]
    if longest is not None:
        frames = int(point.result.summary.get("pfc_pauses") or 0)
        yield (
            f"{frames:,} PFC frames stopped ports; the longest, {longest[0]}, for "
            f"{format_time(longest[1], 4)} of {format_time(int(total), 4)}."
        )


def _losses(point: Point) -> Iterator[str]:
    found = point.result.summary
    names = {
        "drops": "dropped",
        "lost": "lost on links",
        "unroutable": "without a route",
        "trims": "trimmed",
    }
    told = [f"{found[key]:,} {name}" for key, name in names.items() if found.get(key)]
    again = int(found.get("retransmits") or 0)
    if told or again:
        share = again / max(1, int(point.result.flows["packets"].to_numpy().sum()))
        told.append(f"{again:,} sent again ({100 * share:.1f} % of all)")
        yield f"packets: {', '.join(told)}."


def _provenance(point: Point) -> Section:
    experiment, summary = point.result.experiment, point.result.summary
    rows: list[list[Any]] = [
        [
            "status",
            point.result.status + (f": {point.result.reason}" if point.result.reason else ""),
        ],
        ["simulated time", format_time(int(summary["simulated_ps"]), 5)],
        ["wall time", f"{format_number(float(summary.get('wall_s') or 0))} s"],
        ["packet-hops", f"{int(summary.get('packet_hops') or 0):,}"],
        ["hash of the tables", experiment["hash"]],
    ]
    versions = experiment.get("versions")
    rows += [[str(k), str(v)] for k, v in (versions.items() if isinstance(versions, dict) else ())]
    for one in experiment.get("git") or []:
        if isinstance(one, dict):
            state = {True: " and changes", None: ", changes unknown"}.get(one.get("dirty"), "")
            rows.append(["commit", f"{one.get('commit')}{state}"])
    for plugin in experiment["plugins"]:
        rows.append([plugin["kind"], f"{plugin['name']} (SHA-256 {plugin['sha256'][:16]})"])
    for note in summary.get("traffic") or []:
        rows.append(["note", note])
    text = toml_text(experiment["resolved"])
    made = (parts.table(["", ""], rows), parts.code("The experiment as TOML", text))
    return Section("provenance", "Provenance", (), made, PROVENANCE)
