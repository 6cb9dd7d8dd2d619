"""Programs: what starts the tasks that are deferred, and runs others once more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .host import BEGIN_TIMER, PROGRAM_TIMERS, Timer

if TYPE_CHECKING:
    from .tasks import Running, Tasks


class Program:
    """A program; what it does is said by who inherits from it."""

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

    # -- what a program does -----------------------------------------------------------------

    def begin(self) -> None:
        """Before the run."""

    def on_begin(self, host: int) -> None:
        """Time 0."""

    def on_task(self, host: int, one: Running) -> None:
        """A task is done."""

    def on_timer(self, host: int, k: int) -> None:
        """A timer of the program fires."""

    # -- what it may ask for -----------------------------------------------------------------

    def place_in_table(self, one: Running) -> int:
        """Which of the program's tasks it is."""
        return one.number - self.first_task

    def of_host(self, host: int) -> list[Running]:
        """The program's tasks of a host."""
        return [one for one in self.tasks if one.task.host == host]

    def timer(self, host: int, k: int) -> Timer:
        """A timer of the program."""
        return self._timers[host, k]

    def set_timer(self, host: int, k: int, at_ps: int) -> None:
        """Have it fire at a time, or now."""
        self._timers[host, k].set(at_ps)

    def set_duration(self, one: Running, duration_ps: int) -> None:
        """From the next start on."""
        one.duration_ps = duration_ps

    def set_size(self, one: Running, size_bytes: int) -> None:
        """Of the flow of a send task that has not started."""
        self.sim.set_size(self.sim.flows[one.task.flow], size_bytes)

    def flow_bytes(self, one: Running) -> int:
        """Bytes of the flow of a task, as its host knows it; 0 if it has none."""
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
        """Its rows: host, time, what was noted; host by host, in the order of the calls."""
        return sorted(self._log, key=lambda row: row[0])

    def start(self, one: Running) -> None:
        """Start a deferred task, or another one again."""
        if one.deferred:
            one.deferred = False
            self.run.settle(one.task.host)
        else:
            self.run.start_again(one)
