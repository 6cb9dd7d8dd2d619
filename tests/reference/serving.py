"""A serving instance, simulated by a plain loop over events.

It follows the documentation of the traffic pattern `serving`, of its log, and of instance failures,
and has no hosts, tasks or flows. Its inputs are the duration of an iteration, the token pairs of a
part of a prompt, and when a KV cache is delivered and its source may free it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

DOWN, WHOLE, SHRUNK = "down", "whole", "shrunk"


class Row(NamedTuple):
    """A row of the log; unused fields are 0 (request: -1)."""

    time_ps: int
    what: str
    request: int = -1
    start_ps: int = 0
    decode_batch: int = 0
    count: int = 0  # type: ignore[assignment] # a method of tuples
    context_tokens: int = 0
    attention_pairs: int = 0


@dataclass(frozen=True)
class Rules:
    """Rules of iterations; a KV cache has ``kv_parts`` parts, the last one sent at the end."""

    token_budget: int
    max_batch: int
    chunked: bool
    kv_parts: int
    lasts: Callable[[int, int, int, int], int]
    pairs: Callable[[int, int], int]


@dataclass(eq=False)
class Request:
    """A request at an instance: ``todo`` tokens are to be computed before its next token."""

    number: int
    comes_ps: int
    prompt: int
    output: int
    told: int = 0
    todo: int = 0
    holds: bool = False  # a batch place and room for its KV cache
    joined: bool = False
    parts: int = 0  # of its KV cache, sent
    given_up_ps: int = -1  # when its KV cache need not be kept here


@dataclass(eq=False)
class Instance:
    """An instance of a role: mixed, prefill or decode. ``changes``: times and new states."""

    role: str
    gpus: int
    room: int
    shrunk_room: int
    rules: Rules
    requests: Sequence[Request]
    changes: Sequence[tuple[int, str]]
    rows: list[Row] = field(default_factory=list)
    sent: dict[tuple[int, int], int] = field(default_factory=dict)
    """When each part of each request's KV cache was sent."""

    def run(self) -> None:
        """Run from the first request to the end of the last."""
        self.state = WHOLE
        self.to_come = sorted(self.requests, key=lambda one: (one.comes_ps, one.number))
        self.turns = sorted(self.changes)
        self.over: set[int] = set()
        self.waiting: list[Request] = []
        self.filling: list[Request] = []
        self.decoding: list[Request] = []
        self.handed_on: list[Request] = []  # whose KV caches are in flight
        self.iteration: Row | None = None
        self.now = -1
        while (at := self._next()) is not None:
            self.now = at
            while self.to_come and self.to_come[0].comes_ps == at:
                self._comes(self.to_come.pop(0))
            self._give_up()
            if self.iteration is not None and self.iteration.time_ps == at:
                self._end(self.iteration)
            self._send_layers()
            if self.turns and self.turns[0][0] == at and self._is_open():
                self._become(self.turns.pop(0)[1])
            self._begin()
            # A short KV cache just sent may be freed at once.
            self._give_up()
            self._begin()

    def _is_open(self) -> bool:
        """Return whether a request is unfinished."""
        return len(self.over) < len(self.requests)

    def _next(self) -> int | None:
        """Return the next instant with something to do."""
        times = [one.comes_ps for one in self.to_come]
        times += [one.given_up_ps for one in self.handed_on]
        if self._is_open():
            times += [at for at, _ in self.turns]
        if self.iteration is not None:
            times += [self.iteration.time_ps, *self._layers_at(self.iteration)]
        return min((at for at in times if at > self.now), default=None)

    def _give_up(self) -> None:
        self.handed_on = [one for one in self.handed_on if one.given_up_ps > self.now]

    def _comes(self, one: Request) -> None:
        if self.role == "decode":
            self._tell("kv transfer end", one)
        self.waiting.append(one)

    def _begin(self) -> None:
        """Start an iteration: all decoding requests, and as many waiting ones as fit."""
        if self.iteration is not None or self.state == DOWN:
            return
        for one in self.decoding:
            self._join(one)
        left = self.rules.token_budget - len(self.decoding)
        tokens = pairs = 0
        while self.waiting:
            one = self.waiting[0]
            if not one.holds and not self._has_room_for(one):
                break
            if one.todo == 0:  # it decodes; the budget always has room for that
                one.holds = True
                self.decoding.append(self.waiting.pop(0))
                self._join(one)
                left -= 1
                continue
            part = one.todo
            if part > left and self.rules.chunked:
                part = max(0, left)
            elif part > left and tokens > 0:
                part = 0
            if part == 0:
                break
            if not one.holds:
                one.holds = True
                self._tell("prefill start", one)
            pairs += self.rules.pairs(one.prompt + one.told - one.todo, part)
            tokens += part
            left -= part
            one.todo -= part
            if one.todo > 0:
                break
            self.filling.append(self.waiting.pop(0))
        batch, context = len(self.decoding), sum(map(_length, self.decoding))
        if batch + tokens == 0:
            return
        lasts = self.rules.lasts(tokens + batch, pairs, batch, context)
        if self.state == SHRUNK:
            lasts = lasts * self.gpus // (self.gpus - 1)
        end = self.now + lasts
        self.iteration = Row(end, "iteration", -1, self.now, batch, tokens, context, pairs)

    def _join(self, one: Request) -> None:
        if not one.joined:
            one.joined = True
            self._tell("decode start", one)

    def _takes(self, one: Request) -> int:
        """Return the KV-cache tokens that a request finally needs."""
        return one.prompt if self.role == "prefill" else one.prompt + one.output

    def _has_room_for(self, one: Request) -> bool:
        at_work = [*self.filling, *self.decoding, *(w for w in self.waiting if w.holds)]
        taken = sum(map(self._takes, at_work)) + sum(sent.prompt for sent in self.handed_on)
        room = self.shrunk_room if self.state == SHRUNK else self.room
        return len(at_work) < self.rules.max_batch and taken + self._takes(one) <= room

    def _end(self, iteration: Row) -> None:
        """End an iteration: a token for each decoding request and each complete prompt."""
        self.rows.append(iteration)
        self.iteration = None
        for one in list(self.decoding):
            one.told += 1
            if one.told == one.output:
                self.decoding.remove(one)
                self._is_over(one)
        filled, self.filling = self.filling, []
        for one in filled:
            one.told += 1
            self._tell("first token", one)
            if one.told == one.output:
                self._is_over(one)
            elif self.role == "prefill":
                self.over.add(one.number)
                while one.parts < self.rules.kv_parts:
                    self._send_part(one)
                self.handed_on.append(one)
            else:
                self.decoding.append(one)

    def _is_over(self, one: Request) -> None:
        self._tell("done", one)
        self.over.add(one.number)

    def _tell(self, what: str, one: Request) -> None:
        self.rows.append(Row(self.now, what, one.number, count=one.told))

    def _layers_at(self, iteration: Row) -> list[int]:
        """Return when layers are computed whose KV caches are sent, all but the last."""
        if self.role != "prefill":
            return []
        each = (iteration.time_ps - iteration.start_ps) // self.rules.kv_parts
        return [iteration.start_ps + each * part for part in range(1, self.rules.kv_parts)]

    def _send_layers(self) -> None:
        """Send KV caches of prompts that this iteration completes; none again after a failure."""
        if self.iteration is None or self.now not in self._layers_at(self.iteration):
            return
        part = self._layers_at(self.iteration).index(self.now)
        for one in self.filling:
            if one.output > 1 and one.parts == part:
                self._send_part(one)

    def _send_part(self, one: Request) -> None:
        self.sent[one.number, one.parts] = self.now
        one.parts += 1

    def _become(self, state: str) -> None:
        """Change the state: memory is lost, and requests in progress are queued first."""
        self.state = state
        if state == DOWN:
            part = [one for one in self.waiting if one.holds]
            at_work = [*self.decoding, *self.filling, *part]
            for one in at_work:
                self._tell("lost", one)
                one.holds = one.joined = False
                one.todo = one.prompt + one.told
            self.waiting = [*at_work, *(one for one in self.waiting if one not in part)]
            self.decoding, self.filling, self.iteration = [], [], None
        gpus = {DOWN: 0, WHOLE: self.gpus, SHRUNK: self.gpus - 1}[state]
        self.rows.append(Row(self.now, "up" if gpus else "down", count=gpus))


def _length(one: Request) -> int:
    """Return the tokens of a sequence."""
    return one.prompt + one.told


def transitions_of(outages: Sequence[Sequence[int]]) -> Mapping[int, list[tuple[int, str]]]:
    """Return the transitions of each instance; outages are (instance, down, up, whole)."""
    found: dict[int, list[tuple[int, str]]] = {}
    for instance, down, up, whole in outages:
        found.setdefault(instance, []).append((down, DOWN))
        if up < whole:
            found[instance].append((up, SHRUNK))
        found[instance].append((whole, WHOLE))
    return found
