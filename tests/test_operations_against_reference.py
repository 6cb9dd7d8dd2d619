"""Operations of ranks on random networks start and end when their documentation says.

A random case has computes, joins, messages and collectives by every algorithm in streams of several
ranks (`reference/random_operations.py`), over random networks or with relays, with several
transports. Its tasks and flows run on the engine and on the slow simulator, which must agree. Then
an executor without tasks (`reference/operations.py`) is given when messages were handed over and
delivered, and must compute the times of all operations and the starts of all messages.
"""

import random
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from agreement import Way, compare, cut_short, way_of
from engine_case import engine_for, run
from operations_case import KNOWN, case_of, noted, plan_of
from raises_input import raises_input
from reference.cases import random_case
from reference.model import Case
from reference.operations import NEVER, Plan, Time, play
from reference.random_operations import KINDS, US, Calls, random_calls
from reference.relays import racks, relay
from reference.simulator import Simulator
from task_times import operations_of

from netsim.engine.engine import Engine
from netsim.errors import InputError
from netsim.model.relays import AT, RelayRule, RelaySegments, relayed
from netsim.model.workload import Workload
from netsim.workloads.operations.table import WHATS, OperationTable

CASES = {"any": 20, "relays": 10, "no losses": 12}
"""Number of cases by kind; the case number selects the collective algorithms."""
MORE_CASES, AT_ONCE, HANGS = 240, 10, 150
SHORT = 300  # number of transmissions after which a quick case ends

OTHERS: dict[str, dict[str, Any]] = {
    "datagram": {"rate_bps": None, "data_class": 1},
    "roce": {"ack_every": 2, "rto_ps": 60 * US, "data_class": 1},
    "ndp": {"initial_window": 4, "rto_ps": 60 * US},
}
"""Transports that some kinds of messages use instead of the case's."""


Messages = tuple[list[Time], list[Time], list[Time]]
"""When each message was handed over, delivered and started."""


@dataclass(frozen=True)
class Job:
    """Operations on a network, and the workload built from them."""

    case: Case
    calls: Calls
    load: Workload
    segments: RelaySegments | None = None

    @property
    def operations(self) -> OperationTable:
        return operations_of(self.load)


def job(seed: int, *, losses: bool = True) -> Job:
    """Return operations on a random network; without losses every message arrives in time."""
    rng = random.Random(f"operations {seed}")
    none = dict.fromkeys(("tasks", "phases", "program", "policy"), False)
    if not losses:
        none |= dict.fromkeys(("circuits", "faults", "reroutes", "llr", "nic"), False)
        none |= {"transport": "roce", "model": "lossless"}
        none |= {"routing": "ecmp", "planes": None, "port_sizes": False}
    case = random_case(seed, **none)
    if not losses:
        fabric = {**case.fabric, "xoff_bytes": 10**6, "xon_bytes": 10**6}
        fabric |= {"alpha": None, "shared_buffer_bytes": None}
        case = replace(case, until_ps=10**12, fabric=fabric)
    calls, load = _lowered(rng, case, seed)
    return Job(_with_others(rng, case_of(case, load), load), calls, load)


def relayed_job(seed: int) -> Job | None:
    """Return operations in racks and rails with relays; None if a message cannot be relayed."""
    rng = random.Random(f"relayed {seed}")
    case, rack, rail = racks(rng)
    calls, load = _lowered(rng, case, seed)
    at, chunk = rng.choice(AT), rng.choice((10**6, 2000, 1500))
    given = _with_others(rng, case_of(case, load), load)
    try:
        made, segments = relayed(load, RelayRule(rack, rail, at, chunk))
    except InputError:
        return None
    by_text = replace(relay(given, rack, rail, at, chunk), until_ps=10**9)
    return Job(by_text, calls, made, segments)


def _lowered(rng: random.Random, case: Case, number: int) -> tuple[Calls, Workload]:
    calls = random_calls(rng, case.n_hosts, KNOWN, number)
    hosts = [*rng.sample(range(case.n_hosts), case.n_hosts), rng.randrange(case.n_hosts)]
    found = {call.kind for call in calls.calls}
    classes = {kind: k for k, kind in enumerate(KINDS) if kind in found}
    load = noted(calls).lower(hosts, classes)
    load.validate(case.n_hosts)
    return calls, load


def _with_others(rng: random.Random, case: Case, load: Workload) -> Case:
    """Give flows of some classes another transport."""
    if (
        case.fabric["queue_discipline"] not in ("drop_tail", "trim", "lossless")
        or rng.random() < 0.4
    ):
        return case
    if case.transport == "mixed" or case.fabric["n_traffic_classes"] < 2:
        return case
    others = [name for name in OTHERS if name != case.transport]
    of_class = {cls: rng.choice(others) for cls in range(len(KINDS)) if rng.random() < 0.6}
    classes = enumerate(load.flows.cls.tolist())
    return replace(
        case,
        beside={flow: (of_class[c], OTHERS[of_class[c]]) for flow, c in classes if c in of_class},
    )


def check(one: Job, way: Way) -> Counter[str]:
    """Compare both simulators; return the number of ended operations by type."""
    if one.case.beside:
        way = replace(way, sampling=None)  # series name fields of a single transport
    if one.segments is None:
        engine, simulator = compare(one.case, way)
    else:
        assert one.segments.tasks is not None
        engine, simulator = compare(one.case, way, one.load, free=len(one.segments.tasks))
    plan = plan_of(one.calls)
    compare_flows(plan, one)
    compare_operations(plan, one, engine, _messages(one, simulator))
    table = one.operations
    ended = engine.task_states().end_ps[table.end_task] >= 0
    return Counter(table.what[ended].tolist())


