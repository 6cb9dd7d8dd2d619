"""The training cluster of "I've Got 99 Problems But FLOPS Ain't One" (HotNets 2024).

Its size (section 2), the stages of a step (sections 4 and 5), and exposed communication (section
6), for the jobs `dense` and `moe`, from the same kernels and messages as any other job; the job
that a budget buys, with the method of sections 2 to 4: racks and their compute, model size by a
scaling law, layers and width, the fewest GPUs that hold a layer, and replicas for all racks; and
the paper's numbers (paper.csv), with ours from one set of inputs.

Scaling laws give the model size for a compute budget of C FLOP (`optimal_parameters`): kaplan by
Kaplan et al. 2020 (arXiv 2001.08361), N_opt(C_min); hoffmann1 to hoffmann3 by approaches 1 to 3 of
Hoffmann et al. 2022 (arXiv 2203.15556).
Approach 3 minimizes its loss A / N^a + B / D^b with C = 6 N D; its exponent is b / (a + b). The
constants of the first three laws, at 5.76e23 FLOP (Gopher's budget), and of `width` are as commonly
quoted, not checked against the papers.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from netsim.common.inputs import read_text, read_toml
from netsim.errors import InputError
from netsim.frozen import frozen
from netsim.model.trees import fabric_cables_needed, switches_needed
from netsim.params import NUMBER, key, read_each, read_table, unknown_keys
from netsim.workloads.job.job import ACCOUNTINGS, Job, parameters
from netsim.workloads.job.load import job_from, load_job, presets
from netsim.workloads.job.machine import FLOPS_RATE, PS_PER_S
from netsim.workloads.job.messages import Message, messages
from netsim.workloads.job.work import bytes_of_parameter, layer_held, stage_times

JOBS = ("dense", "moe")


@frozen(kw_only=True)
class Infrastructure:
    """A site bought by a budget (section 2). A rack is one scale-up domain."""

    budget_usd: float = key(NUMBER, 100e9, "budget", above=0)
    compute_share: float = key(NUMBER, 0.7, "share of the budget for racks", above=0, maximum=1)
    rack_usd: float = key(NUMBER, 3e6, "price of a rack", above=0)
    rack_gpus: int = key("count", 72, "GPUs of a rack", minimum=1)
    rack_flops: float = key(FLOPS_RATE, "720PFLOP/s", "FLOP/s of a rack, without sparsity")
    rack_watts: float = key(NUMBER, 130e3, "power of a rack", above=0)
    it_share: float = key(NUMBER, 1.2, "IT power (with storage, network) over rack power", above=0)
    pue_low: float = key(NUMBER, 1.15, "power usage effectiveness, at best", above=0)
    pue_high: float = key(NUMBER, 1.30, "power usage effectiveness, at worst", above=0)
    datacenters: int = key("count", 2, "datacenters that the racks are divided between", minimum=1)

    @property
    def racks(self) -> float:
        """Racks, as a fraction."""
        return self.budget_usd * self.compute_share / self.rack_usd

    @property
    def stated_racks(self) -> int:
        """Racks truncated to three digits, as in the paper."""
        unit = 10 ** max(0, len(str(int(self.racks))) - 3)
        return int(self.racks // unit * unit)

    @property
    def gpus(self) -> int:
        return self.stated_racks * self.rack_gpus

    @property
    def flops(self) -> float:
        return self.stated_racks * self.rack_flops

    @property
    def compute_watts(self) -> float:
        """Power of the racks."""
        return self.racks * self.rack_watts

    @property
    def it_watts(self) -> float:
        """Power of racks, storage and network."""
        return self.compute_watts * self.it_share

    @property
    def total_watts(self) -> tuple[float, float]:
        """Power with cooling and losses, at best and at worst."""
        return self.it_watts * self.pue_low, self.it_watts * self.pue_high

    def racks_of_layer(self, layers: int) -> int:
        """Return the racks per layer."""
        return int(self.racks // layers)


@frozen
class StageSeconds:
    """Times of one layer at one GPU, in seconds; `wan_bytes` are S3's bytes, 0 with one site.
    `tp_s` is per pass, `pp_s` per transfer to the next layer; S1 to S5 reduce gradients."""

    forward_s: float
    tp_s: float
    pp_s: float
    s1_s: float
    s2_s: float
    wan_bytes: float
    s4_s: float
    s5_s: float

    @property
    def backward_s(self) -> float:
        return 2 * self.forward_s


@frozen
class PaperNetwork:
    """Rates of section 6, which figure 3 varies one at a time."""

    scale_up_bps: float = 14.4e12
    scale_out_bps: float = 800e9
    wan_bps: float = 20e9  # rate of one GPU to the other datacenter
    wan_round_trips: int = 0  # round trips added by the transport for loss recovery
    transfer_delay_s: float = 0.0  # delay added by the transport to each pipeline transfer


WAN_DELAY_S = 0.030  # one-way delay between the datacenters


@lru_cache(maxsize=1024)
def paper_job(name: str, accounting: str = "paper") -> Job:
    """Return the job "dense" or "moe" with an accounting of S1 to S5."""
    job = load_job(name)
    return replace(job, layout=replace(job.layout, accounting=accounting))


@lru_cache(maxsize=1024)
def stage_seconds(job: Job) -> StageSeconds:
    """Return the stages of one layer of a job with `dp_levels`."""
    times = stage_times(job)
    per = ("layer", "moe_layer" if job.model.experts else "dense_layer")
    of_layer = [message for message in messages(job) if message.per in (*per, "virtual_stage")]
    layer = times.moe_layer if job.model.experts else times.layer

    def total(kind: str, when: str) -> float:
        found = (message for message in of_layer if (message.kind, message.when) == (kind, when))
        return sum(one.times * one.time_ps(job) for one in found) / PS_PER_S

    wan = [message.size_bytes for message in of_layer if message.kind == "dp_s3"]
    return StageSeconds(
        forward_s=layer.forward_ps / PS_PER_S,
        tp_s=total("tp", "forward"),
        pp_s=total("pp", "forward"),
        s1_s=total("dp_s1", "step"),
        s2_s=total("dp_s2", "step"),
        wan_bytes=sum(wan),
        s4_s=total("dp_s4", "step"),
        s5_s=total("dp_s5", "step"),
    )


def tensor_parallelism(job: Job, rack_gpus: int) -> int:
    """Return the smallest number of GPUs that holds a layer and its activations and divides a rack.
    Section 4 of the paper. Raises InputError if a rack does not hold them."""
    model = job.model
    layer = bytes_of_parameter(job) * 12 * model.hidden**2
    for t in range(1, rack_gpus + 1):
        if rack_gpus % t == 0 and (layer + layer_activations(job)) / t <= job.machine.memory:
            return t
    raise InputError(
        f"a rack of {rack_gpus} GPUs does not hold a layer of hidden size {model.hidden:,}",
        key="machine.memory",
        hint="use more memory, smaller formats or a smaller model",
    )


def layer_activations(job: Job) -> float:
    """Return the activation bytes of a layer and a sequence, summed over GPUs."""
    each = 16 * job.precision.bytes_of("activations") + 2
    return each * job.model.sequence * job.model.hidden


BASE = PaperNetwork()


def exposed_seconds(stages: StageSeconds, network: PaperNetwork = BASE) -> float:
    """Return the exposed communication of a layer, forward and backward.

    Tensor-parallel collectives and pipeline transfers of both passes, and the excess of the
    slowest of S1, S2 and the wide area over the backward pass. Stage times are for 14.4 Tbps and
    800 Gbps, and scale with these rates. POST-HOC: of eight formulas, the closest to the paper's
    statements on figures 3 and 6.
    """
    up, out = BASE.scale_up_bps / network.scale_up_bps, BASE.scale_out_bps / network.scale_out_bps
    delay = WAN_DELAY_S * (1 + 2 * network.wan_round_trips) if stages.wan_bytes else 0.0
    wan = 8 * stages.wan_bytes / network.wan_bps + delay
    slowest = max(stages.s1_s * up, stages.s2_s * out, wan)
    transfer = stages.pp_s * out + network.transfer_delay_s
    return 2 * stages.tp_s * up + 2 * transfer + max(0.0, slowest - stages.backward_s)


def exposed_fraction(stages: StageSeconds, network: PaperNetwork = BASE) -> float:
    """Return the exposed share of a step; compute is three forward passes."""
    exposed = exposed_seconds(stages, network)
    return exposed / (3 * stages.forward_s + exposed)


def wan_needed_bps(stages: StageSeconds, round_trips: int = 0) -> float:
    """Return the lowest wide-area rate that adds no exposed communication."""
    hidden = max(stages.backward_s, stages.s2_s)
    left = hidden - WAN_DELAY_S * (1 + 2 * round_trips)
    return 8 * stages.wan_bytes / left if left > 0 else float("inf")


LAWS = ("kaplan", "hoffmann1", "hoffmann2", "hoffmann3")

PF_DAY = 1e15 * 86_400
GOPHER = 5.76e23  # FLOP of training Gopher

YEAR_S = 365 * 86_400

POWER = {"hoffmann1": (67e9, 0.50), "hoffmann2": (63e9, 0.49)}
"""Parameters at Gopher's budget, and the exponent."""

