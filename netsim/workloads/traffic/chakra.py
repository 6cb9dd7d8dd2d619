"""Chakra execution traces (MLCommons): one file `PREFIX.RANK.et` per rank.

A node starts when its data and control dependencies are done. COMP takes the time in the trace, or
with `tflops` the time of its operations, or of its bytes at `memory`; nodes without a duration take
no time. COMM_SEND and COMM_RECV are messages, matched by source, destination and tag; COMM_COLL are
collectives, simulated in packets and matched by their order within a process group. Groups come
from `groups` or METADATA nodes; "", "0" and none mean all ranks. As in ASTRA-sim, comm_size is one
rank's shard of an all-gather or gather, otherwise the whole.

With `concurrency = "one_each"` a rank's CPU, GPU and network each run one node at a time, as in
ASTRA-sim, except receives. They run in the order of their earliest start without contention;
ASTRA-sim takes whichever is ready first. With "all" nodes run as soon as they are ready.

Ranks that differ in the order of their collectives, sends without receives, and missing nodes are
errors before the run.

With `system`, ASTRA-sim's JSON, collectives use its algorithms, have as many `channels` as it has
chunks (preferred-dataset-splits), and wait its endpoint-delay before each message; with a roofline,
peak-perf and local-mem-bw are `tflops` and `memory`. The experiment's own values take precedence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from netsim.common.inputs import user_path
from netsim.errors import InputError
from netsim.flows import TrafficContext, Workload
from netsim.network import Network
from netsim.params import REQUIRED, Param
from netsim.units import written
from netsim.workloads.importers.astra import System, read_system
from netsim.workloads.importers.chakra import SUFFIX, read_trace, trace_files
from netsim.workloads.importers.chakra_groups import groups_of, read_groups
from netsim.workloads.operations import CollectiveOptions
from netsim.workloads.traffic._chakra_operations import (
    WHATS,
    ChakraOperations,
    ComputeRates,
    nodes_of,
)
from netsim.workloads.traffic._collectives import PARAMS as OF_COLLECTIVES
from netsim.workloads.traffic._collectives import how_of, wires_of
from netsim.workloads.traffic._placement import PARAMS as OF_RANKS
from netsim.workloads.traffic._placement import hosts_of

ONE_EACH, ALL = AT_ONCE = ("one_each", "all")

PARAMS = [
    Param("file", "file", REQUIRED, "prefix of the traces, the part before .0.et"),
    Param("groups", "file", None, "JSON file of process groups, if traces lack them"),
    Param("concurrency", "choice", ONE_EACH, "concurrent nodes of a rank", choices=AT_ONCE),
    Param("tflops", "ratio", None, "10^12 operations/s of a rank, for nodes with num_ops"),
    Param("memory", "rate", None, "memory bandwidth of a rank, for memory-bound nodes"),
    Param("system", "file", None, "ASTRA-sim system file, with defaults"),
    *OF_COLLECTIVES,
    *OF_RANKS,
]


def reads(params: Mapping[str, Any], directory: Path) -> list[Path]:
    """Return the trace files, which no parameter names."""
    return trace_files(_prefix(params, directory))


def flows(
    params: Mapping[str, Any], network: Network, rng: np.random.Generator, context: TrafficContext
) -> Workload:
    prefix = _prefix(params, context.directory)
    traces = [read_trace(path) for path in trace_files(prefix)]
    context.reserve(sum(map(len, traces)), key="traffic.file")
    hosts = hosts_of(params, len(traces), network.n_hosts, context.directory, rng)
    system = None
    if params["system"] is not None:
        system = read_system(user_path(params["system"], context.directory))
    rates = _compute_rates(params, system, context)
    try:
        known = groups_of((one for trace in traces for one in trace.tables), len(traces))
        if params["groups"] is not None:
            path = user_path(params["groups"], context.directory)
            known |= read_groups(path, len(traces))
        nodes = nodes_of(traces, known)
        hows = {one: _how(params, one, system) for one in WHATS.values()}
        load = ChakraOperations(nodes, rates, hows).lower(hosts, wires_of(network, context))
    except InputError as error:
        raise error.at(file=str(prefix)) from None
    return load if system is None else replace(load, notes=(*load.notes, *_notes(params, system)))


def _how(params: Mapping[str, Any], what: str, system: System | None) -> CollectiveOptions:
    """Return collective options: the experiment's, or else the system's."""
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
    """Yield notes on deviations from ASTRA-sim."""
    name = written(Path(params["system"]).name)
    if system.unread:
        yield f"{name}: {', '.join(system.unread)} are read past"
    if system.channels > 1:
        yield f"{name}: a collective is cut into {system.channels} chunks that all go at once"


def _compute_rates(
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