def compare_flows(plan: Plan, one: Job) -> None:
    """Check that flows are exactly the non-empty messages, with their sizes, hosts and kinds."""
    flows, table = one.load.flows if one.segments is None else one.segments.flows, one.operations
    goes = [message for message in plan.messages if message.size_bytes]
    assert [(table.host[it.sender], table.host[it.receiver], it.size_bytes) for it in goes] == list(
        zip(flows.src, flows.dst, flows.size_bytes, strict=True)
    )
    kinds = [plan.operations[message.sender].kind for message in goes]
    assert kinds == [flows.kinds[k] for k in flows.kind]
    assert flows.cls.tolist() == [KINDS.index(kind) for kind in kinds]
    assert [table.kinds[k] for k in table.kind] == [it.kind for it in plan.operations]


def compare_operations(plan: Plan, one: Job, engine: Engine, messages: Messages) -> None:
    """Check that all operations start and end when the executor says."""
    until = one.case.until_ps
    assert until is not None
    handed_over, delivered, start = messages
    number = np.cumsum([bool(message.size_bytes) for message in plan.messages]) - 1
    found = play(plan, lambda k, _: (handed_over[number[k]], delivered[number[k]]))
    assert None not in (*found.begin, *found.end, *found.start)
    assert [
        _seen(found.start[k], until) for k, it in enumerate(plan.messages) if it.size_bytes
    ] == [_seen(time, until) for time in start]
    states, table = engine.task_states(), one.operations
    begun, ended = states.start_ps[table.begin_task], states.end_ps[table.end_task]
    awaited = {first for first, _ in plan.after_start}
    for k, operation in enumerate(plan.operations):
        # A receive starts with its message, unless something waits for its start.
        by_message = operation.what == "receive" and k not in awaited
        begin = found.end[k] if by_message else found.begin[k]
        assert _seen(begin, until) == begun[k], operation
        assert _seen(found.end[k], until) == ended[k], operation


def _messages(one: Job, simulator: Simulator) -> Messages:
    """Return when each message was handed over, delivered and started, over all its segments."""
    n = len(one.case.flows) if one.segments is None else len(one.segments.flows)
    handed_over: list[Time] = [0] * n
    delivered, start = handed_over.copy(), handed_over.copy()
    for f, flow in enumerate(simulator.flows):
        message, segment = f, 0
        if one.segments is not None:
            message, segment = int(one.segments.message[f]), int(one.segments.segment[f])
        if segment < 2:
            there = simulator.tasks.handed_over.get(f, NEVER)
            handed_over[message] = max(handed_over[message], there)
        if segment != 1:
            there = simulator.tasks.delivered.get(f, NEVER)
            delivered[message] = max(delivered[message], there)
        if f == message:
            start[message] = flow.start_ps if flow.start_ps >= 0 else NEVER
    return handed_over, delivered, start


def _seen(time: Time | None, until: int) -> int:
    """Return a time as recorded: -1 if it was not reached."""
    return int(time) if time is not None and time < until else -1


def run_cases(kind: str, seeds: range, *, whole: bool = False) -> Counter[str]:
    """Check cases of a kind; return the number of ended operations by type."""
    found: Counter[str] = Counter()
    for seed in seeds:
        one = relayed_job(seed) if kind == "relays" else job(seed, losses=kind != "no losses")
        if one is None:
            found["refused"] += 1
            continue
        if not whole:
            one = replace(one, case=cut_short(one.case, SHORT))
        found += check(one, way_of(one.case, random.Random(f"way {seed}")))
        found["relayed"] += one.segments is not None
        found["of several transports"] += bool(one.case.beside)
    return found


@pytest.mark.parametrize("first", range(0, CASES["any"], AT_ONCE))
def test_operations_on_random_networks_match_the_reference(first: int) -> None:
    found = run_cases("any", range(first, first + AT_ONCE))
    assert min(found[WHATS.index(what)] for what in WHATS[:4]) > 0


def test_operations_with_relayed_messages_match_the_reference() -> None:
    found = run_cases("relays", range(CASES["relays"]))
    assert found["relayed"] > found["refused"]
    assert found["of several transports"] > 0


def test_lossless_networks_complete_every_operation() -> None:
    """Every flow delivers all its bytes, and every operation ends."""
    for seed in range(CASES["no losses"]):
        one = job(seed, losses=False)
        engine = run(engine_for(one.case, trace=False, jit=False), one.case.until_ps)
        plan, states = plan_of(one.calls), engine.flow_states()
        compare_flows(plan, one)
        assert states.received_bytes.tolist() == [
            it.size_bytes for it in plan.messages if it.size_bytes
        ]
        assert (states.start_ps <= states.done_ps).all()
        assert engine.counts.tasks_done == len(one.case.tasks)
        ends = engine.task_states().end_ps
        assert (ends >= 0).all()
        left = engine.conservation()
        assert left.packets.in_flight == left.packets.dropped == 0


def test_only_deadlocked_ranks_are_rejected() -> None:
    hung = 0
    for seed in range(HANGS):
        rng = random.Random(f"hangs {seed}")
        calls = random_calls(rng, rng.randint(2, 6), KNOWN, seed, hangs=True)
        found = play(plan_of(calls), lambda _, start: (start, start))
        if None not in (*found.end, *found.start):
            noted(calls).lower(range(calls.n_ranks))
            continue
        hung += 1
        with raises_input():
            noted(calls).lower(range(calls.n_ranks))
    assert HANGS // 10 < hung < HANGS // 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("first", range(0, MORE_CASES, AT_ONCE))
def test_operations_of_many_cases_match_the_reference(kind: str, first: int) -> None:
    run_cases(kind, range(first, first + AT_ONCE), whole=True)
