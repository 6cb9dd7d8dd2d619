"""Traffic patterns called and checked, and several of them as jobs on hosts of one network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from netsim.errors import CombinedInputError, InputError
from netsim.frozen import frozen
from netsim.model import checks
from netsim.model.arithmetic import PURPOSE_START
from netsim.model.columns import Flags, Ints, first_of, numbers_of
from netsim.model.flows import FlowTable, TrafficContext
from netsim.model.network import Network
from netsim.model.workload import (
    COMPUTE,
    JOIN,
    RECEIVE,
    SEND,
    START,
    TaskTable,
    Workload,
    WorkloadPart,
    join_tasks,
)
from netsim.plugins.registry import PluginSpec, call
from netsim.units import shortened

T = TypeVar("T")

JOBS = "traffic.jobs."  # what the keys of jobs begin with

TRAFFIC_STREAM = 0x7261  # separates the random numbers of traffic from other uses of the seed


def traffic_rng(seed: int, stream: int = TRAFFIC_STREAM, *purpose: int) -> np.random.Generator:
    """Return the random numbers of a traffic pattern."""
    return np.random.Generator(np.random.Philox([seed, stream, *purpose]))


def workload_of(
    traffic: PluginSpec, network: Network, context: TrafficContext, stream: int, key: str
) -> Workload:
    """Return the checked workload of a traffic pattern, whose table in the experiment is `key`."""
    rng = traffic_rng(context.seed, stream)
    kinds: tuple[type[Any], ...] = FlowTable, Workload
    made = _call_checked(traffic, "flows", kinds, traffic.params, network, rng, context)
    load = made if isinstance(made, Workload) else Workload(made)
    name = key.removeprefix("flow_classes.").removesuffix(".traffic").removeprefix(JOBS)
    load = replace(load, parts=tuple(part.named(name) for part in load.parts))
    load = load.with_program(traffic, network.n_hosts)
    units = network.reduction
    load.validate(network.n_hosts if units is None else units.network.n_hosts)
    load = _delayed(load, traffic.params, traffic_rng(context.seed, stream, PURPOSE_START), key)
    assert context.n_traffic_classes is not None
    checks.check_classes(load.flows, context.n_traffic_classes, key)
    return load


def _delayed(
    load: Workload, params: Mapping[str, Any], rng: np.random.Generator, key: str
) -> Workload:
    """Return the workload delayed by `start`; flows with a start time are delayed by a part of
    `start_jitter` in addition."""
    start_ps, jitter_ps = params["start"], params["start_jitter"]
    for name, given in (("start", load.program and start_ps), ("start_jitter", jitter_ps)):
        if given and (load.tasks is not None or load.program is not None):
            message = "its flows start when a task or the program says so"
            raise InputError(message, key=f"{key}.{name}", hint="remove it", code="no_effect")
    if jitter_ps:
        flows = load.flows
        drawn_ps = rng.integers(0, jitter_ps, len(flows))
        flows.start_ps = flows.start_ps + flows.starts_at_time() * drawn_ps
    return load.delayed(start_ps)


def _call_checked(use: PluginSpec, function: str, kinds: tuple[type[T], ...], *args: Any) -> T:
    """Return the result of a plugin's function; InputError with its file if it has another type."""
    made = call(use, function, *args)
    if not isinstance(made, kinds):
        message = f"{function}() returned {shortened(repr(made))}"
        wanted = " or a ".join(kind.__name__ for kind in kinds)
        raise InputError(message, file=str(use.plugin.path), hint=f"it must return a {wanted}")
    return made


# --- jobs -----------------------------------------------------------------------------------------


@frozen(eq=False)
class Job:
    """A job in a workload: its hosts in the order of its ranks, its start, its flows (int64,
    numbers in the workload), and the tasks that complete its own tasks. A job of a list arrives at
    `start_ps` and starts when its `start_task` ends; other jobs have none (-1)."""

    name: str
    hosts: Ints
    start_ps: int
    first_flow: int
    n_flows: int
    tasks: Ints
    start_task: int = -1


