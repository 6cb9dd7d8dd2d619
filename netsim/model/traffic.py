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
from netsim.model.workload import Workload, WorkloadPart
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
    """Return the workload delayed by `start`, and its flows that start at a time by a part of
    `start_jitter`."""
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
    """A job in a workload: its hosts in the order of its ranks, its start, its flows (int64: which
    of the workload's), and the tasks that complete its own."""

    name: str
    hosts: Ints
    start_ps: int
    first_flow: int
    n_flows: int
    tasks: Ints


@frozen(eq=False)
class Jobs(WorkloadPart):
    """The jobs of a workload."""

    jobs: tuple[Job, ...]

    def moved(self, first_flow: int, first_task: int) -> Jobs:
        return self._each(
            lambda job: {
                "first_flow": job.first_flow + first_flow,
                "tasks": job.tasks + first_task,
            }
        )

    def at_hosts(self, hosts: Ints) -> Jobs:
        return self._each(lambda job: {"hosts": hosts[job.hosts]})

    def delayed(self, start_ps: int) -> Jobs:
        return self._each(lambda job: {"start_ps": job.start_ps + start_ps})

    def with_last_tasks(self, last: Ints) -> Jobs:
        return self._each(lambda job: {"tasks": last[job.tasks]})

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
) -> dict[str, Ints]:
    """Return the hosts of each job, int64[n], by name: those that a list names, or a number of
    them among the hosts that no list names.

    packed: in order; interleaved: in turn, so that each job is spread over the hosts of all;
    strided: in order of the place in the rack, then of the rack; random. Whole racks are placed if
    peers relay messages. Raises InputError, with keys below that of the jobs, if they do not fit.
    """
    n_hosts, found = network.n_hosts, {}
    free = np.ones(n_hosts, bool)
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


def jobs_workload(
    uses: Mapping[str, PluginSpec],
    hosts: Mapping[str, Ints],
    network: Network,
    context: TrafficContext,
    streams: Mapping[str, int],
) -> Workload:
    """Return the traffic of jobs, each on its hosts, with random numbers of its own. Raises
    InputError with keys of their tables, for programs too."""
    loads = []
    for name, use in uses.items():
        own = hosts[name]
        try:
            part = network.of_hosts(own)
            load = workload_of(use, part, context, TRAFFIC_STREAM + streams[name], f"{JOBS}{name}")
        except InputError as error:
            raise CombinedInputError(
                one if one.file else one.replace(key=_key(one, name)) for one in error.errors
            ) from None
        if load.program is not None:
            message = f"{use.name} is a program, which runs on all hosts"
            hint = "[flow_classes.NAME] with this traffic, beside jobs"
            raise InputError(message, key=f"{JOBS}{name}.kind", hint=hint)
        n_units = 0 if part.reduction is None else part.reduction.network.n_hosts - own.size
        everywhere = np.concatenate([own, network.n_hosts + np.arange(n_units)])
        load = load.at_hosts(everywhere)
        tasks = np.arange(len(load.tasks or ()))
        job = Job(name, own, use.params["start"], 0, len(load.flows), tasks)
        loads.append(
            replace(
                load,
                parts=(*load.parts, Jobs((job,))),
                notes=tuple(f"{name}: {note}" for note in load.notes),
            )
        )
    return Workload.join(loads)


def _key(error: InputError, job: str) -> str:
    """Return the key of an error in a job: patterns name their own table "traffic"."""
    key = error.key or ""
    return key if key.startswith(JOBS) else f"{JOBS}{job}{key.removeprefix('traffic')}"
