"""Explain where time went: a budget of causes that adds up, and a paragraph that says it.

print(explain_flow(netsim.load("results/p2p_512")[1], flow=17).text())
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.common.steps import step
from netsim.errors import InputError
from netsim.results.files import LINKS
from netsim.tracing.causes import CAUSES, Causes, Part, Paths, PortLog, Queues, far_node
from netsim.tracing.record import Replay, recorded_flow
from netsim.units import format_bytes, format_time

if TYPE_CHECKING:
    import polars as pl

    from netsim.model.network import Network
    from netsim.results import Result
    from netsim.running.point import Progress

PASSES = 6
"""Most simulations of the same run. The first records all ports that the flows may use, and those
that PFC led to; another follows only if causes lead elsewhere, such as after a change of routes."""

NOTABLE = 0.05
"""Part of the time from which on the text mentions a cause."""

KEYS = ("cause", "manner", "place", "root")
"""Columns of a budget that tell its rows apart."""

PLACES = ("cause", "place", "root")
"""The same for the text."""

NAMED = 3
"""Flows that the text names, and causes that it explains."""


SENTENCES = {
    "incast": "incast: {place}, the link of its receiver, also carried {flows}",
    "collision": "a hash collision: {place} also carried {flows}, while a parallel link was at "
    "most half as busy",
    "shared_link": "a shared link: {place} also carried {flows}",
    "pfc": "PFC, as a victim: {place} was paused because of the queue of {root}, which this flow "
    "does not use and which held {flows}",
    "slow_link": "a slow link: {place} was slower than the source's fastest port",
    "circuit": "waiting for a circuit: {place} was down",
    "loss": "the loss of packets at {place}, and to recover from it{with_flows}",
    "receiver": "the receiver's pacing: it held back pulls, credits or grants while its link had "
    "room",
    "nic": "a busy NIC: {place} also carried {flows}",
    "window": "its own window: the sender waited for answers while nothing slowed it down",
    "pacing": "its own pacing and timers",
    "unexplained": "causes that the trace does not show",
}
"""What took time, as the end of a sentence."""


@dataclass(frozen=True)
class Explanation:
    """A time and its parts.

    Attributes:
        subject: what took the time, such as "Flow 17 (h3 to h9, 2MB) of p2p_512".
        total_ps: the time.
        ideal_ps: the same in an idle network; None if unknown.
        budget: a row for each part, longest first; columns as in `COLUMNS["budget"]`. The parts
            add up to `total_ps`.
        flows: the flows of the result, which the budget names by number.
        warnings: what has changed since the result was written.
        causes: titles of the causes.
        sentences: what the text says of causes; it mentions no others.
    """

    subject: str
    total_ps: int
    ideal_ps: int | None
    budget: pl.DataFrame
    flows: pl.DataFrame
    warnings: tuple[str, ...] = ()
    causes: Mapping[str, str] = field(default_factory=lambda: CAUSES)
    sentences: Mapping[str, str] = field(default_factory=lambda: SENTENCES)

    def _repr_html_(self) -> str:
        return f"<p>{escape(self.text())}</p>"

    def by_cause(self) -> dict[str, int]:
        """Return the time of each cause in ps, longest first."""
        found: Counter[str] = Counter()
        for cause, time_ps in self.budget.select("cause", "time_ps").rows():
            found[cause] += time_ps
        return dict(found.most_common())

    @property
    def main_cause(self) -> str:
        """The cause that delayed it most; "" if none took 5 % of the time."""
        found = ((cause, ps) for cause, ps in self.by_cause().items() if cause in self.sentences)
        cause, time_ps = next(found, ("", 0))
        return cause if time_ps >= NOTABLE * self.total_ps else ""

    def text(self) -> str:
        """Return the explanation as a paragraph."""
        return " ".join(self._sentences())

    def __str__(self) -> str:
        return self.text()

    def _sentences(self) -> Iterator[str]:
        ideal = ""
        if self.ideal_ps:
            times = self.total_ps / self.ideal_ps
            ideal = f", {times:.2f} times its ideal of {format_time(self.ideal_ps, 4)}"
        yield f"{self.subject} took {format_time(self.total_ps, 4)}{ideal}."
        least = NOTABLE * self.total_ps
        told = [row for row in self._rows_of_text() if row["time_ps"] >= least]
        told = sorted(told, key=lambda row: -row["time_ps"])[:NAMED]
        for row in told:
            yield self._sentence(row)
        if not told:
            yield "Nothing held it up for long."
        rest = self.by_cause().items()
        needed = {cause: ps for cause, ps in rest if cause not in self.sentences}
        parts = [f"{self.causes[name]} {format_time(ps, 4)}" for name, ps in needed.items()]
        if parts:
            yield f"Also: {', '.join(parts)}."

    def _rows_of_text(self) -> list[dict[str, Any]]:
        rows = joined_rows(self.budget.to_dicts(), PLACES)
        return [row for row in rows if row["cause"] in self.sentences]

    def _sentence(self, row: dict[str, Any]) -> str:
        """Return a sentence on one cause."""
        share = f"{format_time(row['time_ps'], 4)} of it ({row['time_ps'] / self.total_ps:.0%})"
        flows = self.whose(dict(zip(row["flows"], row["flows_ps"], strict=True)), NAMED)
        rest = self.sentences[row["cause"]].format(
            place=row["place"] or "an unknown place",
            root=row["root"],
            flows=flows or "other packets",
            with_flows=f"; the queue held {flows}" if flows else "",
            manner=row["manner"],
        )
        return f"{share} went to {rest}."

    def whose(self, shares: Mapping[int, int], most: int) -> str:
        """Return the flows that took time, with their times, those that took most first."""
        longest = sorted(shares.items(), key=lambda one: (-one[1], one[0]))
        least = 0.01 * sum(shares.values())
        longest = [one for one in longest if one[1] >= least] or longest
        named = [
            f"{flow_name(self.flows, flow)} for {format_time(time, 3)}" for flow, time in longest
        ][:most]
        named += [f"{len(shares) - len(named)} more"] if len(shares) > len(named) else []
        return " and ".join([", ".join(named[:-1]), *named[-1:]] if named[1:] else named)


def flow_name(flows: pl.DataFrame, flow: int) -> str:
    """Return a flow's number, ends and kind, such as "flow 3 (h1 to h2, kv)"."""
    row = flows.row(flow, named=True)
    kind = row.get("label") or row.get("flow_kind") or ""
    return f"flow {flow} (h{row['src']} to h{row['dst']}{', ' if kind else ''}{kind})"