LOSS_A, LOSS_B, LOSS_ALPHA, LOSS_BETA = 406.4, 410.7, 0.34, 0.28
"""Hoffmann et al. 2022, equation 10."""

WIDTH_AT_NONE, WIDTH_PER_LAYER = 5.039, 0.0555
"""ln(hidden) = 5.039 + 0.0555 layers: the fit of Levine et al. 2020 (arXiv 2006.12467)."""

HIDDEN_STEP = 256


def optimal_parameters(law: str, flops: float) -> float:
    """Return the parameters that minimize loss for a training budget in FLOP, by a law in LAWS."""
    if law == "kaplan":
        return float(1.3e9 * (flops / PF_DAY) ** 0.73)
    if law == "hoffmann3":
        total = LOSS_ALPHA + LOSS_BETA
        scale = (LOSS_ALPHA * LOSS_A / (LOSS_BETA * LOSS_B)) ** (1 / total)
        return float(scale * (flops / 6) ** (LOSS_BETA / total))
    anchor, exponent = POWER[law]
    return float(anchor * (flops / GOPHER) ** exponent)


def width(layers: float) -> float:
    """Return the hidden size for a number of layers."""
    return math.exp(WIDTH_AT_NONE + WIDTH_PER_LAYER * layers)


def ideal_layers(n_parameters: float) -> float:
    """Return the layers, a fraction, of a model with 12 hidden^2 parameters per layer."""
    low, high = 0.01, 1000.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _size(middle) < n_parameters else (low, middle)
    return low