@frozen(eq=False)
class Jobs(WorkloadPart):
    """The jobs of a workload."""

    jobs: tuple[Job, ...]

    def moved(self, first_flow: int, first_task: int) -> Jobs:
        return self._each(
            lambda job: {
                "first_flow": job.first_flow + first_flow,
                "tasks": job.tasks + first_task,
                "start_task": job.start_task + first_task if job.start_task >= 0 else -1,
            }
        )

    def at_hosts(self, hosts: Ints) -> Jobs:
        return self._each(lambda job: {"hosts": hosts[job.hosts]})

    def delayed(self, start_ps: int) -> Jobs:
        return self._each(lambda job: {"start_ps": job.start_ps + start_ps})

    def with_last_tasks(self, last: Ints) -> Jobs:
        return self._each(
            lambda job: {
                "tasks": last[job.tasks],
                "start_task": int(last[job.start_task]) if job.start_task >= 0 else -1,
            }
        )

    @classmethod
    def join(cls, parts: Sequence[Jobs]) -> Jobs:
        return Jobs(tuple(job for part in parts for job in part.jobs))

    def _each(self, changes: Any) -> Jobs:
        return Jobs(tuple(replace(job, **changes(job)) for job in self.jobs))


PLACEMENTS = ("packed", "interleaved", "strided", "random")


