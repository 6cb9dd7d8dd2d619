"""Chakra execution traces (MLCommons), a file `PREFIX.RANK.et` for each rank.

A node starts as all that it depends on, by data or control, is done. COMP takes as long as the
trace says, or with `tflops` as its operations do, or its bytes at `memory`; what has no duration
takes no time. COMM_SEND and COMM_RECV are messages, matched by source, destination and tag;
COMM_COLL are collectives, packet by packet, matched by their order within a process group. Groups
are those of `groups`, or of METADATA nodes; "", "0" and none are all ranks. comm_size is, as
ASTRA-sim has it, of an all-gather (and a gather) one rank's shard, else the whole.

With `at_once = "one_each"` a rank runs one node on its CPU, one that computes on its GPU and one
that communicates there at a time, as ASTRA-sim does; receives do not count. They run in the order
in which they could start if none kept another waiting; ASTRA-sim takes whichever is ready first.
With "all" they run as soon as they may.

Ranks that do not issue the same collectives in the same order, sends without receives, nodes that
are not there: all are errors before the run.

With `system`, ASTRA-sim's JSON, collectives have its algorithms, are cut into as many `channels` as
it has chunks (preferred-dataset-splits), and wait its endpoint-delay before each message; where it
has a roofline, peak-perf and local-mem-bw are `tflops` and `memory`. What the experiment says
itself counts more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from netsim.errors import InputError
from netsim.flows import TrafficContext, Workload
from netsim.inputs import user_path
from netsim.network import Network
from netsim.params import REQUIRED, Param
from netsim.units import written
from netsim.workloads.importers.astra import System, read_system
from netsim.workloads.importers.chakra import SUFFIX, read_trace, trace_files
from netsim.workloads.importers.chakra_groups import groups_of, read_groups
from netsim.workloads.operations import CollectiveOptions
from netsim.workloads.traffic._chakra_nodes import WHATS, nodes_of
from netsim.workloads.traffic._chakra_operations import ChakraOperations, ComputeRates
from netsim.workloads.traffic._collectives import PARAMS as OF_COLLECTIVES
from netsim.workloads.traffic._collectives import how_of, wires_of
from netsim.workloads.traffic._ranks import PARAMS as OF_RANKS
from netsim.workloads.traffic._ranks import hosts_of

ONE_EACH, ALL = AT_ONCE = ("one_each", "all")

PARAMS = [
    Param("file", "file", REQUIRED, "the prefix of the traces, what stands before .0.et"),
    Param("groups", "file", None, "process groups, a file of JSON, if traces do not have them"),
    Param(
        "concurrency", "choice", ONE_EACH, "how many nodes a rank runs at a time", choices=AT_ONCE
    ),
    Param(
        "tflops",
        "ratio",
        None,
        "10^12 operations per second of a rank; nodes with num_ops then last as these take",
    ),
    Param("memory", "rate", None, "of a rank's memory, for what moves more than it computes"),
    Param("system", "file", None, "a system of ASTRA-sim, which says what is not said here"),
    *OF_COLLECTIVES,
    *OF_RANKS,
]


def reads(params: Mapping[str, Any], directory: Path) -> list[Path]:
    """The files that are read, beside those that parameters name."""
    return trace_files(_prefix(params, directory))


def flows(
    params: Mapping[str, Any], network: Network, rng: np.random.Generator, context: TrafficContext
) -> Workload:
    """The nodes of all traces."""
    prefix = _prefix(params, context.directory)
    traces = [read_trace(path) for path in trace_files(prefix)]
    context.reserve(sum(map(len, traces)), key="traffic.file")
    hosts = hosts_of(params, len(traces), network.n_hosts, context.directory, rng)
    system = None
    if params["system"] is not None:
        system = read_system(user_path(params["system"], context.directory))
    machine = _machine(params, system, context)
    try:
        known = groups_of((one for trace in traces for one in trace.tables), len(traces))
        if params["groups"] is not None:
            path = user_path(params["groups"], context.directory)
            known |= read_groups(path, len(traces))
        nodes = nodes_of(traces, known)
        hows = {one: _how(params, one, system) for one in WHATS.values()}
        load = ChakraOperations(nodes, machine, hows).lower(hosts, wires_of(network, context))
    except InputError as error:
        raise error.at(file=str(prefix)) from None
    return load if system is None else replace(load, notes=(*load.notes, *_notes(params, system)))


def _how(params: Mapping[str, Any], what: str, system: System | None) -> CollectiveOptions:
    """How a collective is done: as the experiment says, or else as the system does."""
    how = how_of(params, what)
    if system is None:
        return how
    own = how.algorithm != "auto"
    return replace(
        how,
        algorithm=how.algorithm if own else system.algorithms.get(what, "auto"),
        channels=system.channels if how.channels == 1 else how.channels,
        latency_ps=how.latency_ps or system.latency_ps,
    )


def _notes(params: Mapping[str, Any], system: System) -> Iterator[str]:
    """What of a system is not as in ASTRA-sim."""
    name = written(Path(params["system"]).name)
    if system.unread:
        yield f"{name}: {', '.join(system.unread)} are read past"
    if system.channels > 1:
        yield f"{name}: a collective is cut into {system.channels} chunks that all go at once"


def _machine(
    params: Mapping[str, Any], system: System | None, context: TrafficContext
) -> ComputeRates:
    if params["tflops"] is None and system is not None and system.tflops is not None:
        params = {**params, "tflops": system.tflops, "memory": system.memory_bps}
    if params["memory"] is not None and params["tflops"] is None:
        hint = "how many operations a rank does in a second"
        raise InputError("needs traffic.tflops", key="traffic.memory", hint=hint)
    if params["tflops"] is not None and params["tflops"] <= 0:
        raise InputError("must be positive", key="traffic.tflops", code="out_of_range")
    return ComputeRates(
        one_at_a_time=params["concurrency"] == ONE_EACH,
        flops=None if params["tflops"] is None else params["tflops"] * 1e12,
        memory_bps=params["memory"],
        rate_bps=context.host_rate_bps,
    )


def _prefix(params: Mapping[str, Any], directory: Path) -> Path:
    return user_path(params["file"].removesuffix(SUFFIX), directory)
