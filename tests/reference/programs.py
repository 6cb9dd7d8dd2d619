"""Programs, and a random one that uses every service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .host import BEGIN_TIMER, PROGRAM_TIMERS, Timer
from .model import rand32

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

    def begin(self) -> None:
        """Called before the run."""

    def on_begin(self, host: int) -> None:
        """Called at time 0."""

    def on_task(self, host: int, one: Running) -> None:
        """Called when a task is done."""

    def on_timer(self, host: int, k: int) -> None:
        """Called when a timer of the program fires."""

    def place_in_table(self, one: Running) -> int:
        """Return the task's index among the program's tasks."""
        return one.number - self.first_task

    def of_host(self, host: int) -> list[Running]:
        return [one for one in self.tasks if one.task.host == host]

    def timer(self, host: int, k: int) -> Timer:
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

    def set_words(self, one: Running, first: int, second: int) -> None:
        """Set the words of an unstarted send task."""
        self.sim.words[one.task.flow] = first, second

    def flow_bytes(self, one: Running) -> int:
        """Return the bytes of a task's flow, as its host knows it; 0 without one."""
        if one.task.flow < 0:
            return 0
        flow = self.sim.flows[one.task.flow]
        heard = self.sim.hosts[flow.dst].receivers[flow.index].has_heard
        return flow.size_bytes if one.task.kind == "send" or heard else flow.listed_bytes

    def log_row(self, host: int, *values: int) -> None:
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


CHANCE = 96
N_TIMERS = 3
TOLD, FIRED = 0, 1


class Mixed(Program):
    """Decides at random."""

    def begin(self) -> None:
        self.draws: dict[int, int] = {}
        self.weight = {one.number: self.place_in_table(one) * 7 for one in self.tasks}
        self.given = self.sim.case.program or {}

    def _draw(self, host: int) -> int:
        self.draws[host] = self.draws.get(host, 0) + 1
        return rand32(self.sim.case.seed, CHANCE, host, self.draws[host])

    def on_begin(self, host: int) -> None:
        for one in self.of_host(host):
            self._act(host, one)
        k = self._draw(host) % N_TIMERS
        self.set_timer(host, k, self._draw(host) % self.given["gap_ps"])

    def on_task(self, host: int, one: Running) -> None:
        self.log_row(host, TOLD, self.of_host(host).index(one), one.task.kind == "join")
        self._act(host, one)
        if self._draw(host) % 3 > 0:
            self._act_on_any(host)

    def on_timer(self, host: int, k: int) -> None:
        self.log_row(host, FIRED, k, 0)
        if self.draws[host] > self.given["most_draws"]:
            return
        self._act_on_any(host)
        self._act_on_any(host)
        chance = self._draw(host)
        if chance % 4 > 0:
            after = self._draw(host) % self.given["gap_ps"]
            self.set_timer(host, (k + chance) % N_TIMERS, self.sim.now + after)
        elif self.timer(host, chance % N_TIMERS).armed:
            self.timer(host, chance % N_TIMERS).cancel()
        else:
            self.set_timer(host, k, self.sim.now - 1)

    def _act_on_any(self, host: int) -> None:
        tasks = self.of_host(host)
        self._act(host, tasks[self._draw(host) % len(tasks)])

    def _act(self, host: int, one: Running) -> None:
        if self.draws.get(host, 0) > self.given["most_draws"]:
            return
        task, peer = one.task, -1
        if task.flow >= 0:
            src, dst, listed, _ = self.sim.case.flows[task.flow]
            peer = dst if task.kind == "send" else src
        chance = self._draw(host) + self.weight[one.number] + self.flow_bytes(one) + peer
        if task.kind == "send" or (task.kind == "receive" and one.start_ps >= 0):
            chance += self.sim.words.get(task.flow, (0, 0))[chance % 2]
        self.weight[one.number] = chance % 1000 + 2
        under_way = one.start_ps >= 0 and not one.done
        if chance % 4 == 0 and task.kind != "join" and not under_way:
            duration = (chance >> 4) % 3 // 2 * ((chance >> 6) % self.given["gap_ps"])
            self.set_duration(one, duration)
        if task.kind == "send" and one.start_ps < 0 and (chance >> 5) % 4 < self.given["resize"]:
            self.set_size(one, 1 + (chance >> 7) % listed)
        if task.kind == "send" and one.start_ps < 0 and chance % 2 == 0:
            self.set_words(one, chance % 997, -(chance % 991))
        again = task.kind in ("compute", "join") and one.done and not one.to_be_told
        if chance % 4 < 3 and (one.deferred or (again and one.runs < self.given["most_runs"])):
            self.start(one)