def _size(layers: float) -> float:
    return 12 * layers * width(layers) ** 2


def shape(n_parameters: float) -> tuple[int, int]:
    """Return layers (rounded, then up to an even number) and hidden size (a multiple of 256)."""
    layers = ideal_layers(n_parameters)
    even = 2 * math.ceil(round(layers) / 2)
    return even, HIDDEN_STEP * round(width(layers) / HIDDEN_STEP)


BASE_JOB = "dense"  # job that provides machine, formats and overlaps to files without a machine

PARTS = ("machine", "precision", "optimizer", "overlap")
HEADS = 256


@frozen(kw_only=True)
class TrainingTarget:
    """Model size and training time to plan for."""

    years: float = key(NUMBER, 4.0, "years of training at full rate", above=0, maximum=1000)
    law: str = key("choice", "hoffmann2", "scaling law for the model size", choices=LAWS)
    parameters: float = key(NUMBER, 0.0, "model parameters; 0: by the scaling law", maximum=1e18)
    sequence: int = key("count", 32_000, "tokens per sequence", minimum=1)
    vocabulary: int = key("count", 256_000, "size of the vocabulary", minimum=1)
    accounting: str = key("choice", "paper", "S1 to S5, as in [layout]", choices=ACCOUNTINGS)


MIN_PARAMETERS = 1e8  # minimum parameters; the fit of widths is for large models


@frozen
class JobPlan:
    """The job that a budget buys."""

    site: Infrastructure
    target: TrainingTarget
    by_law: dict[str, float]  # parameters by scaling law
    job: Job
    racks_of_layer: int

    @property
    def exposed(self) -> float:
        """Exposed share of a step (POST-HOC formula)."""
        return exposed_fraction(stage_seconds(self.job))


def is_plan(tree: Mapping[str, Any]) -> bool:
    """Return whether a table is a plan, not a job."""
    return "site" in tree or "plan" in tree


