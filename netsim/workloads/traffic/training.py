"""Steps of training: the compute and messages of every GPU, from a model of the job.

`job` is a job's file, a preset, or a table [traffic.job]; `netsim workload show` prints what is
computed from it. Each rank of the job is a host. It computes in one stream, and each kind of
communication has its own stream, which runs in order:

- tp, cp, ep: exchanges of tensor, context and expert parallelism within a layer;
- pp: activations and their gradients between pipeline stages;
- dp, expert_dp, or dp_s1 to dp_s5 with data-parallel levels: gradients and weights of replicas;
- embedding: the gradient of an embedding that the first and the last stage share.

The job's [overlap] says what overlaps. A large job is sampled: the first `stages` of the pipeline,
some `replicas` (or `rack_replicas`, `racks` per stage and `sites`), the first `tensor_ranks` of
each tensor-parallel group, fewer `micro_batches`. `message_scale` scales all bytes and host times.
Kinds with `fidelity = "formula"` take the time of the job's model and send nothing. `netsim check`
and the summary describe the sample and what it omits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from netsim.common.memory import require_room
from netsim.errors import InputError, errors_at
from netsim.flows import Rng, TrafficContext, Workload
from netsim.model.columns import Ints
from netsim.network import Network
from netsim.params import REQUIRED, Param, Params
from netsim.workloads.job.job import Job
from netsim.workloads.job.load import load_job
from netsim.workloads.job.messages import PLACEMENTS, place
from netsim.workloads.operations import CollectiveOptions
from netsim.workloads.operations.table import OperationTable
from netsim.workloads.serving.plan import check_used
from netsim.workloads.traffic._options import params_of, placement_of, routing_of, wires_of
from netsim.workloads.training.forecast import at_network_rates, forecast, proposal
from netsim.workloads.training.sample import (
    ALWAYS_PACKETS,
    KINDS,
    SIZES,
    JobSample,
    Routing,
    sample_job,
    sample_notes,
    zipf,
)
from netsim.workloads.training.step import operations_of, steps_of

MESSAGE_BYTES = 400  # estimated memory of one operation while the traffic is built

COLLECTIVE_KINDS = tuple(kind for kind in KINDS if kind != ALWAYS_PACKETS)

ROUTINGS = ("uniform", "zipf", "recorded")

PARAMS = [
    Param("job", "job", REQUIRED, "job: a file, a preset, or [traffic.job]"),
    Param("steps", "count", 1, "steps in sequence", minimum=1),
    Param("placement", "choice", "consecutive", "placement of ranks on hosts",
          choices=(*PLACEMENTS, "file")),
    Param("placement_file", "file", None, "CSV file of hosts and ranks, for placement = file"),
    Param("stages", "count", None, "simulated stages, the first ones; default: all", minimum=1),
    Param("replicas", "count", None, "simulated replicas; default: all", minimum=1),
    Param("rack_replicas", "count", None, "simulated replicas per rack; default: all", minimum=1),
    Param("racks", "count", None, "simulated racks per stage and site; default: all", minimum=1),
    Param("sites", "count", None, "simulated datacenters; default: all", minimum=1),
    Param("tensor_ranks", "count", None, "simulated ranks per tp group; default: all", minimum=1),
    Param("micro_batches", "count", None, "simulated micro-batches; default: all", minimum=1),
    Param("message_scale", "ratio", 1.0, "factor of bytes and host times", minimum=1e-6, maximum=1),
    Param("allow_scaled_faults", "bool", False, "run faults although their times are not scaled"),
    Param("fidelity", "choice", "packets", "whether messages are simulated or timed by formula",
          choices=("packets", "formula"), each=COLLECTIVE_KINDS),
    Param("classes", "count", 0, "traffic class of messages", each=KINDS),
    *params_of(COLLECTIVE_KINDS),
    Param("buckets", "count", 1, "buckets of each layer's gradient", minimum=1),
    Param("routing", "choice", "uniform", "routing of tokens to experts", choices=ROUTINGS),
    Param("zipf_exponent", "ratio", 1.0, "skew, for routing = zipf; 0 is uniform"),
    Param("routing_file", "file", None, "CSV file of tokens, for routing = recorded"),
]  # fmt: skip


def flows(params: Params, network: Network, rng: Rng, context: TrafficContext) -> Workload:
    uses = {
        "placement_file": (params["placement"] == "file", 'placement = "file"'),
        "routing_file": (params["routing"] == "recorded", 'routing = "recorded"'),
    }
    check_used(params, uses)
    if context.has_faults and params["message_scale"] < 1 and not params["allow_scaled_faults"]:
        message = "conflicts with [faults]: times of faults, timeouts and timers of transports are "
        message += "not scaled, so in this step a fault weighs "
        message += f"{1 / params['message_scale']:,.4g} times as much as in the job's"
        hint = "message_scale = 1, with fewer replicas or micro_batches; or "
        hint += "allow_scaled_faults = true to run it anyway"
        raise InputError(message, key="traffic.message_scale", hint=hint, code="conflict")
    job = _job(params, context)
    sample = _sample(params, job, context)
    hosts = _hosts(params, sample, network, rng, context)
    if network.relays is not None:
        sample = replace(sample, rack=hosts // network.relays.rack)
    wires = wires_of(network, context)
    # Times by formula are for the rate of the simulated network.
    timed = {one.network for one in sample.messages if one.kind in sample.formula}
    sample = replace(sample, job=at_network_rates(sample, hosts, wires, timed))
    steps = params["steps"]
    n = steps * sample.n_messages
    require_room(n * MESSAGE_BYTES, what=f"about {n:,} operations", key="traffic.job")
    if all(one.kind in sample.formula for one in sample.messages):
        message = "must be packets for at least one kind of message"
        raise InputError(message, key="traffic.fidelity")
    with errors_at(key="traffic.algorithm"):
        ops = operations_of(sample, steps)
    sent = {one.kind for one in sample.messages} - sample.formula
    classes = {kind: params["classes"][kind] for kind in sent}
    load = ops.lower(hosts, classes, network.reduction, wires)
    load = replace(load, notes=(*load.notes, *sample_notes(sample, steps)))
    found = steps_of(sample, steps, len(load.part(OperationTable) or ()))
    found = replace(found, advice=partial(proposal, sample, hosts, wires))
    if not sample.is_whole and not context.has_faults:  # one fault is not one per micro-batch
        found = replace(found, forecast=partial(forecast, sample, steps))
    return found.add_to(load)


def _job(params: Params, context: TrafficContext) -> Job:
    given = params["job"]
    try:
        return load_job(given, context.directory)
    except InputError as error:
        if isinstance(given, Mapping):
            raise error.under("traffic.job") from None
        raise error if error.file else error.at(key="traffic.job") from None


def _sample(params: Params, job: Job, context: TrafficContext) -> JobSample:
    size = {name: params[name] for name in SIZES}
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
        return sample_job(
            job,
            size,
            scale=params["message_scale"],
            formula=formula,
            how=how,
            buckets=params["buckets"],
            routing=_routing(params, job, context),
        )
    except InputError as error:
        raise (error if error.file else error.under("traffic")) from None


def _routing(params: Params, job: Job, context: TrafficContext) -> Routing | None:
    if params["routing"] == "uniform":
        return None
    if job.layout.ep < 2:
        raise InputError("requires ep = 2 or more in the job's [layout]", key="routing")
    if params["fidelity"]["ep"] == "formula":
        message = "conflicts with fidelity.ep = formula, which assumes uniform routing"
        raise InputError(message, key="routing", hint='fidelity = {ep = "packets"}')
    if job.model.experts % job.layout.ep:
        message = f"{job.model.experts} experts are not divisible by ep = {job.layout.ep}"
        raise InputError(message, key="routing", hint='"uniform"')
    if params["routing"] == "zipf":
        return zipf(job, params["zipf_exponent"], context.seed)
    return routing_of(job, params["routing_file"], context.directory)


def _hosts(
    params: Params,
    sample: JobSample,
    network: Network,
    rng: Rng,
    context: TrafficContext,
) -> Ints:
    if params["placement"] == "file":
        file = params["placement_file"]
        return placement_of(sample.ranks, file, context.directory, network.n_hosts)
    # Without racks in the network: the sample's share of the GPUs of a rack.
    ranks, layout = sample.ranks, sample.job.layout
    rack_hosts = sample.job.machine.domain_gpus * ranks.tp // layout.tp
    if ranks.levels is not None and layout.dp_levels is not None:
        rack_hosts = max(1, rack_hosts * ranks.levels[0] // layout.dp_levels[0])
    whole = ranks
    if network.relays is not None:
        rack_hosts = network.relays.rack
        if rack_hosts == sample.job.machine.domain_gpus:
            # Sampled ranks of a tensor-parallel group are where the whole group would have them.
            whole = replace(ranks, tp=layout.tp)
    with errors_at(key="traffic.placement"):
        hosts = place(params["placement"], whole, rack_hosts, network.n_hosts, rng)
    return hosts.reshape(whole.numbers.shape)[..., : ranks.tp].reshape(-1)
