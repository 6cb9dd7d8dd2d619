"""What shows, once a step, of gradients and weights that travel between replicas.

A stage's gradients become ready layer by layer as its last micro-batch goes back; with
`grad_reduce` each is sent as soon as it is ready, behind those that came before, and what is still
under way as the stage ends shows. Weights that ZeRO gathers are the same the other way round: with
`param_gather` each has to be there as the next step's first micro-batch comes to its layer. In an
interleaved schedule p micro-batches go through a chunk before the next chunk's turn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from netsim.workloads.job.job import Job
from netsim.workloads.job.messages import Message, messages

Queues = dict[str, list[tuple[str, float, float]]]
"""By network, in the order of the forward pass: kind, how far from the end (or the beginning) of
the stage's work the layer is computed, and how long its message takes; both in picoseconds."""


def shown_ps(job: Job, stage: int, forward_ps: float, backward_ps: float) -> dict[str, float]:
    """What shows of a stage, by kind of message.

    The times are those that a micro-batch takes in a chunk: forward, and backward to the gradients
    of weights.
    """
    found: dict[str, float] = defaultdict(float)
    sides = (
        (True, backward_ps, job.overlap.grad_reduce),
        (False, forward_ps, job.overlap.param_gather),
    )
    for reduces, chunk_ps, overlaps in sides:
        queues: Queues = defaultdict(list)
        for place, offset in _places(job, stage, chunk_ps if overlaps else 0.0):
            for one in _of_place(job, place, reduces):
                queues[one.network].append((one.kind, offset, one.times * one.time_ps(job)))
        for kind, time in _last(queues).items():
            found[kind] += time
    if stage in (0, job.layout.pp - 1):
        for one in messages(job):
            if one.kind == "embedding":
                found[one.kind] += one.time_ps(job)
    return found


def _places(job: Job, stage: int, chunk_ps: float) -> Iterable[tuple[str, float]]:
    """What a stage computes in the order of the forward pass, and when after its first layer.

    Backward that is how long before its last layer.
    """
    layout, last = job.layout, len(job.virtual_stages) - 1
    together = min(layout.pp, layout.micro_batches)
    for chunk, number in enumerate(range(stage, last + 1, layout.pp)):
        layers = job.virtual_stages[number]
        begin = chunk * together * chunk_ps
        if number == 0:
            yield "embedding", begin
        for index, layer in enumerate(layers):
            kind = "moe_layer" if job.model.has_experts(layer) else "dense_layer"
            yield kind, begin + index * chunk_ps / len(layers)
        if number == last:
            yield "head", begin + chunk_ps


def _of_place(job: Job, place: str, reduces: bool) -> Iterable[Message]:
    """Messages once a step of one place: those of gradients, or of weights.

    S4 and S5 gather gradients; the paper's accounting has what they carry in S1 and S2 already.
    """
    for one in messages(job):
        if one.when != "step" or one.per != place or one.kind == "embedding":
            continue
        again = one.kind in ("dp_s4", "dp_s5")
        if again and job.layout.accounting == "paper":
            continue
        if reduces == (again or one.what != "all_gather"):
            yield one


def _last(queues: Queues) -> dict[str, float]:
    """What shows of the network whose messages are done last, by kind, as these share it."""
    slowest, by_kind = 0.0, {}
    for queue in queues.values():
        sent = shown = 0.0
        kinds: dict[str, float] = defaultdict(float)
        for kind, offset, time in queue:
            sent += time
            kinds[kind] += time
            shown = max(shown, sent - offset)
        if shown > slowest:
            slowest = shown
            by_kind = {kind: shown * time / sent for kind, time in kinds.items()}
    return by_kind
