"""The training cluster of "I've Got 99 Problems But FLOPS Ain't One" (HotNets 2024).

Its size (section 2), the stages of a step (sections 4 and 5), and exposed communication (section
6), for the jobs `dense` and `moe`, from the same kernels and messages as any other job.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache, partial

from netsim.errors import InputError
from netsim.params import NUMBER, Unit, key
from netsim.workloads.job.job import Job
from netsim.workloads.job.load import load_job
from netsim.workloads.job.machine import parse_flops
from netsim.workloads.job.messages import messages
from netsim.workloads.job.work import bytes_of_parameter, stage_times

PS_PER_S = 10**12
JOBS = ("dense", "moe")

FLOPS_RATE = Unit("FLOP/s", partial(parse_flops, ending="/s"), example='"720PFLOP/s"')


@dataclass(frozen=True, kw_only=True)
class Infrastructure:
    """A site bought by a budget (section 2). A rack is one scale-up domain."""

    budget_usd: float = key(NUMBER, 100e9, "budget", above=0)
    compute_share: float = key(NUMBER, 0.7, "share of the budget for racks", above=0, maximum=1)
    rack_usd: float = key(NUMBER, 3e6, "price of a rack", above=0)
    rack_gpus: int = key("count", 72, "GPUs of a rack", minimum=1)
    rack_flops: float = key(FLOPS_RATE, "720PFLOP/s", "FLOP/s of a rack, without sparsity")
    rack_watts: float = key(NUMBER, 130e3, "power of a rack", above=0)
    it_share: float = key(
        NUMBER, 1.2, "ratio of IT power (racks, storage, network) to rack power", above=0
    )
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


@dataclass(frozen=True)
class StageSeconds:
    """Times of one layer at one GPU, in seconds; `wan_bytes` are those of S3, 0 with one site.

    `tp_s` is per pass, `pp_s` per transfer to the next layer; S1 to S5 reduce gradients.
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
        return 2 * self.forward_s


@dataclass(frozen=True)
class PaperNetwork:
    """Rates of section 6, which figure 3 varies one at a time."""

    scale_up_bps: float = 14.4e12
    scale_out_bps: float = 800e9
    wan_bps: float = 20e9
    """Rate of one GPU to the other datacenter."""
    wan_round_trips: int = 0
    """Round trips added by the transport for loss recovery."""
    transfer_delay_s: float = 0.0
    """Delay added by the transport to each pipeline transfer."""


WAN_DELAY_S = 0.030
"""One-way delay between the datacenters."""


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
    """Return the fewest GPUs that hold a layer and its activations and divide a rack.

    Section 4 of the paper. Raises InputError if a rack does not hold them.
    """
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
    slowest of S1, S2 and the wide area over the backward pass. Stages are those at 14.4 Tbps and
    800 Gbps, and scale with these. POST-HOC: the one of eight formulas closest to the paper's
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
