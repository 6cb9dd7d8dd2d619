"""What does not divide, does not fit, or contradicts itself: one clear error for each."""

from __future__ import annotations

import math
from collections.abc import Iterator

from netsim.errors import InputError
from netsim.units import format_bytes
from netsim.workloads.job.job import Job
from netsim.workloads.job.layout import Layout
from netsim.workloads.job.memory import stage_memory
from netsim.workloads.job.model import Model


def mistakes(job: Job, *, fits: bool = True) -> list[InputError]:
    """Everything that is wrong with a job whose keys are right one by one."""
    found = [*model_mistakes(job.model), *_contradictions(job), *_formats(job)]
    if not found:
        found += _divides(job)
    if not found and fits:
        found += _fits(job)
    return found


def _error(key: str, message: str, hint: str) -> InputError:
    return InputError(message, key=key, hint=hint)


def model_mistakes(model: Model) -> Iterator[InputError]:
    """What contradicts itself in a model alone."""
    if not model.head_size and model.hidden % model.heads:
        yield _error(
            "model.heads",
            f"{model.heads} heads do not divide the hidden width of {model.hidden}",
            "a divisor, or head_size as well",
        )
    if model.heads % model.kv_head_count:
        yield _error(
            "model.kv_heads",
            f"{model.kv_heads} heads of keys and values do not divide {model.heads} heads",
            "a divisor of the heads",
        )
    if model.experts and not 1 <= model.active_experts <= model.experts:
        yield _error(
            "model.active_experts",
            f"a token goes to {model.active_experts} of {model.experts} experts",
            f"1 to {model.experts}",
        )
    if model.dense_layers > model.layers:
        yield _error(
            "model.dense_layers",
            f"{model.dense_layers} layers without experts are more than {model.layers} layers",
            f"at most {model.layers}",
        )
    if not model.experts:
        for name in ("active_experts", "shared_experts", "expert_feed_forward", "dense_layers"):
            if getattr(model, name):
                yield _error(f"model.{name}", "is given for a model without experts", "experts")
    latent = model.attention == "latent"
    if latent and not (model.kv_rank and model.head_size):
        yield _error(
            "model.kv_rank",
            "latent attention has neither a kv_rank nor a head_size",
            "both, such as 512 and 128",
        )
    if latent and model.kv_heads not in (0, model.heads):
        yield _error("model.kv_heads", "latent attention has keys for each head", "leave it out")
    if not latent:
        for name in ("query_rank", "kv_rank", "rotary_size"):
            if getattr(model, name):
                yield _error(
                    f"model.{name}", "is of latent attention alone", 'attention = "latent"'
                )


def _contradictions(job: Job) -> Iterator[InputError]:
    """Between keys of the layout."""
    layout, model = job.layout, job.model
    if layout.dp and layout.dp_levels and layout.dp != math.prod(layout.dp_levels):
        yield _error(
            "layout.dp",
            f"{layout.dp} replicas are not those of dp_levels, {math.prod(layout.dp_levels)}",
            "leave one of them out",
        )
    if layout.accounting == "paper" and not layout.dp_levels:
        yield _error("layout.accounting", "is of S1 to S5, which there are not", "dp_levels")
    if layout.dp_levels and layout.zero:
        yield _error(
            "layout.zero",
            "S1 to S5 leave every replica with all weights",
            "zero = 0, or dp in place of dp_levels",
        )
    if layout.dp_levels and layout.ep > 1:
        yield _error("layout.ep", "S1 to S5 know no shared experts", "dp in place of dp_levels")
    if layout.virtual_stages > 1 and layout.schedule != "interleaved":
        yield _error(
            "layout.virtual_stages",
            f'schedule = "{layout.schedule}" has one chunk a stage',
            'schedule = "interleaved"',
        )
    if layout.schedule == "interleaved" and min(layout.virtual_stages, layout.pp) < 2:
        yield _error(
            "layout.schedule",
            "an interleaved schedule takes several stages of several chunks",
            "pp and virtual_stages of at least 2",
        )
    if layout.sp and layout.tp == 1:
        yield _error("layout.sp", "there is nobody to share a sequence with", "tp of at least 2")
    if layout.ep > 1 and not model.experts:
        yield _error("layout.ep", "the model has no experts", "ep = 1")
    if layout.ep_domains and layout.ep == 1:
        yield _error("layout.ep_domains", "nobody shares the experts", "ep of at least 2")
    if layout.recompute == "selective" and model.fused_attention:
        yield _error(
            "layout.recompute",
            "selective recomputation is of scores, and fused attention keeps none",
            'recompute = "none" or "full"',
        )


