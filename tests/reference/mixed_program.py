"""A random program that uses every service; its twin is `../mixed_program.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .model import rand32
from .programs import Program

if TYPE_CHECKING:
    from .tasks import Running

CHANCE = 96
N_TIMERS = 3
TOLD, FIRED = 0, 1


class Mixed(Program):
    """Decides at random."""

    def begin(self) -> None:
        """Set up the state of hosts."""
        self.draws: dict[int, int] = {}
        self.weight = {one.number: self.place_in_table(one) * 7 for one in self.tasks}
        self.given = self.sim.case.program or {}

    def _draw(self, host: int) -> int:
        self.draws[host] = self.draws.get(host, 0) + 1
        return rand32(self.sim.case.seed, CHANCE, host, self.draws[host])

    def on_begin(self, host: int) -> None:
        """Start tasks at random."""
        for one in self.of_host(host):
            self._act(host, one)
        k = self._draw(host) % N_TIMERS
        self.set_timer(host, k, self._draw(host) % self.given["gap_ps"])

    def on_task(self, host: int, one: Running) -> None:
        """Repeat this task or start another one, at random."""
        self.log_row(host, TOLD, self.of_host(host).index(one), one.task.kind == "join")
        self._act(host, one)
        if self._draw(host) % 3 > 0:
            self._act_on_any(host)

    def on_timer(self, host: int, k: int) -> None:
        """Start two tasks at random, and set or cancel a timer."""
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
        self.weight[one.number] = chance % 1000 + 2
        under_way = one.start_ps >= 0 and not one.done
        if chance % 4 == 0 and task.kind != "join" and not under_way:
            duration = (chance >> 4) % 3 // 2 * ((chance >> 6) % self.given["gap_ps"])
            self.set_duration(one, duration)
        if task.kind == "send" and one.start_ps < 0 and (chance >> 5) % 4 < self.given["resize"]:
            self.set_size(one, 1 + (chance >> 7) % listed)
        again = task.kind in ("compute", "join") and one.done and not one.to_be_told
        if chance % 4 < 3 and (one.deferred or (again and one.runs < self.given["most_runs"])):
            self.start(one)