def make_plan(tree: Mapping[str, Any], name: str, directory: Path) -> JobPlan:
    """Return the plan of a table with [site], [plan], and optional tables of a job. Raises
    InputError, without a file, with all errors."""
    known = ("site", "plan", *PARTS, "name", "description")
    reads: dict[str, Callable[[], Any]] = {
        "site": partial(read_table, Infrastructure, tree.get("site", {})),
        "plan": partial(read_table, TrainingTarget, tree.get("plan", {})),
    }
    site, target = read_each(reads, unknown_keys(tree, known)).values()
    flops = site.flops * target.years * YEAR_S
    by_law = {law: optimal_parameters(law, flops) for law in LAWS}
    n_parameters = target.parameters or by_law[target.law]
    if n_parameters < MIN_PARAMETERS:
        message = f"a model of {n_parameters:,.0f} parameters is too small for the shape fit"
        raise InputError(message, key="plan.parameters", hint=f"at least {MIN_PARAMETERS:,.0f}")
    layers, hidden = shape(n_parameters)
    racks = site.racks_of_layer(layers)
    if racks < site.datacenters:
        message = f"{site.racks:,.0f} racks are too few for {layers} layers with a rack in each of "
        message += f"{site.datacenters} datacenters"
        hint = "use a smaller model, or site.datacenters = 1"
        raise InputError(message, key="plan.parameters", hint=hint)
    model = {
        "preset": "paper_dense",
        "layers": layers,
        "hidden": hidden,
        "heads": HEADS,
        "head_size": hidden // HEADS,
        "sequence": target.sequence,
        "vocabulary": target.vocabulary,
        "source": "shape by scaling law and width; FLOP as in paper_dense",
    }
    base = {} if "machine" in tree else read_toml(presets()[BASE_JOB])
    parts = {part: tree.get(part, base.get(part, {})) for part in PARTS}

    def with_tp(tp: int) -> Job:
        peers = racks // site.datacenters
        levels = [site.rack_gpus // tp, peers, site.datacenters]
        layout = {
            "tp": tp,
            "sp": tp > 1,
            "regather": False,
            "uneven": True,
            "pp": layers,
            "dp_levels": levels,
            "accounting": target.accounting,
            "global_batch": levels[0] * levels[1] * levels[2],
        }
        whole = {**parts, "machine": _machine(parts["machine"], site), "model": model}
        return job_from(whole | {"layout": layout}, name, directory, fits=False)

    tp = tensor_parallelism(with_tp(site.rack_gpus), site.rack_gpus)
    return JobPlan(site, target, by_law, with_tp(tp), racks)


def _machine(table: Any, site: Infrastructure) -> Any:
    """Return a machine whose scale-up domain is a rack of the site."""
    if isinstance(table, str):
        table = {"preset": table}
    return {**table, "domain_gpus": site.rack_gpus} if isinstance(table, Mapping) else table


FILE = Path(__file__).with_name("paper.csv")

AGREEMENTS = {
    "yes": "to the printed digits",
    "approx": "close, or an input was chosen to match",
    "no": "not reproduced",
    "derived": "not printed in the paper",
    "input": "an input",
}
"""How a number agrees."""

HOSTS = 800_000
RAIL_HOSTS = 76 * 11_000
"""76 rails of 11,000 GPUs, as the paper states. POST-HOC: its 39,000 chips fit this number, not
`HOSTS`."""

DENSE_SIZE, EXPERT_SIZE = 95e12, 17e12
"""Parameters of the dense model (POST-HOC) and of an expert model (stated)."""

TRAINING_YEARS = 4
LINK_USD = 2 * 1000
TRIALS, LEAVES, SPINES, LEAF_HOSTS = 200, 128, 64, 64


STAGE_TIMES = {"fwd": "forward", "tp_time": "tp", "pp_time": "pp"}
STAGE_TIMES |= {f"dp_{stage}": stage for stage in ("s1", "s2", "s4", "s5")}
"""Times of stages, and their names in `StageSeconds`."""


@frozen
class Figure:
    """A number as stated, empty if the paper prints none, and ours, in the same unit."""

    name: str
    stated: str
    unit: str
    section: str
    agreement: str
    note: str
    ours: float

    @property
    def post_hoc(self) -> bool:
        """Whether an input was chosen to match, so that the agreement validates nothing."""
        return self.note.startswith("POST-HOC")

    @property
    def number(self) -> float | None:
        """The stated number, without a bound's sign."""
        return float(self.stated.strip("<>")) if self.stated else None

    @property
    def difference(self) -> float | None:
        """Ours over the stated value, minus one."""
        return None if self.number is None else self.ours / self.number - 1


@cache
def figures() -> tuple[Figure, ...]:
    """Return all numbers in the order of the file."""
    ours = computed()
    rows = csv.DictReader(read_text(FILE).splitlines())
    return tuple(Figure(**row, ours=ours[row["name"]]) for row in rows)


@cache
def computed() -> dict[str, float]:
    """Return our value of every number, in its unit."""
    return _cluster() | _dense() | _moe() | _exposed() | _topologies()


def _cluster() -> dict[str, float]:
    site = Infrastructure()
    low, high = site.total_watts
    year = site.flops * YEAR_S
    layers, hidden = shape(DENSE_SIZE)
    moe_layers, moe_hidden = shape(EXPERT_SIZE)
    return {
        "racks": site.racks,
        "gpus": site.gpus,
        "compute_power": site.compute_watts / 1e9,
        "pflops_dense_fp4": site.racks * site.rack_flops / 1e15,
        "it_power": site.it_watts / 1e9,
        "total_power_lo": low / 1e9,
        "total_power_hi": high / 1e9,
        "N_opt_hoffmann2": optimal_parameters("hoffmann2", TRAINING_YEARS * year) / 1e12,
        "N_50T": optimal_parameters("hoffmann2", year) / 1e12,
        "hidden_dense": hidden,
        "layers_dense": layers,
        "hidden_moe": moe_hidden,
        "layers_moe": moe_layers,
    }


def _sent(job: Job, kind: str, when: str) -> Message:
    """Return the first message of a kind and pass of one layer."""
    pers = ("layer", "dense_layer", "moe_layer", "virtual_stage")
    return next(
        message
        for message in messages(job)
        if (message.kind, message.when) == (kind, when) and message.per in pers
    )


def _stages(job: Job, ending: str) -> dict[str, float]:
    """Return stage times in ms, and bytes stated for both models."""
    found, gradient = asdict(stage_seconds(job)), _sent(job, "dp_s5", "step").size_bytes
    times = {f"{name}{ending}": 1e3 * found[f"{key}_s"] for name, key in STAGE_TIMES.items()}
    return times | {
        f"dp_s3_bytes{ending}": found["wan_bytes"] / 1e6,
        f"grad_layer{ending}": gradient * job.layout.tp / 1e9,
    }


def _replicas(job: Job) -> tuple[int, int]:
    """Return a model's replicas, and the racks per layer and datacenter."""
    site = Infrastructure()
    racks = site.racks_of_layer(job.model.layers)
    return racks * (site.rack_gpus // job.layout.tp), racks // site.datacenters


def _dense() -> dict[str, float]:
    job = paper_job("dense")
    model, t, precision = job.model, job.layout.tp, job.precision
    s, h, total = model.sequence, model.hidden, parameters(model).total
    replicas, peers = _replicas(job)
    copies = precision.bytes_of("weights") + precision.bytes_of("master")
    moments = job.optimizer.moments * precision.bytes_of("optimizer")
    tp, pp = _sent(job, "tp", "forward"), _sent(job, "pp", "forward")
    gradient = _sent(job, "dp_s5", "step").size_bytes * t
    found = _stages(job, "")
    found["fwd_dense"] = found.pop("fwd")
    return found | {
        "params_dense": total / 1e12,
        "mem_total_dense": bytes_of_parameter(job) * total / 1e12,
        "mem_model": copies * total / 1e12,
        "mem_grad": precision.bytes_of("gradients") * total / 1e12,
        "mem_opt": moments * total / 1e12,
        "act_per_device": layer_activations(job) / t / 1e9,
        "mem_per_device": bytes_of_parameter(job) * total / model.layers / t / 1e9,
        "t": tensor_parallelism(job, job.machine.domain_gpus),
        "replicas_dense": replicas,
        "replicas_per_dc": replicas / 2,
        "peers_dense": peers,
        "recompute_overhead": 100 * 4 * s**2 * h / (3 * (24 * s * h**2 + 4 * s**2 * h)),
        "tp_bytes": tp.times * tp.size_bytes / 1e9,
        "pp_bytes": pp.size_bytes / 1e6,
        "dp_chunk": gradient / 4 / 1e9,
        "rtt_wan": 2 * job.machine.wan_delay / 1e9,
        "devices_per_dc": model.layers * t * replicas / 2,
        "wan_rate_min": 8 * _sent(job, "dp_s3", "step").size_bytes / 0.1 / 1e9,
        "bwd_dense": 2 * found["fwd_dense"],
    }


def _moe() -> dict[str, float]:
    job = paper_job("moe")
    model = job.model
    s, h, all_of = model.sequence, model.hidden, parameters(model)
    replicas, peers = _replicas(job)
    routers = model.layers * h * model.experts
    held = layer_held(job, True).total
    stages = stage_seconds(job)
    one_expert = model.attention_parameters + model.expert_parameters
    activations = s * h * job.precision.bytes_of("activations")
    return _stages(job, "_moe") | {
        "mem_total_moe": bytes_of_parameter(job) * all_of.total / 1e12,
        "params_moe": all_of.total / 1e12,
        "active_moe": (all_of.active - routers) / 1e12,
        "moe_expert_model": model.layers * one_expert / 1e12,
        "replicas_moe": replicas,
        "peers_moe": peers,
        "mem_per_device_moe": bytes_of_parameter(job) * held / 1e9,
        "moe_tensor": activations / 1e9,
        "wan_mb_per_iter": stages.wan_bytes / 1e6,
        "dp_masked_moe": 1e3 * stages.backward_s,
        "wan_ok_capacity": wan_needed_bps(stages) / 1e9,
        "p2p_optimal_fct": 1e3 * stages.pp_s,
        "p2p_radix": math.isqrt(2 * LEAVES * LEAF_HOSTS),
        "p2p_singlepath_fct": 1e3 * stages.pp_s * fullest_link(),
    }


def _exposed() -> dict[str, float]:
    networks = {
        "exposed": BASE,
        "exp_up800": replace(BASE, scale_up_bps=800e9),
        "exp_out100": replace(BASE, scale_out_bps=100e9),
        "exp_out400": replace(BASE, scale_out_bps=400e9),
        "exp_out1600": replace(BASE, scale_out_bps=1600e9),
        "exp_singlepath": replace(BASE, transfer_delay_s=7e-3),
    }
    return {
        f"{what}_{name}": 100 * exposed_fraction(stage_seconds(paper_job(name)), network)
        for name in JOBS
        for what, network in networks.items()
    }


def _topologies() -> dict[str, float]:
    """Section 6.1: trees of n tiers with k ports have (2n - 1) N / k chips and (n - 1) N cables."""
    chips = {
        "fat tree": float(switches_needed(HOSTS, 4, 64)),
        "planes": 4 * float(switches_needed(HOSTS, 3, 256)),
        "rails": 4 * float(switches_needed(RAIL_HOSTS, 2, 256)),
    }
    cables = {tiers: fabric_cables_needed(HOSTS, tiers) for tiers in (2, 3, 4)}
    stated_chips, stated_rails = 87.5e3, 39e3
    return {
        "ft4_switches": chips["fat tree"],
        "ft4_links": cables[4],
        "ft4_cost": cables[4] * LINK_USD,
        "mp3_link_reduction": 100 * (1 - cables[3] / cables[4]),
        "mp3_chip_reduction": 100 * (1 - chips["planes"] / chips["fat tree"]),
        "rail_size": HOSTS / Infrastructure().rack_gpus,
        "two_tier_64_max": 64**2 / 2,
        "two_tier_256_max": 256**2 / 2,
        "rails76_chips": chips["rails"],
        "rails76_links": fabric_cables_needed(RAIL_HOSTS, 2),
        "rails76_chip_cut": 100 * (1 - stated_rails / stated_chips),
        "rails76_link_cut": 100 * (1 - cables[2] / cables[4]),
    }


@cache
def fullest_link(trials: int = TRIALS, seed: int = 1) -> float:
    """Return the mean number of flows on the fullest link of a random permutation with ECMP. With
    max-min fair shares, this is the time of the last flow relative to an idle network."""
    rng = np.random.default_rng(seed)
    n = LEAVES * LEAF_HOSTS
    leaf = np.arange(n) // LEAF_HOSTS
    found = np.zeros(trials, np.int64)
    for trial in range(trials):
        to = rng.permutation(n) // LEAF_HOSTS
        spine = rng.integers(0, SPINES, n)
        crosses = leaf != to
        for end in (leaf, to):
            links = np.bincount((end * SPINES + spine)[crosses])
            found[trial] = max(found[trial], links.max())
    return float(found.mean())
