"""One run in several processes, each with a part of the network: an engine per rank.

Every rank simulates its part up to a time before which no other part can affect it
(`partition.py`). Then it sends the packets that leave its part to the ranks that they reach
(`Cut`), and all ranks learn the earliest event of each. Rank 0 gives the orders; the others follow
in `serve`. When the state is read on rank 0, the others' rows are gathered first, so results,
checkpoints and reports are made as in one process.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from typing import Any

import numpy as np

from netsim.engine import snapshot, state_views
from netsim.engine.compiling.declarations import SIZES
from netsim.engine.engine import Engine
from netsim.engine.kernels.fields import Array
from netsim.engine.kernels.layout import INF
from netsim.engine.kernels.loop import Goal
from netsim.engine.kernels.tasks import N_WORDS
from netsim.engine.partition import (
    FEW,
    LONG_S,
    NEVER,
    TOTALS,
    Horizons,
    Partition,
    array_at,
    set_soonest,
)
from netsim.engine.pool import lay_out
from netsim.engine.records import RecordArray, aligned_zeros
from netsim.engine.series import make_room
from netsim.engine.simulation import Options, Ranks, Simulation
from netsim.engine.snapshot import Snapshot
from netsim.engine.state import State
from netsim.engine.state_views import Counts, FlowStates, Status
from netsim.errors import RunError
from netsim.model.columns import offsets

HAND_OVER, TAKE_OVER, LIST_DELIVERED, NOTE_DELIVERED = range(4)  # entry points of `Cut`


class Exchange:
    """The exchange of a rank with its neighbors; with ``has_news`` with all others."""

    def __init__(
        self, engine: Engine, partition: Partition, ranks: Ranks, *, has_news: bool
    ) -> None:
        self._state, self._ranks, self._jit = engine.state, ranks, engine.jit
        self._entries, self._program = engine.of_cut, engine.program
        self._phase_driven = engine.feature_set.phase_driven
        self._cut, self._neighbors = partition.cut(), partition.neighbors(has_news=has_news)
        for box in ("outbox", "inbox"):
            self._make_room(box, FEW)

    def begin(self) -> None:
        """Begin with a new state: all ranks know its flows."""
        self._known, self._n_begun = self._set_by_program(), -1

    def run(self) -> None:
        """Exchange packets that cross parts with the ranks that they reach."""
        s, cut, ranks = self._state, self._cut, self._ranks
        if (n := self._run_cut(HAND_OVER, s.net, s.links, cut)) < 0:
            self._make_room("outbox", -n)
            cut = self._cut
            self._run_cut(HAND_OVER, s.net, s.links, cut)
        flows = cut.flows[: self._run_cut(LIST_DELIVERED, s.hosts, s.clock, cut)]
        delivered = np.stack([flows, np.asarray(s.hosts.rx)["done_ps"][flows]], axis=1)
        changes = self._new_changes()
        begins = offsets(cut.sent)
        headers, packets = {}, {}
        for rank, links in self._neighbors:
            counts = cut.sent[links]
            busy = np.flatnonzero(counts)
            lengths = [busy.size, busy.size, delivered.size, changes.size]
            parts = (busy, counts[busy], delivered.reshape(-1), changes.reshape(-1))
            headers[rank] = np.concatenate([lengths, *parts])
            packets[rank] = cut.outbox[begins[links.start] : begins[links.stop]]
        self._receive(ranks.swap(headers), packets)

    def _receive(self, headers: Mapping[int, Array], packets: Mapping[int, Array]) -> None:
        """Receive the packets that messages with ``headers`` announce, and send ``packets``."""
        s, cut = self._state, self._cut
        cut.received[:] = 0
        delivered = [np.zeros((0, 2), np.int64)]
        for rank, links in self._neighbors:
            lengths, rest = np.split(headers[rank], [4])
            busy, counts, flows, changes = np.split(rest, np.cumsum(lengths)[:-1])
            cut.received[links][busy] = counts
            delivered.append(flows.reshape(-1, 2))
            self._apply(changes.reshape(-1, self._n_columns))
        ends = offsets(cut.received)
        if ends[-1] > cut.inbox.shape[0]:
            self._make_room("inbox", int(ends[-1]))
            cut = self._cut
        into = {rank: cut.inbox[ends[of.start] : ends[of.stop]] for rank, of in self._neighbors}
        self._ranks.fill(_bytes(packets), _bytes(into))
        self._run_cut(TAKE_OVER, s.net, s.links, s.clock, cut)
        every = np.concatenate(delivered)
        if every.size or self._phase_driven:
            self._run_cut(NOTE_DELIVERED, s.net, s.links, s.hosts, s.clock, cut, every)

    @property
    def _n_columns(self) -> int:
        return 1 + len(SIZES) + (N_WORDS if self._program.has_words else 0)

    def _set_by_program(self) -> Array:
        """Return the size and words of each flow: int64[n_flows, 1 or 3]."""
        hosts = self._state.hosts
        sizes = np.array(hosts.tx["size_bytes"])[:, None]
        return np.concatenate([sizes, hosts.words], axis=1) if self._program.has_words else sizes

    def _new_changes(self) -> Array:
        """Return the flows whose size or words the program has set here, with these values. It sets
        them before a flow starts, and receivers learn them when its first packet arrives."""
        n_begun = int(self._state.clock.clock["expected"][0])
        if not self._program.sets_flows or n_begun == self._n_begun:
            return np.zeros((0, self._n_columns), np.int64)
        self._n_begun = n_begun
        now, tx = self._set_by_program(), np.asarray(self._state.hosts.tx)
        changed = np.flatnonzero((now != self._known).any(axis=1))
        self._known = now
        sizes = [tx[name][changed] for name in SIZES]
        return np.stack([changed, *sizes, *now[changed, 1:].T], axis=1)

    def _apply(self, changes: Array) -> None:
        """Set the values that other ranks have changed."""
        flow, sizes, words = np.split(changes, [1, 1 + len(SIZES)], axis=1)
        flow, hosts = flow[:, 0], self._state.hosts
        for name, column in zip(SIZES, sizes.T, strict=True):
            np.asarray(hosts.tx)[name][flow] = column
        if self._program.has_words:
            np.asarray(hosts.words)[flow] = words
        if self._program.sets_flows:
            self._known[flow] = np.concatenate([sizes[:, :1], words], axis=1)

    def _run_cut(self, number: int, *arguments: Any) -> Any:
        run = self._entries[number].run
        assert run is not None
        return run(*arguments)

    def load(self) -> None:
        """Load or compile the code of `Cut`."""
        s, cut, none = self._state, self._cut, np.zeros((0, 2), np.int64)
        of_links = s.net, s.links, s.clock, cut
        of_flows = s.hosts, s.clock, cut
        arguments = (s.net, s.links, cut), of_links, of_flows, (s.net, s.links, *of_flows, none)
        for entry, given in zip(self._entries, arguments, strict=True):
            entry.prepare(*given)

    def _make_room(self, box: str, n: int) -> None:
        """Make room for ``n`` packets in the outbox or the inbox."""
        packets = aligned_zeros(1 << (n - 1).bit_length(), self._cut.outbox.dtype)
        given: Any = packets if self._jit else packets.view(RecordArray)
        self._cut = self._cut._replace(**{box: given})


def _bytes(packets: Mapping[int, Array]) -> dict[int, Array]:
    """Return the memory of packets as uint8[...], where there are any."""
    return {rank: one.view(np.uint8) for rank, one in packets.items() if one.size}


STEP, GATHER, GATHER_ROWS, RESTORE, END = range(5)  # orders of rank 0

FLOWS, PROGRAM_HOSTS = range(2)
READ_OFTEN = (("hosts.tx", "hosts.rx"), ("hosts.program_hosts",))
"""Arrays that are gathered alone, since they are read several times a second."""

ENDS = ("links.ports", "links.readers")
"""Arrays in which a part also needs the rows of ports at the other ends of its cables."""

FLOWS_OF_NEWS = ("hosts.tx", "hosts.rx")  # a part that learns of other flows needs all rows

PIECE_BYTES = 1 << 26

NEXT, FAILED, LATE, LAST_DONE, REACHED, ALIVE, SPENT_NS, FIRST_TOTAL = range(8)
"""First columns of the ranks' messages after each exchange; the others are TOTALS. Rank 0 is late
once its call has used up its seconds. ALIVE is the time up to which a rank has work left, or 0."""

FEW_WINDOWS = 256
"""A call of n windows simulates the windows that one process would simulate, so that stalled runs
end alike."""

MANY_WINDOWS = 1 << 40


class PartitionedEngine(Engine):
    """The engine of one rank. On rank 0 use it like any engine, and close it at the end; on other
    ranks call `serve`."""

    def __init__(self, simulation: Simulation, options: Options) -> None:
        assert options.ranks is not None
        self.ranks = ranks = options.ranks
        self._is_complete = True  # the state has current rows of all parts
        self._gathered: set[int] = set()  # which of READ_OFTEN are current
        self._end_s: float = INF  # when rank 0 ends the current call
        self._is_watched = False  # one watch for all windows of a call
        self._table: Array | None = None  # the ranks' last messages
        super().__init__(simulation, options)
        self._partition = Partition(self._state, simulation, self.protocol, ranks.rank, ranks.n)
        self._partition.begin()
        self._exchange = Exchange(self, self._partition, ranks, has_news=self._has_news)
        self._begin()
        clock = self._state.clock.clock[0]
        told_ps = int(clock["lookahead_ps"]) if self._tells else NEVER
        delays = self._partition.delays(told_ps)
        self._beyond = self._partition.beyond(delays, tells=self._tells)
        self._horizons = Horizons(delays, ranks.rank, int(clock["window_ps"]))
        if not self.jit:
            self._exchange.load()

    @property
    def _tells(self) -> bool:
        """Return whether ranks wait for deliveries elsewhere."""
        return self._state.hosts.next_flows.shape[0] > 1 or self.feature_set.phase_driven

    @property
    def _has_news(self) -> bool:
        """Return whether ranks learn of events elsewhere by means other than packets."""
        return self._tells or self.program.sets_flows

    @property
    def state(self) -> State:
        """The state; on rank 0 with the rows of all parts."""
        if self.ranks.rank == 0 and not self._is_complete:
            self._order(GATHER)
            self._gather()
        return self._state

    @state.setter
    def state(self, state: State) -> None:
        self._state = state

    @property
    def counts(self) -> Counts:
        """The progress of the run."""
        own = state_views.counts(self._state)
        if self._table is None:
            return own
        total = dict(zip(TOTALS, self._table[:, FIRST_TOTAL:].sum(0).tolist(), strict=True))
        known = {name: total[name] for name in TOTALS if hasattr(own, name)}
        return replace(own, **known)

    def flow_states(self) -> FlowStates:
        """Return the state of each flow."""
        self._look_at(FLOWS)
        return state_views.flow_states(self._state)

    def program_total(self, name: str) -> int:
        """Return a field of the program's ``HOST_STATE``, summed over all hosts."""
        self._look_at(PROGRAM_HOSTS)
        return int(self._state.hosts.program_hosts[name].sum())

    def _look_at(self, what: int) -> None:
        """Gather the arrays that are read often, once."""
        if not self._is_complete and what not in self._gathered:
            self._order(GATHER_ROWS, what)
            self._gather_often(what)
            self._gathered.add(what)

    def advance(
        self,
        n_windows: int,
        until_ps: int,
        *,
        stop_when_done: bool = False,
        workers: int | None = None,
        seconds: float | None = None,
    ) -> Status:
        """Simulate up to ``n_windows`` windows on all ranks, like `Engine.advance`. Without any,
        load the code."""
        workers = workers or self.threads
        if n_windows == 0:
            self._exchange.load()
            return self._step(0, until_ps, workers)
        self._end_s = INF if seconds is None else time.monotonic() + seconds
        self._order(STEP, n_windows, until_ps, stop_when_done, workers)
        return self._windows(n_windows, until_ps, stop_when_done, workers)

    def restore(self, earlier: Snapshot) -> None:
        """Resume all ranks from a snapshot."""
        snapshot.put(self.state, earlier)
        self._order(RESTORE)
        self._scatter()

    def close(self) -> None:
        """Let the other ranks go on."""
        self._order(END)

    def serve(self) -> None:
        """Follow the orders of rank 0 until it closes its engine."""
        while True:
            order, *rest = self.ranks.broadcast(None).view(np.int64).tolist()
            if order == STEP:
                with suppress(RunError):  # which rank 0 reports
                    self._windows(rest[0], rest[1], bool(rest[2]), rest[3])
            elif order == GATHER:
                self._gather()
            elif order == GATHER_ROWS:
                self._gather_often(rest[0])
            elif order == RESTORE:
                self._scatter()
            else:
                return

    def _order(self, order: int, *rest: int) -> None:
        self.ranks.broadcast(np.array([order, *rest], np.int64).view(np.uint8))

    def _gather(self) -> None:
        """Complete the state of rank 0."""
        s, partition = self._state, self._partition
        packets = partition.packets()
        for path in partition.paths:
            self._gather_rows(path)
        of_parts = [self.ranks.gather(_bytes_of(one)) for one in packets]
        clocks = self.ranks.gather(_bytes_of(s.clock.clock))
        if self.ranks.rank == 0:
            lay_out(s.net, s.links, s.hosts)
            slots = partition.slots_of_parts()
            for pool, found in zip(snapshot.pools(s), of_parts, strict=True):
                entries = snapshot.entries_of(pool)
                for at, raw in zip(slots, found, strict=True):
                    entries[at] = raw.reshape(-1, entries.shape[1])
            clock = np.asarray(s.clock.clock)
            for name in TOTALS:
                clock[name] = sum(one.view(clock.dtype)[name] for one in clocks)
            clock["last_done_ps"] = max(one.view(clock.dtype)["last_done_ps"][0] for one in clocks)
            set_soonest(s)
            self._is_complete = True
        else:
            partition.forget_totals()
            self._own_goal = partition.goal()  # in what is counted from now on
        self._table = None

    def _gather_often(self, what: int) -> None:
        """Update some arrays on rank 0."""
        for path in READ_OFTEN[what]:
            self._gather_rows(path)

    def _gather_rows(self, path: str) -> None:
        """Set the rows of other ranks on rank 0, in small messages."""
        rows, entries = self._partition.rows(path), snapshot.entries_of(array_at(self._state, path))
        own = rows if self.ranks.rank else rows[:0]
        most = int(self.ranks.all_gather(np.array([own.size], np.int64)).max())
        for some in np.array_split(own, 1 + most * entries.shape[1] // PIECE_BYTES):
            numbers = self.ranks.gather(_bytes_of(some))
            found = self.ranks.gather(entries[some].reshape(-1))
            for at, raw in zip(numbers, found, strict=True):
                entries[at.view(np.int64)] = raw.reshape(-1, entries.shape[1])

    def _scatter(self) -> None:
        """Give other ranks their rows of the state of rank 0, which is complete."""
        s, partition, ranks = self._state, self._partition, self.ranks
        for path in snapshot.paths(s):
            array = array_at(s, path)
            if path in partition.paths and not (self._has_news and path in FLOWS_OF_NEWS):
                rows = s.share.links if path in ENDS else partition.rows(path)
                self._scatter_rows(snapshot.entries_of(array), np.asarray(rows))
            elif path not in snapshot.kept_in_part(s):
                _bytes_of(array)[:] = ranks.broadcast(_bytes_of(array) if ranks.rank == 0 else None)
        if ranks.rank == 0:
            slots = partition.slots_of_parts()
        else:
            partition.forget_sent()
            lay_out(s.net, s.links, s.hosts, s.share)
            slots = [snapshot.occupied(s, s.share)]
        for pool in snapshot.pools(s):
            entries = snapshot.entries_of(pool)
            if ranks.rank == 0:
                out = {i: entries[at].reshape(-1) for i, at in enumerate(slots) if i and at.size}
                ranks.fill(out, {})
            else:
                raw = np.empty((slots[0].size, entries.shape[1]), np.uint8)
                ranks.fill({}, {0: raw.reshape(-1)} if raw.size else {})
                entries[slots[0]] = raw
        if ranks.rank:
            partition.begin()
            self._begin()
        else:
            self._is_complete = True
        self._table = None

    def _scatter_rows(self, entries: Array, rows: Array) -> None:
        """Set some rows of an array as on rank 0."""
        numbers = self.ranks.gather(_bytes_of(rows if self.ranks.rank else rows[:0]))
        if self.ranks.rank == 0:
            wanted = {i: entries[at.view(np.int64)].reshape(-1) for i, at in enumerate(numbers)}
            self.ranks.fill({i: raw for i, raw in wanted.items() if raw.size}, {})
        else:
            raw = np.empty((rows.size, entries.shape[1]), np.uint8)
            self.ranks.fill({}, {0: raw.reshape(-1)} if raw.size else {})
            entries[rows] = raw

    def _begin(self) -> None:
        """Begin with a state that has current rows of this part only."""
        self._exchange.begin()
        self._own_goal = self._partition.goal()
        self._is_complete = False

    def _windows(self, n_windows: int, until_ps: int, stop_when_done: bool, workers: int) -> Status:
        """Simulate windows together with the other ranks, which make the same decisions."""
        self._gathered.clear()
        if self._is_complete:
            self._partition.hide()
            self._begin()
        with self._watch():
            self._is_watched = True
            try:
                return self._simulate(n_windows, until_ps, stop_when_done, workers)
            finally:
                self._is_watched = False

    def _watch(self) -> AbstractContextManager[None]:
        return nullcontext() if self._is_watched else super()._watch()

    def _simulate(
        self, n_windows: int, until_ps: int, stop_when_done: bool, workers: int
    ) -> Status:
        clock = np.asarray(self._state.clock.clock)
        table = self._tell() if self._table is None else self._table
        together, stop_ps, n = n_windows <= FEW_WINDOWS, until_ps, 0
        while True:
            is_done = stop_when_done and self._all_done()
            end_ps = until_ps
            if is_done:
                end_ps = min(end_ps, int(table[:, LAST_DONE].max() + clock["ending_ps"][0]))
            w0 = int(table[:, NEXT].min())
            if w0 == INF and not is_done:
                return self._end(min(until_ps, self._idle_ps()), Status.IDLE)
            if w0 >= end_ps:
                return self._end(end_ps, Status.DONE if is_done else Status.TIME_LIMIT)
            if n == n_windows or (n and table[0, LATE]):
                stop_ps = min(stop_ps, int(table[:, REACHED].max()))
            if w0 >= stop_ps:
                return self._end(stop_ps, Status.RUNNING)
            limit_ps = min(stop_ps, end_ps)
            if together:
                table = self._window(w0, min(w0 + self._horizons.window_ps, limit_ps), workers)
            else:
                ends_alone = bool(stop_when_done and table[self.ranks.rank, ALIVE])
                if stop_when_done and not is_done and not ends_alone:
                    known_ps = max(w0, int(table[:, [LAST_DONE, ALIVE]].max()))
                    limit_ps = min(limit_ps, int(known_ps + clock["ending_ps"][0]))
                limit_ps = min(limit_ps, self._horizons.horizon_ps(table[:, NEXT]))
                table = self._alone(limit_ps, ends_alone, workers)
            n += 1

    def _end(self, end_ps: int, status: Status) -> Status:
        """End a call: all parts have simulated everything before ``end_ps``."""
        make_room(self._state.links, end_ps)
        clock = np.asarray(self._state.clock.clock)
        clock["w1"], clock["returns_ps"] = end_ps, INF
        return status

    def _window(self, w0: int, w1: int, workers: int) -> Array:
        """Simulate the window that one process would."""
        clock = np.asarray(self._state.clock.clock)
        n_before = int(clock["windows"][0])
        failure = self._try(1, w1, workers) if self._next_ps() < w1 else None
        clock["w0"], clock["w1"], clock["windows"] = w0, w1, n_before + 1
        self._exchange.run()
        return self._tell(failure)

    def _alone(self, until_ps: int, ends_alone: bool, workers: int) -> Array:
        """Simulate this part on its own, up to ``until_ps``, until others may send something that
        depends on it, or until it is done if it ``ends_alone``."""
        began, failure = time.perf_counter(), None
        if self._next_ps() < until_ps:
            failure = self._try(MANY_WINDOWS, until_ps, workers, stop_when_done=ends_alone)
        spent_s = time.perf_counter() - began
        self._exchange.run()
        table = self._tell(failure, spent_s)
        self._horizons.learn(float(table[:, SPENT_NS].max()) / 1e9)
        return table

    def _next_ps(self) -> int:
        return int(self._state.clock.soonest.min())

    def _try(
        self, n_windows: int, until_ps: int, workers: int, *, stop_when_done: bool = False
    ) -> str | None:
        """Simulate windows of this part; return the failure."""
        np.asarray(self._state.clock.clock)["returns_ps"] = INF
        try:
            self._step(n_windows, until_ps, workers, stop_when_done=stop_when_done)
        except RunError as error:
            return str(error)
        return None

    def _step(
        self, n_windows: int, until_ps: int, workers: int, *, stop_when_done: bool = False
    ) -> Status:
        is_complete, self._is_complete = self._is_complete, True
        try:
            return super().advance(
                n_windows,
                until_ps,
                stop_when_done=stop_when_done,
                workers=workers,
                seconds=LONG_S if n_windows > 1 else None,
            )
        finally:
            self._is_complete = is_complete

    def _end_idle(self, until_ps: int) -> None:
        """Do nothing: all parts decide together when the run ends."""

    def _goal(self) -> Goal:
        return self._own_goal or super()._goal()

    def _is_alive(self) -> bool:
        """Return whether this part is known to have work left."""
        return self._own_goal is not None and not self._reaches(
            self._own_goal, self._state.clock.clock[0]
        )

    def _tell(self, failure: str | None = None, spent_s: float = 0) -> Array:
        """Send this rank's next event and totals to the other ranks; return all ranks' values.
        Raises RunError with the failure of any rank."""
        clock = self._state.clock.clock[0]
        reached_ps = int(clock["w1"])
        late = time.monotonic() >= self._end_s
        row = [self._next_ps(), failure is not None, late, int(clock["last_done_ps"]), reached_ps]
        row += [reached_ps if self._is_alive() else 0, int(1e9 * spent_s)]
        row += [int(clock[name]) for name in TOTALS]
        self._table = table = self.ranks.all_gather(np.array(row, np.int64))
        failed = np.flatnonzero(table[:, FAILED])
        if failed.size:
            text = np.frombuffer((failure or "").encode(), np.uint8)
            raise RunError(self.ranks.broadcast(text, int(failed[0])).tobytes().decode())
        return table

    def _all_done(self) -> bool:
        """Like `all_done` of loop.py, for all parts together."""
        assert self._table is not None
        total = dict(zip(TOTALS, self._table[:, FIRST_TOTAL:].sum(0).tolist(), strict=True))
        return self._reaches(super()._goal(), total)

    def _reaches(self, goal: Goal, counted: Any) -> bool:
        """Return whether the counted totals reach a goal."""
        started = int(counted["expected"]) if self.has_program else 0
        return bool(
            counted["under_way"] <= 0
            and counted["delivered"] >= started + goal.delivered
            and counted["finished"] >= started + goal.finished
            and counted["tasks_done"] >= goal.tasks_done
        )

    def _idle_ps(self) -> int:
        """Return when the run ends, now that no rank has an event left."""
        own = np.array([state_views.idle_ps(self._state)], np.int64)
        return int(self.ranks.all_gather(own).max())


def _bytes_of(array: Array) -> Array:
    """Return the memory of an array as uint8[...]."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