def explain_flow(
    result: Result,
    flow: int,
    *,
    directory: Path | None = None,
    trust: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Explanation:
    """Explain the completion time of a flow. The run is simulated again. Arguments as for
    `trace_flow`.

    Raises InputError as `trace_flow`, and for a flow that did not finish.
    """
    replay = Replay.of(result, directory, trust=trust, progress=progress)
    return explain_flows(replay, [flow])[flow]


def explain_flows(replay: Replay, flows: Iterable[int]) -> dict[int, Explanation]:
    """Explain the completion times of several flows of a run together. Raises InputError as
    `explain_flow`."""
    result, windows = replay.result, {}
    for flow in flows:
        row = recorded_flow(result, flow)
        if row["fct_ps"] is None:
            message = f"flow {flow} did not finish ({result.status})"
            hint = f"netsim trace --flow {flow} shows how far it came"
            raise InputError(message, file=str(result.path), hint=hint)
        windows[flow] = row["start_ps"], row["start_ps"] + row["fct_ps"]
    return explain_windows(replay, windows)


def explain_windows(
    replay: Replay, windows: Mapping[int, tuple[int, int]]
) -> dict[int, Explanation]:
    """Explain the time of flows, each from its start, or later, to its delivery, or to another end
    of what waits for it. Raises InputError as `trace_flow`."""
    scenario, result = replay.scenario, replay.result
    crossings = {flow: replay.crossings(flow, *window) for flow, window in windows.items()}
    flows = [one for these in crossings.values() for one, _, _ in these]
    whole = replay.point.measure is None and (result.path / LINKS).exists()
    queues = Queues(scenario, result.links if whole else None)
    ports = {one: queues.reached(Paths(scenario, one).ports()) for one in flows}
    for number in range(1, PASSES + 1):
        step("simulating again" if number == 1 else f"again, with more ports ({number})")
        times = defaultdict(list)
        for one, start_ps, end_ps in (part for these in crossings.values() for part in these):
            since_ps = start_ps - queues.longest_wait_ps(ports[one])
            for port in ports[one]:
                times[port].append((since_ps, end_ps))
        recording = replay.record(flows, times)
        step("finding causes")
        log = PortLog(scenario.network, recording.entries, replay.message_of)
        causes = {one: Causes(recording.trace(one), scenario, log) for one in flows}
        parts = {
            flow: [part for one, *times in these for part in causes[one].run(*times)]
            for flow, these in crossings.items()
        }
        needed = {one: causes[one].ports() for one in causes}
        if all(needed[one] <= ports[one] for one in causes):
            break
        ports = {one: queues.reached(ports[one] | needed[one]) for one in causes}
    ideals, warnings = (
        result.flows["ideal_ps"],
        {w for c in causes.values() for w in c.trace.warnings},
    )
    return {
        flow: Explanation(
            _subject(replay, flow),
            windows[flow][1] - windows[flow][0],
            ideals[flow],
            budget_table(joined_rows(part_rows(these, scenario.network))),
            result.flows,
            tuple(sorted(warnings)),
        )
        for flow, these in parts.items()
    }


def _subject(replay: Replay, flow: int) -> str:
    """Return the flow, its run, its ends, its size and its relay."""
    result, relay = replay.result, replay.relay_of(flow)
    name = flow_name(result.flows, flow).removesuffix(")")
    size = format_bytes(int(result.flows["size_bytes"][flow]), 4)
    by = f", relayed by h{relay}" if relay >= 0 else ""
    return f"{name.capitalize()}, {size}{by}) of {result.name}"


def part_rows(parts: Sequence[Part], network: Network) -> Iterator[dict[str, Any]]:
    """Yield parts as rows of a budget."""

    def place(port: int) -> str:
        if port < 0:
            return ""
        ends = int(network.port_node[port]), far_node(network, port)
        return " -> ".join(network.node_name(node) for node in ends)

    for part in parts:
        flows = sorted(part.flows.items(), key=lambda one: (-one[1], one[0]))
        yield {
            "cause": part.cause,
            "manner": part.manner,
            "place": place(part.port),
            "root": place(part.root),
            "time_ps": part.time_ps,
            "flows": [flow for flow, _ in flows],
            "flows_ps": [time for _, time in flows],
        }


def joined_rows(
    rows: Iterable[dict[str, Any]], keys: Sequence[str] = KEYS
) -> Iterator[dict[str, Any]]:
    """Yield rows of a budget with those of equal keys joined, without those that took no time."""
    found: dict[tuple[str, ...], tuple[dict[str, Any], Counter[int]]] = {}
    for row in rows:
        key = tuple(row[name] for name in keys)
        one, shares = found.setdefault(key, ({**row, "time_ps": 0}, Counter()))
        one["time_ps"] += row["time_ps"]
        shares.update(dict(zip(row["flows"], row["flows_ps"], strict=True)))
    for row, shares in found.values():
        flows = sorted(shares.items(), key=lambda one: (-one[1], one[0]))
        if row["time_ps"]:
            lists = {"flows": [flow for flow, _ in flows], "flows_ps": [ps for _, ps in flows]}
            yield {**row, **lists}


def budget_table(rows: Iterator[dict[str, Any]]) -> pl.DataFrame:
    """Return rows of a budget as a table, longest first."""
    import polars as pl

    schema: dict[str, Any] = dict.fromkeys(KEYS, pl.String)
    schema |= {"time_ps": pl.Int64, "flows": pl.List(pl.Int64), "flows_ps": pl.List(pl.Int64)}
    found = pl.DataFrame(list(rows), schema=schema)
    return found.sort("time_ps", descending=True, maintain_order=True)
