"""The training cluster of "I've Got 99 Problems But FLOPS Ain't One" (HotNets 2024).

What it is made of (section 2), how long the stages of a step take (sections 4 and 5), and which
share of a step is communication that nothing hides (section 6). Stages are those of the jobs
`dense` and `moe`, from the same kernels and messages as every other job's; accounting "paper" or
"hierarchical" is a key of their layout.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from netsim.errors import InputError
from netsim.workloads.job.job import Job
from netsim.workloads.job.keys import count, key, number, parse_flops
from netsim.workloads.job.load import load_job
from netsim.workloads.job.memory import bytes_of_parameter
from netsim.workloads.job.messages import messages
from netsim.workloads.job.times import stage_times

PS_PER_S = 10**12
JOBS = ("dense", "moe")


@dataclass(frozen=True)
class Infrastructure:
    """What a budget buys (section 2). A rack is one scale-up domain."""

    budget_usd: float = key(number(0), "budget", 100e9)
    compute_share: float = key(number(0, 1), "share of the budget for racks", 0.7)
    rack_usd: float = key(number(0), "price of a rack", 3e6)
    rack_gpus: int = key(count(), "GPUs of a rack", 72)
    rack_flops: float = key(
        ("FLOP/s", lambda value: parse_flops(value, "/s")),
        "FLOP/s of a rack, without sparsity",
        720e15,
    )
    rack_watts: float = key(number(0), "power of a rack", 130e3)
    it_share: float = key(
        number(0), "power of all IT, with storage and network, over that of racks", 1.2
    )
    pue_low: float = key(number(0), "power usage effectiveness, at best", 1.15)
    pue_high: float = key(number(0), "power usage effectiveness, at worst", 1.30)
    datacenters: int = key(count(), "datacenters that the racks are divided between", 2)

    @property
    def racks(self) -> float:
        """Racks, a fraction."""
        return self.budget_usd * self.compute_share / self.rack_usd

    @property
    def stated_racks(self) -> int:
        """Racks cut off to three digits, with which the paper goes on."""
        unit = 10 ** max(0, len(str(int(self.racks))) - 3)
        return int(self.racks // unit * unit)

    @property
    def gpus(self) -> int:
        """GPUs of all racks."""
        return self.stated_racks * self.rack_gpus

    @property
    def flops(self) -> float:
        """FLOP/s of all racks."""
        return self.stated_racks * self.rack_flops

    @property
    def compute_watts(self) -> float:
        """Of the racks."""
        return self.racks * self.rack_watts

    @property
    def it_watts(self) -> float:
        """Of the racks, storage and network."""
        return self.compute_watts * self.it_share

    @property
    def total_watts(self) -> tuple[float, float]:
        """With cooling and losses, at best and at worst."""
        return self.it_watts * self.pue_low, self.it_watts * self.pue_high

    def racks_of_layer(self, layers: int) -> int:
        """Racks that each layer of a model gets."""
        return int(self.racks // layers)


@dataclass(frozen=True)
class StageSeconds:
    """What one layer takes at one GPU of the paper's cluster, in seconds; `wan_bytes` of S3.

    Without another datacenter there are no bytes of S3, and no delay.

    `tp_s` is of one pass, forward or backward; `pp_s` of one transfer to the next layer. S1 to S5
    are those of the gradients.
    """

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
        """Twice the forward pass."""
        return 2 * self.forward_s


@dataclass(frozen=True)
class PaperNetwork:
    """The speeds of section 6, which its figure 3 turns one by one."""

    scale_up_bps: float = 14.4e12
    scale_out_bps: float = 800e9
    wan_bps: float = 20e9
    """Of one GPU to the other datacenter."""
    wan_round_trips: int = 0
    """Round trips that the transport adds, to repair losses."""
    transfer_delay_s: float = 0.0
    """What the transport adds to each pipeline transfer."""


WAN_DELAY_S = 0.030
"""One way between the datacenters."""


@lru_cache(maxsize=1024)
def paper_job(name: str, accounting: str = "paper") -> Job:
    """The job "dense" or "moe" with one of the two accountings of S1 to S5."""
    job = load_job(name)
    return replace(job, layout=replace(job.layout, accounting=accounting))


@lru_cache(maxsize=1024)
def stage_seconds(job: Job) -> StageSeconds:
    """The stages of one layer of a job with `dp_levels`."""
    times = stage_times(job)
    per = ("layer", "moe_layer" if job.model.experts else "dense_layer")
    of_layer = [one for one in messages(job) if one.per in (*per, "virtual_stage")]
    layer = times.moe_layer if job.model.experts else times.layer

    def total(kind: str, when: str) -> float:
        found = (one for one in of_layer if (one.kind, one.when) == (kind, when))
        return sum(one.times * one.time_ps(job) for one in found) / PS_PER_S

    wan = [one.size_bytes for one in of_layer if one.kind == "dp_s3"]
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
    """The fewest GPUs, a divisor of a rack's, whose memory holds a layer and its activations.

    Section 4 of the paper. Raises InputError if no rack holds them.
    """
    model = job.model
    layer = bytes_of_parameter(job) * 12 * model.hidden**2
    for t in range(1, rack_gpus + 1):
        if rack_gpus % t == 0 and (layer + layer_activations(job)) / t <= job.machine.memory:
            return t
    raise InputError(
        f"{rack_gpus} GPUs of a rack do not hold a layer of {model.hidden:,}",
        key="machine.memory",
        hint="more memory, smaller formats or a smaller model",
    )


def layer_activations(job: Job) -> float:
    """Bytes of a layer and a sequence, at all GPUs: 16 numbers and two masks for each number."""
    each = 16 * job.precision.bytes_of("activations") + 2
    return each * job.model.sequence * job.model.hidden


BASE = PaperNetwork()


def exposed_seconds(stages: StageSeconds, network: PaperNetwork = BASE) -> float:
    """Communication of a layer, forward and backward, that nothing hides.

    Tensor-parallel collectives and pipeline transfers of both passes, and what the slowest of S1,
    S2 and the wide area takes longer than the backward pass. Stages are those at 14.4 Tbps and
    800 Gbps, and scale with these. POST-HOC: of eight formulas the one that came closest to what
    the paper states of its figures 3 and 6.
    """
    up, out = BASE.scale_up_bps / network.scale_up_bps, BASE.scale_out_bps / network.scale_out_bps
    delay = WAN_DELAY_S * (1 + 2 * network.wan_round_trips) if stages.wan_bytes else 0.0
    wan = 8 * stages.wan_bytes / network.wan_bps + delay
    slowest = max(stages.s1_s * up, stages.s2_s * out, wan)
    transfer = stages.pp_s * out + network.transfer_delay_s
    return 2 * stages.tp_s * up + 2 * transfer + max(0.0, slowest - stages.backward_s)


def exposed_fraction(stages: StageSeconds, network: PaperNetwork = BASE) -> float:
    """The share of a step that is exposed communication; compute is three forward passes."""
    exposed = exposed_seconds(stages, network)
    return exposed / (3 * stages.forward_s + exposed)


def wan_needed_bps(stages: StageSeconds, round_trips: int = 0) -> float:
    """The least rate to the other datacenter with which the wide area exposes nothing more."""
    hidden = max(stages.backward_s, stages.s2_s)
    left = hidden - WAN_DELAY_S * (1 + 2 * round_trips)
    return 8 * stages.wan_bytes / left if left > 0 else float("inf")
