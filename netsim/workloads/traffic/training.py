"""Steps of training: what every GPU of a job computes and sends, from a model of the job.

`job` is a job's file, one that comes with netsim, or a table [traffic.job]; `netsim workload` says
what is computed from it. Each rank of the job is a host. It computes in one stream, and each kind
of communication has a stream of its own, in which it runs in order:

- tp, cp, ep: what ranks of tensor, context and expert parallelism exchange within a layer;
- pp: activations and their gradients, from stage to stage of the pipeline;
- dp, expert_dp, or dp_s1 to dp_s5 where replicas have levels: gradients and weights of replicas;
- embedding: the gradient of an embedding that the first and the last stage share.

What overlaps is what the job's [overlap] says. A large job is simulated in part: the first `stages`
of the pipeline, some `replicas` (or `rack_replicas`, `racks` of a stage and `sites`), the first
`tensor_ranks` of each tensor-parallel group, fewer `micro_batches`. `message_scale` multiplies all
bytes and all times of hosts, and kinds whose `fidelity` is "formula" take as long as the job's
model says and send nothing. `netsim check` and the result's summary say what stands for what, and
what is thereby left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.flows import TrafficContext, Workload
from netsim.memory import require_room
from netsim.network import Network
from netsim.params import REQUIRED, Param
from netsim.workloads.collectives import ALGORITHMS
from netsim.workloads.job.job import Job
from netsim.workloads.job.load import load_job
from netsim.workloads.job.placement import PLACEMENTS, place
from netsim.workloads.operations import CollectiveOptions
from netsim.workloads.operations.table import OperationTable
from netsim.workloads.traffic._collectives import wires_of
from netsim.workloads.traffic._job_files import placement_of, routing_of
from netsim.workloads.training.part import ALWAYS_PACKETS, KINDS, Cut, JobSample, notes_of, part_of
from netsim.workloads.training.routing import Routing, zipf
from netsim.workloads.training.step import operations_of, steps_of

MESSAGE_BYTES = 400
"""What a message of a rank, or what it computes between two, takes while all is made."""

COLLECTIVE_KINDS = tuple(kind for kind in KINDS if kind != ALWAYS_PACKETS)

PARAMS = [
    Param("job", "job", REQUIRED, "what is trained: a file, a name, or [traffic.job]"),
    Param("steps", "count", 1, "steps, one after the other", minimum=1),
    Param(
        "placement",
        "choice",
        "consecutive",
        "which host each rank is",
        choices=(*PLACEMENTS, "file"),
    ),
    Param("placement_file", "file", None, "a CSV file of hosts and ranks, for placement = file"),
    Param("stages", "count", None, "of the pipeline, the first ones; all by default", minimum=1),
    Param("replicas", "count", None, "of the model; all by default", minimum=1),
    Param("rack_replicas", "count", None, "in a rack; all by default", minimum=1),
    Param("racks", "count", None, "of each stage in a site; all by default", minimum=1),
    Param("sites", "count", None, "datacenters; all by default", minimum=1),
    Param("tensor_ranks", "count", None, "of each group, the first ones; or all", minimum=1),
    Param("micro_batches", "count", None, "of a step; the job's by default", minimum=1),
    Param(
        "message_scale",
        "ratio",
        1.0,
        "by which bytes and times of hosts are multiplied",
        minimum=1e-6,
        maximum=1,
    ),
    Param(
        "fidelity",
        "choice",
        "packets",
        "whether messages are sent, or timed by formula",
        choices=("packets", "formula"),
        each=COLLECTIVE_KINDS,
    ),
    Param("classes", "count", 0, "traffic class of messages", each=KINDS),
    Param(
        "algorithm",
        "choice",
        "auto",
        "of collectives",
        choices=("auto", *ALGORITHMS),
        each=COLLECTIVE_KINDS,
    ),
    Param("channels", "count", 1, "of a collective", minimum=1, each=COLLECTIVE_KINDS),
    Param(
        "chunk",
        "bytes",
        None,
        "chunk that is forwarded at a time",
        minimum="1B",
        each=COLLECTIVE_KINDS,
    ),
    Param("buckets", "count", 1, "in which a layer's gradient travels", minimum=1),
    Param(
        "routing",
        "choice",
        "uniform",
        "of tokens to experts",
        choices=("uniform", "zipf", "recorded"),
    ),
    Param("zipf_exponent", "ratio", 1.0, "for routing = zipf: 0 is uniform, more is more skewed"),
    Param("routing_file", "file", None, "a CSV file of tokens, for routing = recorded"),
]


def flows(
    params: Mapping[str, Any], network: Network, rng: np.random.Generator, context: TrafficContext
) -> Workload:
    """The steps of the job, or of the part of it that is simulated."""
    _check_files(params)
    job = _job(params, context)
    part = _part(params, job, context)
    hosts = _hosts(params, part, network, rng, context)
    if network.relays is not None:
        part = replace(part, rack=hosts // network.relays.rack)
    steps = params["steps"]
    n = steps * part.n_messages
    require_room(n * MESSAGE_BYTES, what=f"about {n:,} operations", key="traffic.job")
    if all(one.kind in part.formula for one in part.messages):
        message = "everything is timed by formula, so that there are no packets"
        raise InputError(message, key="traffic.fidelity", hint='"packets" for some kind')
    try:
        ops = operations_of(part, steps)
    except InputError as error:
        raise error.at(key="traffic.algorithm") from None
    sent = {one.kind for one in part.messages} - part.formula
    classes = {kind: params["classes"][kind] for kind in sent}
    load = ops.lower(hosts, classes, network.reduction, wires_of(network, context))
    load = replace(load, notes=(*load.notes, *notes_of(part, steps)))
    return steps_of(part, steps, len(load.part(OperationTable) or ())).add_to(load)


def _check_files(params: Mapping[str, Any]) -> None:
    """A file is given if, and only if, it is wanted."""
    for key, file, word in (
        ("placement", "placement_file", "file"),
        ("routing", "routing_file", "recorded"),
    ):
        wanted, given = params[key] == word, params[file] is not None
        if wanted and not given:
            raise InputError("missing", key=f"traffic.{file}", hint="a .csv file", code="missing")
        if given and not wanted:
            hint = f'{key} = "{word}"'
            raise InputError(f"has no effect with {params[key]}", key=f"traffic.{file}", hint=hint)


def _job(params: Mapping[str, Any], context: TrafficContext) -> Job:
    given = params["job"]
    try:
        return load_job(given, context.directory)
    except InputError as error:
        if isinstance(given, Mapping):
            raise error.under("traffic.job") from None
        raise


def _part(params: Mapping[str, Any], job: Job, context: TrafficContext) -> JobSample:
    cut = Cut(**{name: params[name] for name in Cut.__dataclass_fields__})
    formula = frozenset(kind for kind, how in params["fidelity"].items() if how == "formula")
    how = {
        kind: CollectiveOptions(
            params["algorithm"][kind],
            chunk_bytes=params["chunk"][kind],
            channels=params["channels"][kind],
        )
        for kind in COLLECTIVE_KINDS
    }
    try:
        return part_of(
            job,
            cut,
            scale=params["message_scale"],
            formula=formula,
            how=how,
            buckets=params["buckets"],
            routing=_routing(params, job, context),
        )
    except InputError as error:
        raise (error if error.file else error.under("traffic")) from None


def _routing(params: Mapping[str, Any], job: Job, context: TrafficContext) -> Routing | None:
    if params["routing"] == "uniform":
        return None
    if job.layout.ep < 2:
        raise InputError("the job's experts are not shared", key="routing", hint="ep in its layout")
    if params["fidelity"]["ep"] == "formula":
        message = "the formula of their exchange takes tokens to be spread evenly"
        raise InputError(message, key="routing", hint='fidelity = {ep = "packets"}')
    if job.model.experts % job.layout.ep:
        message = f"{job.model.experts} experts on {job.layout.ep} ranks are not as many on each"
        raise InputError(message, key="routing", hint='"uniform"')
    if params["routing"] == "zipf":
        return zipf(job, params["zipf_exponent"], context.seed)
    return routing_of(job, params["routing_file"], context.directory)


def _hosts(
    params: Mapping[str, Any],
    part: JobSample,
    network: Network,
    rng: np.random.Generator,
    context: TrafficContext,
) -> NDArray[np.int64]:
    if params["placement"] == "file":
        file = params["placement_file"]
        return placement_of(part.ranks, file, context.directory, network.n_hosts)
    # Without racks in the network, what the part has of the GPUs of one.
    here, there = part.ranks, part.job.layout
    rack_hosts = part.job.machine.domain_gpus * here.tp // there.tp
    if here.levels is not None and there.dp_levels is not None:
        rack_hosts = max(1, rack_hosts * here.levels[0] // there.dp_levels[0])
    if network.relays is not None:
        rack_hosts = network.relays.rack
    try:
        return place(params["placement"], part.ranks, rack_hosts, network.n_hosts, rng)
    except InputError as error:
        raise error.at(key="traffic.placement") from None