def _formats(job: Job) -> Iterator[InputError]:
    """Of the machine, for the formats that are computed in."""
    for key, unit in (("compute", job.machine.matrix), ("vector", job.machine.vector)):
        if unit is None:
            continue
        try:
            unit.rate(getattr(job.precision, key))
        except InputError as error:
            yield error.at(key=f"precision.{key}")


def _divides(job: Job) -> Iterator[InputError]:
    """What is shared has to come out even, but where the layout says that it need not."""
    layout, model, machine = job.layout, job.model, job.machine
    yield from _batch(layout)
    if layout.ep > 1:
        yield from _shares("ep", layout.ep, {"experts": model.experts, "replicas": layout.replicas})
    n_stages = layout.pp * layout.virtual_stages
    if n_stages > model.layers:
        yield _error(
            "layout.pp",
            f"{n_stages} virtual stages are more than the {model.layers} layers",
            "fewer",
        )
    rack = layout.dp_levels[0] if layout.dp_levels else 1
    if rack > 1 and layout.tp * layout.cp * rack > machine.domain_gpus:
        yield _error(
            "layout.dp_levels",
            f"{rack} replicas of {layout.tp * layout.cp} GPUs do not stand in one scale-up domain "
            f"of {machine.domain_gpus}",
            "fewer replicas in a rack",
        )
    if layout.uneven:
        return
    if layout.tp <= machine.domain_gpus and machine.domain_gpus % layout.tp:
        yield _error(
            "layout.tp",
            f"groups of {layout.tp} do not fill scale-up domains of {machine.domain_gpus} GPUs",
            f"a divisor of {machine.domain_gpus}",
        )
    widths = {"the hidden width": model.hidden, "heads": model.heads}
    if model.layers > model.moe_layers:
        widths["the feed-forward's width"] = model.width
    if model.moe_layers:
        widths["an expert's width"] = model.expert_width
    if layout.tp % model.kv_head_count:  # fewer heads than GPUs are copied
        widths["heads of keys and values"] = model.kv_head_count
    yield from _shares("tp", layout.tp, widths)
    sharers = layout.cp * (layout.tp if layout.sp else 1)
    if model.sequence % sharers:
        yield _error(
            "layout.cp" if layout.cp > 1 else "layout.sp",
            f"{sharers} GPUs do not share {model.sequence} tokens evenly",
            f"a divisor of {model.sequence}, or uneven = true",
        )
    if model.layers % n_stages and n_stages < model.layers:
        yield _error(
            "layout.pp",
            f"{n_stages} virtual stages do not divide {model.layers} layers",
            f"a divisor of {model.layers}, or uneven = true",
        )


def _batch(layout: Layout) -> Iterator[InputError]:
    share = layout.replicas * layout.micro_batch
    if layout.global_batch % share:
        yield _error(
            "layout.global_batch",
            f"{layout.global_batch} sequences are not shared by {layout.replicas} replicas in "
            f"micro-batches of {layout.micro_batch}",
            f"a multiple of {share}",
        )
    elif layout.schedule == "interleaved" and layout.micro_batches % layout.pp:
        yield _error(
            "layout.global_batch",
            f"an interleaved schedule of {layout.pp} stages has {layout.micro_batches} "
            "micro-batches",
            f"a multiple of {layout.pp}",
        )


def _shares(key: str, n: int, amounts: dict[str, int]) -> Iterator[InputError]:
    """One error of all that `n` GPUs cannot share evenly."""
    rests = [f"{name} ({amount})" for name, amount in amounts.items() if amount % n]
    if rests:
        divisor = math.gcd(*amounts.values())
        hint = f"a divisor of {divisor}" + (", or uneven = true" if key == "tp" else "")
        yield _error(f"layout.{key}", f"{n} GPUs do not share {', '.join(rests)} evenly", hint)


def _fits(job: Job) -> Iterator[InputError]:
    """The stage that needs most is told, with what it needs it for."""
    needs = [stage_memory(job, stage) for stage in range(job.layout.pp)]
    stage = max(range(job.layout.pp), key=lambda one: needs[one].total)
    need = needs[stage]
    if need.total <= job.machine.memory:
        return
    parts = ", ".join(
        f"{name} {format_bytes(round(getattr(need, name)), 3)}"
        for name in ("weights", "gradients", "optimizer", "activations", "working")
    )
    yield _error(
        "machine.memory",
        f"a GPU of stage {stage} needs {format_bytes(round(need.total), 4)} and has "
        f"{format_bytes(job.machine.memory, 4)}: {parts}",
        "more tp, pp or zero, recompute, or a smaller micro_batch",
    )