def place_jobs(
    wanted: Mapping[str, int | Sequence[int | str]],
    placement: str,
    network: Network,
    rng: np.random.Generator,
    free: Flags | None = None,
) -> dict[str, Ints]:
    """Return the hosts of each job, int64[n], by name: the hosts that a list names, or a number of
    `free` hosts (default: all) that no list names.

    packed: in order; interleaved: hosts alternate among jobs, so that each job is spread over the
    hosts of all; strided: ordered by place in the rack, then by rack; random. Whole racks are
    placed if peers relay messages. Raises InputError, with keys below the jobs' key, if they do not
    fit.
    """
    n_hosts, found = network.n_hosts, {}
    free = np.ones(n_hosts, bool) if free is None else free.copy()
    for name, given in wanted.items():
        if isinstance(given, int):
            continue
        try:
            found[name] = numbers_of(given, n_hosts, "hosts")
        except InputError as error:
            raise error.at(key=f"{name}.hosts") from None
        ordered = np.sort(found[name])
        for k in first_of(ordered[1:] == ordered[:-1]):
            message = f"duplicate host {ordered[k]}"
            raise InputError(message, key=f"{name}.hosts", code="duplicate")
        free[found[name]] = False
    block = 1 if network.relays is None else network.relays.rack
    counts = {name: given for name, given in wanted.items() if isinstance(given, int)}
    for name, count in counts.items():
        if count % block:
            message = f"{count} hosts are not whole racks of {block}, whose peers relay messages"
            raise InputError(message, key=f"{name}.hosts", hint=f"a multiple of {block}")
    blocks = _ordered(_free_blocks(free, block), placement, network, block, rng)
    sizes = np.array([count // block for count in counts.values()], np.int64)
    if sizes.sum() > blocks.size:
        message = f"{' + '.join(map(str, counts.values()))} hosts are too many"
        raise InputError(message, key=f"{[*counts][-1]}.hosts", hint=f"{blocks.size * block} free")
    job = np.repeat(np.arange(sizes.size), sizes)
    if placement == "interleaved":
        turn = np.concatenate([(np.arange(size) + 0.5) / size for size in sizes.tolist()] or [[]])
        job = job[np.argsort(turn, kind="stable")]
    for k, name in enumerate(counts):
        own = blocks[: job.size][job == k]
        found[name] = (own[:, None] * block + np.arange(block)).reshape(-1)
    return {name: found[name] for name in wanted}


def _free_blocks(free: Flags, block: int) -> Ints:
    return np.flatnonzero(free[: free.size // block * block].reshape(-1, block).all(axis=1))


def _ordered(
    blocks: Ints, placement: str, network: Network, block: int, rng: np.random.Generator
) -> Ints:
    """Return free blocks of hosts in the order in which jobs take them."""
    if placement == "random":
        return rng.permutation(blocks)
    if placement != "strided":
        return blocks
    port = network.node_first_port[: network.n_hosts]
    rack = network.first_group[network.port_network[port]] + network.port_group[port]
    order = np.argsort(rack, kind="stable")
    place = np.empty(rack.size, np.int64)
    place[order] = np.arange(rack.size) - np.searchsorted(rack[order], rack[order])
    first = blocks * block
    return blocks[np.lexsort((rack[first], place[first]))]


@frozen
class Arrival:
    """A job of a list of arrivals: its work, arrival time, size and estimated duration."""

    work: str
    arrival_ps: int
    n_hosts: int
    estimate_ps: int
    placement: str


@frozen(eq=False)
class Queue:
    """Jobs of a list by name, in order of arrival, with their hosts and the jobs that must end
    before each starts, since they had its hosts."""

    arrivals: Mapping[str, Arrival]
    hosts: Mapping[str, Ints]
    waits: Mapping[str, Sequence[str]]


def queue_jobs(
    arrivals: Mapping[str, Arrival], network: Network, rng: np.random.Generator
) -> Queue:
    """Plan which hosts jobs get, first come, first served: free hosts, or the hosts that become
    free first according to the estimates. Raises the same InputErrors as `place_jobs`."""
    block = 1 if network.relays is None else network.relays.rack
    names = np.array([*arrivals])
    free_ps, last = np.zeros(network.n_hosts, np.int64), np.full(network.n_hosts, -1)
    hosts: dict[str, Ints] = {}
    waits: dict[str, Sequence[str]] = {}
    begin_ps = 0
    for number, (name, job) in enumerate(arrivals.items()):
        ends_ps = np.sort(free_ps[: free_ps.size // block * block].reshape(-1, block).max(axis=1))
        enough_ps = int(ends_ps[min(job.n_hosts // block, ends_ps.size) - 1])
        begin_ps = max(begin_ps, job.arrival_ps, enough_ps)
        wanted, free = {name: job.n_hosts}, free_ps <= begin_ps
        own = hosts[name] = place_jobs(wanted, job.placement, network, rng, free)[name]
        before = np.unique(last[own])
        waits[name] = names[before[before >= 0]].tolist()
        free_ps[own], last[own] = begin_ps + job.estimate_ps, number
    return Queue(arrivals, hosts, waits)


LAUNCH_BYTES = 1000
LAUNCH = "launch"  # kind of the messages that start jobs of a list


class _Launches:
    """The tasks and messages by which hosts start the jobs of a list."""

    def __init__(self, load: Workload) -> None:
        assert load.tasks is not None
        self._load, self._tasks = load, load.tasks
        self._rows: list[tuple[int, ...]] = []
        self._edges: list[tuple[int, int]] = []
        self._ends: list[tuple[int, int]] = []

    def task(
        self,
        kind: int,
        host: int,
        after: Sequence[int],
        ps: int = 0,
        stream: int = 0,
        flow: int = -1,
    ) -> int:
        """Add a task of a host that waits for other tasks of that host; return its number."""
        number = len(self._tasks) + len(self._rows)
        self._rows.append((kind, host, ps, stream, flow))
        self._edges += [(task, number) for task in after]
        return number

    def told(self, host: int, after: Sequence[int], to: int) -> int:
        """Return the task of host `to` that ends when it learns that tasks of `host` have ended."""
        if host == to:
            return self.task(JOIN, host, after)
        flow = len(self._ends)
        self._ends.append((host, to))
        self.task(SEND, host, after, 0, 0, flow)
        return self.task(RECEIVE, to, [], 0, 0, flow)

    def wait(self, task: int, before: int) -> None:
        self._edges.append((before, task))

    def workload(self) -> Workload:
        """Return the workload with these tasks and messages."""
        kind, host, ps, stream, flow = np.array(self._rows, np.int64).T
        label = [START if one == COMPUTE else "" for one in kind.tolist()]
        new = TaskTable(kind, host, ps, stream=stream, flow=flow, label=label)
        tasks = join_tasks([(self._tasks, 0), (new, len(self._load.flows))])
        edges = zip(tasks.edges(), np.array(self._edges, np.int64).T, strict=True)
        tasks.wait_for_pairs(*(np.concatenate(pair) for pair in edges))
        flows = self._load.flows
        if self._ends:
            src, dst = np.array(self._ends).T
            messages = FlowTable(src, dst, LAUNCH_BYTES)
            messages.use_kinds(np.zeros(len(self._ends), np.int16), (LAUNCH,))
            flows = FlowTable.join([flows, messages])
        return replace(self._load, flows=flows, tasks=tasks)


def _launched(load: Workload, waits: Mapping[str, Sequence[str]]) -> Workload:
    """Return jobs of a list with the tasks that start them.

    The first host of a job starts it by a message to each of its other hosts. It waits until the
    job has arrived, and until the first host of each job that had these hosts reports that job's
    end, which it knows when all hosts of that job have reported theirs.
    """
    jobs, tasks = load.part(Jobs), load.tasks
    assert jobs is not None
    assert tasks is not None
    launches, (first, last) = _Launches(load), tasks.first_and_last()
    awaited = {before for names in waits.values() for before in names}
    ends: dict[str, tuple[int, int]] = {}
    made = []
    for number, job in enumerate(jobs.jobs):
        head = int(job.hosts[0])
        came = launches.task(COMPUTE, head, [], job.start_ps, number)
        told = [
            launches.told(ends[name][0], [ends[name][1]], head)
            for name in waits[job.name]
            if name in ends
        ]
        start = launches.task(JOIN, head, [came, *told])
        go = {host: launches.told(head, [start], host) for host in job.hosts.tolist()}
        own = job.tasks[np.isin(tasks.host[job.tasks], job.hosts)]  # not reduction units' tasks
        for task in own[first[own]].tolist():
            launches.wait(task, go[int(tasks.host[task])])
        if job.name in awaited:
            done: dict[int, list[int]] = {host: [task] for host, task in go.items()}
            for task in own[last[own]].tolist():
                done[int(tasks.host[task])].append(task)
            ended = [launches.told(host, its, head) for host, its in done.items()]
            ends[job.name] = head, launches.task(JOIN, head, ended)
        made.append(replace(job, start_task=start))
    return launches.workload().with_part(Jobs(tuple(made)))


def jobs_workload(
    uses: Mapping[str, PluginSpec],
    hosts: Mapping[str, Ints],
    network: Network,
    context: TrafficContext,
    streams: Mapping[str, int],
    queue: Queue | None = None,
) -> Workload:
    """Return the traffic of jobs. Each job has its own hosts and random numbers.

    Jobs of a `queue` start when their hosts are free. Raises InputError, naming the key of a job's
    table, for errors in a job or a program in a queue."""
    loads = []
    for name, use in uses.items():
        own, table = hosts[name], name if queue is None else queue.arrivals[name].work
        try:
            part = network.of_hosts(own)
            load = workload_of(use, part, context, TRAFFIC_STREAM + streams[name], f"{JOBS}{name}")
        except InputError as error:
            raise CombinedInputError(
                one if one.file else one.replace(key=_key(one, name, table)) for one in error.errors
            ) from None
        if load.program is not None and queue is not None:
            message = f"{use.name} is a program, which starts at 0"
            raise InputError(message, key=f"{JOBS}{table}.kind", hint="a job without arrivals")
        n_units = 0 if part.reduction is None else part.reduction.network.n_hosts - own.size
        everywhere = np.concatenate([own, network.n_hosts + np.arange(n_units)])
        load = load.at_hosts(everywhere, network.n_hosts)
        start_ps = use.params["start"]
        if queue is not None:
            start_ps = queue.arrivals[name].arrival_ps
            load = load.with_all_tasks()
            load = replace(load, parts=tuple(part.queued() for part in load.parts))
        tasks = np.arange(len(load.tasks or ()))
        job = Job(name, own, start_ps, 0, len(load.flows), tasks)
        loads.append(
            replace(
                load,
                parts=(*load.parts, Jobs((job,))),
                notes=tuple(f"{name}: {note}" for note in load.notes),
            )
        )
    joined = Workload.join(loads)
    return joined if queue is None else _launched(joined, queue.waits)


def _key(error: InputError, job: str, table: str) -> str:
    """Return the key, in a job's table, of an error in its work: patterns call their table
    "traffic"."""
    key = (error.key or "").removeprefix(f"{JOBS}{job}").removeprefix("traffic")
    return f"{JOBS}{table}{key}"
