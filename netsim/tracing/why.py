"""Explain a delay: a budget of causes that adds up to it, and a paragraph in words.

print(explain_flow(netsim.load("results/p2p_512")[1], flow=17).text())
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from html import escape
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.common.steps import step
from netsim.errors import InputError
from netsim.frozen import frozen
from netsim.reports.flow_trace import BUDGET
from netsim.results import Result
from netsim.results.files import LINKS
from netsim.running.point import Progress
from netsim.tracing.causes import CAUSES, Causes, Part, Paths, PortLog, Queues, link_text
from netsim.tracing.record import Replay, recorded_flow
from netsim.units import format_bytes, format_time

if TYPE_CHECKING:
    import polars as pl


PASSES = 6
"""Maximum simulations of the same run. The first one records all ports that the flows may use, and
the ports found by following PFC; another one follows only if causes lead elsewhere, such as after a
route change."""

NOTABLE = 0.05  # minimum part of the time for the text to mention a cause
PLACE = attrgetter("cause", "place", "root")  # parts with equal values are mentioned together
ROW = attrgetter("cause", "manner", "place", "root")  # and share a row of the budget
NAMED = 3  # maximum flows named and causes explained in the text


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
"""The cause of a delay, as the end of a sentence."""

TIMEOUT = "a timeout: no packet was lost, but the answer that the sender waited for did not come"
"""The sentence for a timeout without a lost packet, which has no place."""


@frozen
class Explanation:
    """A time and its parts."""

    subject: str  # what took the time, such as "Flow 17 (h3 to h9, 2MB) of p2p_512"
    total_ps: int  # the time
    ideal_ps: int | None  # that time in an idle network; None if unknown
    parts: Sequence[Part]  # parts that add up to `total_ps`, longest first
    flows: pl.DataFrame  # the flows of the result, to which the numbers in parts refer
    warnings: tuple[str, ...] = ()  # changes since the result was written
    causes: Mapping[str, str] = field(default_factory=lambda: CAUSES)  # titles of the causes
    # the sentence on each cause; the text mentions no other causes
    sentences: Mapping[str, str] = field(default_factory=lambda: SENTENCES)
    notes: tuple[str, ...] = ()  # further sentences

    def _repr_html_(self) -> str:
        return f"<p>{escape(self.text())}</p>"

    @cached_property
    def budget(self) -> pl.DataFrame:
        """The parts as a table; columns as in `COLUMNS["budget"]`."""
        import polars as pl

        schema = BUDGET.schema(**dict.fromkeys(("flows", "flows_ps"), pl.List(pl.Int64)))
        rows = [
            (*ROW(part), part.time_ps, [*flows], [*flows.values()])
            for part in self.parts
            for flows in [longest_first(part.flows)]
        ]
        return pl.DataFrame(rows, schema=schema, orient="row")

    def by_cause(self) -> dict[str, int]:
        """Return the time of each cause in ps, longest first."""
        times: Counter[str] = Counter()
        for part in self.parts:
            times[part.cause] += part.time_ps
        return dict(times.most_common())

    @property
    def main_cause(self) -> str:
        """The cause of the largest delay; "" if none took 5 % of the time."""
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
        places = joined(part for part in self.parts if part.cause in self.sentences)
        told = [part for part in places if part.time_ps >= least][:NAMED]
        for part in told:
            yield self._sentence(part)
        if not told:
            yield "Nothing held it up for long."
        rest = self.by_cause().items()
        needed = {cause: ps for cause, ps in rest if cause not in self.sentences}
        parts = [f"{self.causes[name]} {format_time(ps, 4)}" for name, ps in needed.items()]
        if parts:
            yield f"Also: {', '.join(parts)}."
        yield from self.notes

    def _sentence(self, part: Part) -> str:
        """Return a sentence on one cause."""
        share = f"{format_time(part.time_ps, 4)} of it ({part.time_ps / self.total_ps:.0%})"
        flows = self.whose(part.flows, NAMED)
        nowhere = part.cause == "loss" and not part.place
        rest = (TIMEOUT if nowhere else self.sentences[part.cause]).format(
            place=part.place or "an unknown place",
            root=part.root,
            flows=flows or "other packets",
            with_flows=f"; the queue held {flows}" if flows else "",
            manner=part.manner,
        )
        return f"{share} went to {rest}."

    def whose(self, shares: Mapping[int, int], most: int) -> str:
        """Return the flows that took time, with their times, longest first."""
        longest, least = longest_first(shares), 0.01 * sum(shares.values())
        notable = {flow: time for flow, time in longest.items() if time >= least} or longest
        named = [
            f"{flow_name(self.flows, flow)} for {format_time(time, 3)}"
            for flow, time in notable.items()
        ][:most]
        named += [f"{len(shares) - len(named)} more"] if len(shares) > len(named) else []
        return " and ".join([", ".join(named[:-1]), *named[-1:]] if named[1:] else named)


def longest_first(shares: Mapping[int, int]) -> dict[int, int]:
    """Return the times of flows, longest first."""
    return dict(sorted(shares.items(), key=lambda share: (-share[1], share[0])))


def joined(parts: Iterable[Part], key: Callable[[Part], Any] = PLACE) -> list[Part]:
    """Join parts with equal keys; return them longest first, without parts that took no time."""
    alike: dict[Any, list[Part]] = defaultdict(list)
    for part in parts:
        alike[key(part)].append(part)
    sums = []
    for several in alike.values():
        flows: Counter[int] = Counter()
        for part in several:
            flows.update(part.flows)
        time_ps = sum(part.time_ps for part in several)
        sums.append(several[0]._replace(time_ps=time_ps, flows=flows))
    return sorted((part for part in sums if part.time_ps), key=lambda part: -part.time_ps)


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
    """Explain the completion time of a flow. The run is simulated again. Arguments and InputErrors
    are the same as for `trace_flow`; a flow that did not finish is an error too."""
    replay = Replay.of(result, directory, trust=trust, progress=progress)
    return explain_flows(replay, [flow])[flow]


def explain_flows(replay: Replay, flows: Iterable[int]) -> dict[int, Explanation]:
    """Explain the completion times of several flows of a run together. Raises the same
    InputErrors as `explain_flow`."""
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
    """Explain the time of flows, each from its start or later to its delivery or to the end of a
    wait for it. Raises the same InputErrors as `trace_flow`."""
    scenario, result = replay.scenario, replay.result
    crossings = {flow: replay.crossings(flow, *window) for flow, window in windows.items()}
    flows = [one for these in crossings.values() for one, _, _ in these]
    whole = replay.point.measure is None and (result.path / LINKS).exists()
    queues = Queues(scenario, result.links if whole else None)
    ports = {one: queues.reached(Paths(scenario, one).ports()) for one in flows}
    for number in range(1, PASSES + 1):
        step("simulating again" if number == 1 else f"again, with more ports ({number})")
        times: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for one, start_ps, end_ps in (part for these in crossings.values() for part in these):
            since_ps = start_ps - queues.longest_wait_ps(ports[one])
            for port in ports[one]:
                times[port].append((since_ps, end_ps))
        recording = replay.record(flows, times)
        step("finding causes")
        packets = replay.point.packets
        log = PortLog(scenario.network, packets, recording.entries, replay.message_of)
        causes = {one: Causes(recording.trace(one), scenario, log) for one in flows}
        parts = {
            flow: [part for one, *times in these for part in causes[one].run(*times)]
            for flow, these in crossings.items()
        }
        needed = {one: causes[one].ports() for one in causes}
        if all(needed[one] <= ports[one] for one in causes):
            break
        ports = {one: queues.reached(ports[one] | needed[one]) for one in causes}
    warnings = {text for one in causes.values() for text in one.trace.warnings}
    return {
        flow: Explanation(
            _subject(replay, flow),
            windows[flow][1] - windows[flow][0],
            result.flows["ideal_ps"][flow],
            joined(these, ROW),
            result.flows,
            tuple(sorted(warnings)),
            notes=tuple(_storms(replay, these)),
        )
        for flow, these in parts.items()
    }


def _storms(replay: Replay, parts: Iterable[Part]) -> Iterator[str]:
    """Yield sentences on PFC storms at the links that caused delay."""
    storms = replay.result.storms
    if storms is None:
        return
    places = {name for part in parts for name in (part.place, part.root)}
    for row in storms.rows(named=True):
        if link_text(replay.scenario.network, row["link"]) in places:
            yield (
                f"The watchdog of {row['port']} noticed {row['storms']} storms of PFC in class "
                f"{row['traffic_class']}, the first at {format_time(row['first_ps'], 4)}; "
                f"{row['dropped']:,} packets were dropped."
            )


def _subject(replay: Replay, flow: int) -> str:
    """Return the flow, its run, its ends, its size and its relay."""
    result, relay = replay.result, replay.relay_of(flow)
    name = flow_name(result.flows, flow).removesuffix(")")
    size = format_bytes(int(result.flows["size_bytes"][flow]), 4)
    by = f", relayed by h{relay}" if relay >= 0 else ""
    return f"{name.capitalize()}, {size}{by}) of {result.name}"
