"""Simulate a result's point again with an engine that records flows and ports."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from netsim.common.inputs import path_problem
from netsim.common.steps import step
from netsim.engine.compiling.declarations import program_of
from netsim.engine.kernels.trace import TraceEntries, TraceOverflowError
from netsim.engine.simulation import Options
from netsim.errors import TRUST, InputError
from netsim.experiment import Experiment, Point
from netsim.experiment.scenario import Scenario, is_closed_form, prepare
from netsim.frozen import frozen
from netsim.limits import HORIZON_PS
from netsim.model.fabric import PFC_FRAME_BYTES, packet_counts
from netsim.plugins import registry
from netsim.results.files import EXPERIMENT
from netsim.results.provenance import provenances
from netsim.running.drive import BEFORE, FINISHED, INTERRUPTED, StepReport, drive
from netsim.running.estimate import estimate_scenario, require_memory
from netsim.running.point import Progress, ready_engine
from netsim.running.worker import EXTRACTED, plugin_files_of, with_stored_sources
from netsim.tracing.flow_trace import FlowTrace, event_table, kind_names, shown_state, timer_names
from netsim.tracing.segments import order_trace, segment_table
from netsim.units import listed

if TYPE_CHECKING:
    from netsim.engine.engine import Engine
    from netsim.results import Result

CAPACITY = 1 << 17
BUFFER_GROWTH = 8
"""Entries of the trace buffer, and their growth factor when a window overflows it; the run then
starts over."""

Times = Sequence[tuple[int, int]]  # starts and ends


def trace_flow(
    result: Result,
    flow: int,
    *,
    until_ps: int | None = None,
    directory: Path | None = None,
    trust: bool = False,
    progress: Callable[[Progress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> FlowTrace:
    """Trace flow number `flow` of a result until it is done or `until_ps` is reached.

    `directory` is searched for files that the experiment names. `trust` allows plugins that are not
    part of netsim. `progress` and `should_stop` are as for `netsim.running.point.simulate`.

    Raises InputError if the flow does not exist or the experiment cannot be simulated again. The
    trace's `warnings` list changes since the result was written.
    """
    recorded_flow(result, flow)
    replay = Replay.of(result, directory, trust=trust, progress=progress, should_stop=should_stop)
    if replay.is_cut(flow):
        relay = replay.relay_of(flow)
        how = f"relayed by host {relay}" if relay >= 0 else "sent over several queue pairs"
        message = f"flow {flow} is {how}, in several transfers"
        hint = f"netsim why --flow {flow}, or relay_segments.parquet"
        raise InputError(message, file=str(result.path), hint=hint)
    return replay.record([flow], until_ps=until_ps).trace(flow)


def recorded_flow(result: Result, flow: int) -> dict[str, Any]:
    """Return the flow's row in the result. Raises InputError if there is none or it never
    started.
    """
    flows = result.flows
    file = str(result.path)
    if not 0 <= flow < len(flows):
        raise InputError(f"no flow {flow}", file=file, hint=f"0 to {len(flows) - 1}")
    row = flows.row(flow, named=True)
    if row["start_ps"] is None:
        raise InputError(f"flow {flow} never started", file=file)
    return row


@frozen
class Replay:
    """A result's point, to simulate again as often as needed."""

    result: Result
    point: Point
    scenario: Scenario
    progress: Callable[[Progress], None] | None = None
    should_stop: Callable[[], bool] | None = None

    @classmethod
    def of(
        cls,
        result: Result,
        directory: Path | None = None,
        *,
        trust: bool = False,
        progress: Callable[[Progress], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> Replay:
        """Rebuild a result's point; arguments and errors as for `trace_flow`."""
        point = point_of(result, directory, trust=trust)
        if is_closed_form(point):
            message = f"{point.transport.name} sends no packets to trace"
            raise InputError(message, file=str(result.path), hint="a result of another transport")
        step("building network and traffic")
        return cls(result, point, prepare(point), progress, should_stop)

    def record(
        self,
        flows: Sequence[int],
        ports: Mapping[int, Times] | None = None,
        *,
        until_ps: int | None = None,
    ) -> Recording:
        """Simulate until all of `flows` are done or `until_ps` is reached (by default the end of
        the result's run). Record them, and all packets that occupy one of `ports` in its times. For
        a relayed message, pass its `crossings`. If all of `flows` ended in the result, only hosts
        that may have influenced them are simulated.

        Raises InputError if a flow does not exist or has changed, or if memory is too small.
        """
        rows = [self._checked(self.message_of(flow)) for flow in flows]
        result, scenario = self.result, self.scenario
        result_ps = int(result.summary["simulated_ps"])
        estimate = estimate_scenario(self.point, scenario, result_ps)
        require_memory(estimate, what=self.point.file)
        end_ps, hosts = min(until_ps or HORIZON_PS, result_ps), None
        goal_ps = end_ps
        if all(row["fct_ps"] is not None and row["acked_ps"] is not None for row in rows):
            ends = [row["start_ps"] + max(row["fct_ps"], row["acked_ps"]) for row in rows]
            goal_ps = min(end_ps, max(ends))
            hosts = hosts_with(scenario, flows) if until_ps is None else None
        bits = 8 * max(self.point.packets.data_bytes, PFC_FRAME_BYTES)
        longest_ps = bits * 10**12 // int(scenario.network.port_rate_bps.min()) + 1
        options = Options(
            trace=flows,
            trace_starts={flow: row["start_ps"] for flow, row in zip(flows, rows, strict=True)},
            trace_ports={
                port: [(since_ps - longest_ps, to_ps) for since_ps, to_ps in times]
                for port, times in (ports or {}).items()
            },
            trace_capacity=CAPACITY,
            hosts=hosts,
        )
        total_bytes = self._bytes_until(goal_ps, hosts)
        while True:
            try:
                return self._run(options, end_ps, total_bytes, until_ps)
            except TraceOverflowError:
                options = replace(options, trace_capacity=options.trace_capacity * BUFFER_GROWTH)

    def _run(
        self, options: Options, end_ps: int, total_bytes: int, until_ps: int | None
    ) -> Recording:
        """Simulate until the traced flows are done, or to a time."""
        drained: list[TraceEntries] = []
        these = [*options.trace]

        def report(phase: str, report: StepReport = BEFORE) -> None:
            if self.progress is not None:
                now = Progress.at(phase, report, self.scenario.load)
                done = min(now.bytes_done, total_bytes)
                self.progress(replace(now, bytes_done=done, bytes_total=total_bytes))

        def look(now: StepReport) -> str | None:
            drained.append(engine.drain_trace())
            report("run", now)
            states = engine.flow_states()
            done = (states.done_ps[these] >= 0) & (states.finished[these] != 0)
            return FINISHED if done.all() else None

        engine = ready_engine(self.point, self.scenario, report, options)
        never = self.should_stop or (lambda: False)
        reason = drive(engine, look, until_ps=end_ps, should_stop=never)
        return Recording(self, engine, TraceEntries.joined(drained), reason, until_ps)

    def _bytes_until(self, end_ps: int, hosts: np.ndarray | None) -> int:
        """Estimate the bytes that some hosts, or all, deliver until a time."""
        flows = self.result.flows
        done = flows.filter(pl.col("start_ps") + pl.col("fct_ps") <= end_ps)
        if hosts is not None:
            done = done.filter(pl.Series(hosts[done["src"].to_numpy()]))
        return max(1, int(done["size_bytes"].sum()))

    @cached_property
    def changes(self) -> list[str]:
        """Changes since the result was written; reads all its tables."""
        return differences(self.result, self.point)

    def relay_of(self, message: int) -> int:
        """Return the host that relays a message, or -1."""
        segments = self.scenario.segments
        return -1 if segments is None else int(segments.peer[message])

    def is_cut(self, message: int) -> bool:
        """Return whether a message is sent in several flows."""
        segments = self.scenario.segments
        return segments is not None and int(np.count_nonzero(segments.message == message)) > 1

    def message_of(self, flow: int) -> int:
        """Return the message (a flow of the result) to which a simulated flow belongs."""
        segments = self.scenario.segments
        known = segments is not None and 0 <= flow < len(segments.message)
        return int(segments.message[flow]) if segments is not None and known else flow

    def crossings(self, message: int, start_ps: int, end_ps: int) -> list[tuple[int, int, int]]:
        """Return the simulated flows that a message waited for from a time to the end of one of its
        transfers, each with the start and end of its part.

        That is the message itself, unless it is relayed: then a chunk waits for its first transfer,
        or until the chunk before it has left the same host. The last queue pair counts.
        """
        table = self.result.relay_segments
        if not self.is_cut(message) or table is None:
            return [(message, start_ps, end_ps)]
        rows = table.filter(table["flow"] == message).drop_nulls("start_ps")
        rows = rows.sort(pl.col("start_ps") + pl.col("fct_ps"), nulls_last=True)
        transfers = {(int(row["hop"]), row["chunk"]): row for row in rows.to_dicts()}
        ends = {
            place: row["start_ps"] + row["fct_ps"]
            for place, row in transfers.items()
            if row["fct_ps"] is not None
        }
        place = max(
            (place for place, at in ends.items() if at == end_ps),
            default=max(place for place in transfers if place[0] < 2),  # it has left its source
        )
        found = []
        while place in transfers and end_ps > start_ps:
            row = transfers[place]
            found.append((row["segment"], max(start_ps, row["start_ps"]), end_ps))
            end_ps = row["start_ps"]
            hop, chunk = place
            place = (1, chunk) if hop == 2 and ends.get((1, chunk)) == end_ps else (hop, chunk - 1)
        return found

    def _checked(self, flow: int) -> dict[str, Any]:
        """Return a flow's row in the result."""
        recorded, scenario, file = recorded_flow(self.result, flow), self.scenario, self.result.path
        flows, program = scenario.messages, scenario.load.program
        known = ["src", "dst", "size_bytes"]
        if program is not None and program_of(program.use).resizes:
            known.remove("size_bytes")
        if len(flows) != len(self.result.flows) or any(
            int(getattr(flows, name)[flow]) != recorded[name] for name in known
        ):
            raise InputError(f"flow {flow} has changed: other traffic", file=str(file))
        return recorded


@frozen
class Recording:
    """The records of a run. `engine` is at its end, `stop_reason` is why it ended."""

    replay: Replay
    engine: Engine
    entries: TraceEntries
    stop_reason: str
    until_ps: int | None = None

    def trace(self, flow: int) -> FlowTrace:
        """Return the trace of one of the flows, up to its end."""
        replay, engine, reason = self.replay, self.engine, self.stop_reason
        message, pairs = replay.message_of(flow), replay.scenario.port_pairs
        row = replay.result.flows.row(message, named=True)
        transport = replay.point.transport_of_class[int(replay.scenario.class_of_flow[flow])]
        network, flows, states = engine.network, engine.flows, engine.flow_states()
        times = (states.start_ps, states.done_ps, states.acked_ps)
        start_ps, done_ps, acked_ps = (int(column[flow]) for column in times)
        fct_ps = done_ps - start_ps if done_ps >= 0 else None
        warnings = [*replay.changes]
        partial = reason == INTERRUPTED or (self.until_ps is not None and fct_ps is None)
        if not partial and fct_ps != row["fct_ps"] and not replay.is_cut(message):
            before, now = ("never" if t is None else f"{t} ps" for t in (row["fct_ps"], fct_ps))
            warnings.append(f"not the same run: the flow's completion time was {before}, now {now}")
        entries = self.entries.of_flow(flow)
        if reason == FINISHED:
            entries = entries.until(max(done_ps, acked_ps))
        ordered = order_trace(network, entries)
        events, changing = event_table(network, ordered, transport.module, engine.own_names(flow))
        names = kind_names(transport.module), timer_names(transport.module)
        src, dst = int(flows.src[flow]), int(flows.dst[flow])
        size_bytes, packets = int(states.size_bytes[flow]), replay.point.packets
        return FlowTrace(
            point=replay.point.name,
            transport=transport.name,
            flow=flow,
            src=network.node_name(src),
            dst=network.node_name(dst),
            size_bytes=size_bytes,
            n_packets=int(packet_counts(np.array([size_bytes]), packets)[0]),
            start_ps=start_ps,
            fct_ps=fct_ps,
            acked_ps=acked_ps - start_ps if acked_ps >= 0 else None,
            ideal_ps=int(row["ideal_ps"]),
            routing_table=network.table_name(int(pairs.data_to[pairs.first[flow]])),
            events=events.filter(pl.col("time_ps") >= start_ps),
            segments=segment_table(
                network, packets, ordered, (src, dst), (start_ps, done_ps), names
            ),
            state=shown_state(transport.module, changing),
            stop_reason=reason,
            warnings=tuple(warnings),
        )


def hosts_with(scenario: Scenario, flows: Sequence[int]) -> NDArray[np.bool_] | None:
    """Return the hosts (bool[n_hosts]) that may influence any of `flows`; None means all.

    Hosts influence each other only through flows, tasks wait only for tasks of their host, and
    packets stay among switches connected to each other. Circuits may follow all traffic.
    """
    network, pairs = scenario.network, scenario.port_pairs
    if network.circuits is not None or network.n_hosts == 0:
        return None
    node, peer = network.port_node.astype(np.int64), network.port_peer
    between = (node >= network.n_hosts) & (node[peer] >= network.n_hosts)
    edges: list[tuple[NDArray[Any], NDArray[Any]]] = [(node[between], node[peer[between]])]
    edges += [(node[ports], node[peer[ports]]) for ports in (pairs.src_port, pairs.dst_port)]
    edges.append((node[pairs.src_port], node[pairs.dst_port]))
    awaited, waiter = scenario.flows.edges()
    edges.append((scenario.flows.dst[awaited], scenario.flows.src[waiter]))
    part = _parts(network.n_nodes, *(np.concatenate(ends) for ends in zip(*edges, strict=True)))
    hosts = np.isin(part[: network.n_hosts], part[scenario.flows.src[[*flows]]])
    return None if hosts.all() else hosts


def _parts(n: int, one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the lowest node of the connected part of each of n nodes, from pairs of neighbors."""
    part = np.arange(n)
    while True:
        lowest = np.minimum(part[one], part[other])
        before = part.copy()
        for ends in (one, other):
            np.minimum.at(part, part[ends], lowest)
        part = part[part]
        if np.array_equal(part, before):
            return part


MAX_NAMED = 5  # maximum number of folders, or ranges of changed lines, in a message


def point_of(result: Result, directory: Path | None = None, *, trust: bool = False) -> Point:
    """Return the point that a result belongs to.

    Files that the experiment names (plugins, flow lists) are searched in `directory`, or else in
    the experiment's directory, the working directory and the folders above the result. Missing
    plugins come from the sources stored in the result. Code that is not part of netsim runs only
    with `trust`, or if this process has run it already.

    Raises InputError if a file is neither found nor stored, the result is damaged, or code would
    need `trust`.
    """
    file = str(result.path / EXPERIMENT)
    tree = dict(result.experiment["resolved"])
    folders = [directory] if directory else list(_search_path(result))
    names = plugin_files_of(tree)
    complete = [one for one in folders if all((one / name).is_file() for name in names)]
    if not trust:
        _require_trusted(result, names, complete)
    tries = [(tree, folder) for folder in complete]
    if not complete:
        stored, _ = with_stored_sources(tree, result.experiment["plugins"], file)
        tries = [(stored, folder) for folder in folders if stored is not None]
    for tried, folder in tries:
        with nullcontext() if trust else registry.untrusted():
            (point,) = Experiment.from_tree(tried, file, folder.resolve()).points()
        if all(Path(name).is_file() for name in _data_files(point)):
            return point
    missing = names[0] if names else "a file that the experiment names"
    message = f"cannot find {missing} in {', '.join(map(str, folders[:MAX_NAMED]))}"
    hint = "give the experiment's directory with --experiment-dir"
    raise InputError(message, file=file, hint=hint)


def _require_trusted(result: Result, names: Sequence[str], complete: Sequence[Path]) -> None:
    """Raise InputError if a plugin file would run for the first time in this process."""
    foreign: dict[str, Path | str]
    if complete:
        paths = {name: (complete[0] / name).resolve() for name in names}
        foreign = {name: path for name, path in paths.items() if not registry.is_loaded(path)}
    else:
        stored = {one["name"] for one in result.experiment["plugins"] if one.get("sources")}
        foreign = {name: "stored in this file" for name in names if name in stored}
    if foreign:
        shown = ", ".join(f"{name} ({place})" for name, place in foreign.items())
        message = f"needs code that is not part of netsim: {shown}"
        raise InputError(message, file=str(result.path / EXPERIMENT), hint=TRUST)


def differences(result: Result, point: Point) -> list[str]:
    """Return changes since the result was written: of its tables and its plugins."""
    found = []
    if result.matches_hash() is False:
        found.append("the tables of the result do not match its hash")
    now = provenances([point])[0].plugins
    for before, plugin in zip(result.experiment["plugins"], now, strict=False):
        what = f"{before['kind']} {before['name']}"
        if EXTRACTED in plugin["name"]:
            found.append(f"{what} not found: using the source stored in the result")
        elif plugin["sha256"] != before["sha256"] or (
            before.get("sources", {}) != plugin.get("sources", {})
        ):
            found.append(f"{what} has changed since the run{_changes(before, plugin)}")
    return found


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return the changed lines of a plugin's files, by their current numbers."""
    old, new = before.get("sources", {}), now.get("sources", {})
    changes = []
    for name in sorted({*old, *new} if old else ()):
        if name not in old or name not in new:
            changes.append(f"{name}: {'removed' if name in old else 'new'}")
            continue
        lines = old[name].splitlines(), new[name].splitlines()
        codes = difflib.SequenceMatcher(None, *lines, autojunk=False).get_opcodes()
        spans = [
            f"{first + 1}" if last - first <= 1 else f"{first + 1} to {last}"
            for tag, _, _, first, last in codes
            if tag != "equal"
        ]
        if spans:
            changes.append(f"{name}: line {listed(spans, MAX_NAMED)}")
    return f" ({'; '.join(changes)})" if changes else ""


def _search_path(result: Result) -> Iterator[Path]:
    """Yield where the experiment's own files may be, likeliest first."""
    from netsim.experiment import built_in

    recorded = result.experiment.get("directory")
    if isinstance(recorded, str) and not path_problem(recorded):
        yield Path(recorded)
    yield Path.cwd()
    yield from result.path.resolve().parents
    yield from {path.parent for path in built_in().values()}


def _data_files(point: Point) -> list[str]:
    """Return the files that parameters name."""
    return [
        use.params[param.name]
        for use in point.uses
        for param in use.plugin.params
        if param.unit == "file" and use.params[param.name] is not None
    ]
