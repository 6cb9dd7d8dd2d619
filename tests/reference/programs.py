"""Programs: start deferred tasks, and repeat others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .host import BEGIN_TIMER, PROGRAM_TIMERS, Timer

if TYPE_CHECKING:
    from .tasks import Running, Tasks


class Program:
    """A program; subclasses define what it does."""

    n_timers = 3

    def __init__(self, tasks: Tasks, first_task: int) -> None:
        self.sim = tasks.sim
        self.run = tasks
        self.first_task = first_task
        self.tasks = tasks.all[first_task:]
        self._timers: dict[tuple[int, int], Timer] = {}
        self._begins: list[Timer] = []
        self._log: list[tuple[int, ...]] = []
        self.begin()
        for host in sorted({one.task.host for one in self.tasks}):
            self._prepare(host)

    def _prepare(self, host: int) -> None:
        there = self.sim.hosts[host]
        begin = Timer(there, (BEGIN_TIMER, 0, 0), lambda: self.on_begin(host))
        begin.set(0)
        self._begins.append(begin)
        for k in range(self.n_timers):
            action = lambda k=k: self.on_timer(host, k)  # noqa: E731
            self._timers[host, k] = Timer(there, (PROGRAM_TIMERS, k, 0), action)

    # -- handlers ------------------------------------------------------------------------------

    def begin(self) -> None:
        """Called before the run."""

    def on_begin(self, host: int) -> None:
        """Called at time 0."""

    def on_task(self, host: int, one: Running) -> None:
        """Called when a task is done."""

    def on_timer(self, host: int, k: int) -> None:
        """Called when a timer of the program fires."""

    # -- services ---------------------------------------------------------------------------

    def place_in_table(self, one: Running) -> int:
        """Return which of the program's tasks it is."""
        return one.number - self.first_task

    def of_host(self, host: int) -> list[Running]:
        """Return the program's tasks of a host."""
        return [one for one in self.tasks if one.task.host == host]

    def timer(self, host: int, k: int) -> Timer:
        """Return a timer of the program."""
        return self._timers[host, k]

    def set_timer(self, host: int, k: int, at_ps: int) -> None:
        """Set a timer to a time, or now."""
        self._timers[host, k].set(at_ps)

    def set_duration(self, one: Running, duration_ps: int) -> None:
        """Set the duration of a task, from its next start on."""
        one.duration_ps = duration_ps

    def set_size(self, one: Running, size_bytes: int) -> None:
        """Set the size of an unstarted send task's flow."""
        self.sim.set_size(self.sim.flows[one.task.flow], size_bytes)

    def flow_bytes(self, one: Running) -> int:
        """Return the bytes of a task's flow, as its host knows it; 0 without one."""
        if one.task.flow < 0:
            return 0
        flow = self.sim.flows[one.task.flow]
        heard = self.sim.hosts[flow.dst].receivers[flow.index].has_heard
        return flow.size_bytes if one.task.kind == "send" or heard else flow.listed_bytes

    def log_row(self, host: int, *values: int) -> None:
        """Add a row to the log."""
        self._log.append((host, self.sim.now, *values))

    @property
    def log(self) -> list[tuple[int, ...]]:
        """Return the log's rows (host, time, values), host by host, in the order of calls."""
        return sorted(self._log, key=lambda row: row[0])

    def start(self, one: Running) -> None:
        """Start a deferred task, or repeat another one."""
        if one.deferred:
            one.deferred = False
            self.run.settle(one.task.host)
        else:
            self.run.start_again(one)
