"""Tables of served models: `netsim workload show` of a deployment, and `lite-gpu`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from netsim.common.terminal import Column, Wide, pairs_table
from netsim.errors import InputError, errors_at, raise_all
from netsim.params import unknown_keys
from netsim.units import format_bytes, format_number, format_time, written
from netsim.workloads.cli.workload_job import count_text, duration
from netsim.workloads.inference.deployment import (
    Deployment,
    compute_parts,
    compute_ps,
    iteration_cost,
    iteration_ps,
    kv_bytes_of_token,
    kv_capacity_tokens,
    layer_counts,
    network_ps,
    on_gpus,
    prompt_pairs,
    reduce_share,
    weight_bytes,
)
from netsim.workloads.inference.limits import (
    ALL,
    ASSUMPTIONS,
    MATCHES,
    MODELS,
    PHASES,
    REFERENCE,
    Best,
    Comparison,
    LiteRow,
    assuming,
    best_batch,
    comparison,
    further_assumptions,
    lite_table,
    sizes,
    true_of,
)
from netsim.workloads.job.job import parameters

if TYPE_CHECKING:
    from rich.table import Table


BATCHES = (1, 8, 64)  # decode batches shown besides the best one

COMPARISON = "lite-gpu"

VARIED = ("tp", "overlap", "kv_replicated")  # options that the comparison varies


def deployment_tables(deployment: Deployment) -> Iterator[Table | Wide | str]:
    """Yield a deployment's parameters, iteration times, and best batches by number of GPUs."""
    yield _deployment_summary(deployment)
    found = list(sizes(deployment))
    if found:
        best = [best_batch(one, phase) for one in found for phase in PHASES]
        fastest = max(best, key=lambda one: (one.phase == "decode", one.tokens_per_s))
        yield iteration_table(fastest.deployment, fastest.batch)
        yield _best_batches(best)
    else:
        yield "No number of GPUs in the scale-up network can hold the model."


def deployment_json(deployment: Deployment) -> dict[str, Any]:
    return {
        **asdict(deployment),
        "kv_bytes_of_token": kv_bytes_of_token(deployment),
        "sizes": [
            {
                "tp": one.tp,
                "iteration_cost": iteration_cost(one)._asdict(),
                **{phase: best_json(best_batch(one, phase)) for phase in PHASES},
            }
            for one in sizes(deployment)
        ],
    }


def best_json(best: Best | None) -> dict[str, Any] | None:
    if best is None:
        return None
    return {
        "tp": best.deployment.tp,
        "weight_bytes": best.weight_bytes,
        "kv_capacity_tokens": best.capacity_tokens,
        "memory_batch": best.memory_batch,
        "time_batch": best.time_batch,
        "batch": best.batch,
        "limit": best.limit,
        "time_ps": best.time_ps,
        "tokens_per_s_of_gpu": best.tokens_per_s,
        "tokens_per_s_of_sm": best.tokens_per_s_sm,
    }


def _deployment_summary(deployment: Deployment) -> Table:
    model, options, limits = deployment.model, deployment.options, deployment.limits
    kv = kv_bytes_of_token(deployment)
    matrices = model.attention_parameters + model.mlp_parameters
    size = f"{options.tp} GPUs" if options.tp else "best number of GPUs"
    overlap = "overlapped with" if options.overlap else "after"
    rows = {
        "parameters": count_text(parameters(model).total),
        "weight matrices": f"{count_text(matrices)} per layer, {model.layers} layers",
        "KV cache": f"{format_bytes(round(kv), 4)} per token, "
        f"{format_bytes(round(kv * limits.prompt), 4)} per prompt of {limits.prompt:,}",
        "instance": f"{size}, all-reduces {overlap} compute ({options.all_reduce})",
        "formats": ", ".join(f"{k} {v}" for k, v in asdict(deployment.formats).items()),
        "source of the machine": deployment.machine.source,
        "overheads": deployment.overheads.source,
    }
    return pairs_table(deployment.name, rows.items())


def iteration_table(deployment: Deployment, best: int) -> Wide:
    """Time of each part of an iteration: one prompt, and decode batches."""
    cost, limits = iteration_cost(deployment), deployment.limits
    prompt, context = limits.prompt, limits.tokens("decode")
    cases = [("1 prompt", prompt, prompt_pairs(deployment.causal, 0, prompt), 0)]
    cases += [(f"{n:,} decoding", n, 0, n) for n in sorted({*BATCHES, best} - {0})]
    columns = [Column(f"iteration on {deployment.tp} GPUs", [one[0] for one in cases], left=True)]
    times: dict[str, list[float]] = {}
    for _, tokens, pairs, batch in cases:
        work = (tokens, pairs, batch, batch * context)
        part = compute_parts(cost, *work)
        for name, value in (
            ("matrix\ncompute", part.rows_ps),
            ("weight\nread", part.weights_ps),
            ("attention\ncompute", part.scores_ps),
            ("KV\nread", part.kv_ps),
            ("head\ncompute", part.head_ps),
            ("head\nread", part.head_read_ps),
            ("activations", part.activations_ps),
            ("software", part.launches_ps + part.iteration_ps + part.sequences_ps),
            ("long\nprompt", part.long_prompt_ps),
            ("floor", part.floor_ps),
            ("without\nall-reduces", compute_ps(cost, *work)),
            ("all-reduces", network_ps(cost, tokens)),
            ("iteration", iteration_ps(cost, *work)),
        ):
            times.setdefault(name, []).append(value)
    shown = [(name, values) for name, values in times.items() if any(values)]
    for rank, (name, values) in enumerate(reversed(shown)):
        columns.insert(1, Column(name, [duration(value) for value in values], rank=rank))
    return Wide(columns, elsewhere="--json has all")


def _best_batches(found: Sequence[Best]) -> Wide:
    columns = [
        Column("best batch", [one.phase for one in found], left=True),
        Column("GPUs", [str(one.deployment.tp) for one in found]),
        Column("weights\nper GPU", [_bytes(one.weight_bytes, 4) for one in found], 3),
        Column("KV capacity,\ntokens", [f"{one.capacity_tokens:,}" for one in found], 2),
        Column("batch by\nmemory", [f"{one.memory_batch:,}" for one in found]),
        Column("batch by\nSLO", [f"{one.time_batch:,}" for one in found]),
        Column("best", [f"{one.batch:,}" for one in found]),
        Column("limit", [one.limit for one in found], left=True),
        Column("iteration", [duration(one.time_ps) for one in found]),
        Column("tokens/s\nper GPU", [_rate(one.tokens_per_s) for one in found]),
    ]
    if found[0].deployment.machine.sms:
        columns.append(Column("tokens/s\nper SM", [_rate(one.tokens_per_s_sm) for one in found]))
    return Wide(columns, elsewhere="--json has all")


def _rate(value: float) -> str:
    return format_number(value) if value else "-"


def _bytes(size_bytes: float, digits: int = 5) -> str:
    return format_bytes(round(size_bytes), digits)


def find_comparison(overrides: Sequence[str]) -> Comparison:
    """Return the comparison with overrides."""
    from netsim.experiment.document import apply_overrides

    tree: dict[str, Any] = {}
    apply_overrides(tree, overrides)
    with errors_at(file=COMPARISON):
        raise_all(unknown_keys(tree, ("model", "limits", "formats", "options", "overheads")))
        model = tree.pop("model", None)
        if model is not None and not isinstance(model, str):
            raise InputError(f"{written(model)} is not a model's name", key="model")
        options = tree.get("options")
        for name in options if isinstance(options, Mapping) else ():
            if name in VARIED:
                hint = "the comparison shows all its values"
                raise InputError("cannot be set", key=f"options.{name}", hint=hint, code="conflict")
        return comparison(MODELS if model is None else (model,), tree)


def comparison_tables(compared: Comparison) -> Iterator[Table | Wide | str]:
    """Yield ratios by assumption, the assumptions under which the claim holds, and limits."""
    rows = lite_rows(compared)
    if all(row.best is None for row in rows):
        yield from (_unserved(model, machines) for model, machines in compared.items())
        return
    yield count_table(compared)
    for model in compared:
        for phase in PHASES:
            yield ratio_table(rows, model, phase)
    yield (
        f"Tokens/s per SM of {REFERENCE}; other machines: ratio to {REFERENCE} under the same "
        f"assumption; * matches or outperforms it ({MATCHES:g} or more). H100 and its variants are "
        "from memory of the Lite-GPU paper: unverified. Measured overheads: vLLM of 2023 on H100, "
        "for every machine."
    )
    yield claim_table(rows)
    yield limit_table(compared)


def _unserved(model: str, machines: Mapping[str, Deployment]) -> str:
    """Explain why no machine can serve a model: too large, or too slow."""
    reference = machines[REFERENCE]
    limits, gpus = reference.limits, reference.machine.domain_gpus
    fitting = [one for each in machines.values() for one in sizes(assuming(each, ALL))]
    if any(best_batch(one, phase).memory_batch for one in fitting for phase in PHASES):
        ttft, tbt = format_time(limits.ttft), format_time(limits.tbt)
        return (
            f"{model}: no machine meets a TTFT of {ttft} and a TBT of {tbt}. Relax them "
            "(--set limits.ttft=2s, limits.tbt=0.1s)."
        )
    if fitting:
        least = min(limits.tokens(phase) for phase in PHASES)
        return (
            f"{model}: no machine holds the KV cache of a request, {least:,} tokens or more. "
            "Shorten it (--set limits.prompt=1500)."
        )
    need = _bytes(weight_bytes(on_gpus(reference, gpus)) * gpus, 4)
    have = format_bytes(gpus * reference.machine.memory, 4)
    return (
        f"{model}: no machine can serve it. On {gpus} GPUs its weights take {need} in "
        f"{reference.formats.weights}; {gpus} {REFERENCE} hold {have}, as do the others. Use "
        "smaller formats (--set formats.weights=fp4)."
    )


def comparison_json(compared: Comparison) -> dict[str, Any]:
    references = {model: machines[REFERENCE] for model, machines in compared.items()}
    return {
        "models": list(compared),
        "limits": asdict(next(iter(references.values())).limits),
        "layers": {model: layer_counts(one)._asdict() for model, one in references.items()},
        "rows": [
            {
                "model": row.model,
                "machine": row.machine,
                "phase": row.phase,
                "assumption": row.assumption.name,
                "ratio": row.ratio,
                "matches": row.matches,
                "best": best_json(row.best),
            }
            for row in lite_rows(compared)
        ],
        "sizes": [
            {"model": model, "machine": machine, "phase": phase, **(best_json(best) or {})}
            for model, machine, by_phase in _best_by_size(compared)
            for phase, best in by_phase.items()
        ],
    }


def lite_rows(compared: Comparison) -> list[LiteRow]:
    return lite_table(compared, (*ASSUMPTIONS, *further_assumptions()))


def count_table(compared: Comparison) -> Wide:
    found = [machines[REFERENCE] for machines in compared.values()]
    counts = [layer_counts(one) for one in found]
    layers = [one.model.layers for one in found]
    prompt, gpus = found[0].limits.prompt, found[0].machine.domain_gpus
    sent = [2 * reduce_share(gpus) * one.all_reduce_bytes for one in counts]
    caches = [prompt * n * one.kv_bytes for n, one in zip(layers, counts, strict=True)]
    prompts = [f"{one.prompt_flops / 1e9:,.3f}" for one in counts]
    return Wide(
        [
            Column("model, per layer", list(compared), left=True),
            Column("layers", [str(n) for n in layers]),
            Column("parameters", [f"{round(one.parameters):,}" for one in counts]),
            Column(f"GFLOP per\nprompt of {prompt:,}", prompts),
            Column(
                "GFLOP per\ndecoded token", [f"{one.decode_flops / 1e9:,.3f}" for one in counts]
            ),
            Column("KV bytes\nper token", [f"{one.kv_bytes:,.0f}" for one in counts]),
            Column("KV cache,\nall layers", [_bytes(n) for n in caches]),
            Column("all-reduce\nof a prompt", [_bytes(one.all_reduce_bytes) for one in counts]),
            Column(f"sent by each\nof {gpus} GPUs", [_bytes(n) for n in sent]),
        ],
        title="Counts per layer; sent: in two all-reduces",
        elsewhere="--json has all",
    )


def ratio_table(rows: Sequence[LiteRow], model: str, phase: str) -> Wide:
    chosen = [row for row in rows if (row.model, row.phase) == (model, phase)]
    names = list(dict.fromkeys(row.assumption.name for row in chosen))
    columns = [Column(f"{model}, {phase}", names, left=True)]
    for machine in dict.fromkeys(row.machine for row in chosen):
        of_machine = [row for row in chosen if row.machine == machine]
        columns.append(Column(machine, [_ratio(row) for row in of_machine]))
    return Wide(columns, elsewhere="--json has all")


def _ratio(row: LiteRow) -> str:
    if row.best is None or row.ratio is None:
        return "-"
    if row.machine == REFERENCE:
        return format_number(row.best.tokens_per_s_sm)
    return f"{row.ratio:.2f}" + "*" * row.matches


def claim_table(rows: Sequence[LiteRow]) -> Wide:
    """The variants that match or outperform H100 for all models, by assumption."""
    assumptions = list(dict.fromkeys(row.assumption for row in rows))
    columns = [Column("matches H100 for all models", [one.name for one in assumptions], left=True)]
    for phase in PHASES:
        cells = [", ".join(true_of(rows, one, phase)) or "none" for one in assumptions]
        columns.append(Column(phase, cells, left=True))
    return Wide(columns)


def _best_by_size(compared: Comparison) -> Iterator[tuple[str, str, dict[str, Best]]]:
    """Yield model, machine, and best batches by phase on each number of GPUs, under `ALL`."""
    for model, machines in compared.items():
        for machine, deployment in machines.items():
            for one in sizes(assuming(deployment, ALL)):
                yield model, machine, {phase: best_batch(one, phase) for phase in PHASES}


def limit_table(compared: Comparison) -> Wide:
    found = list(_best_by_size(compared))
    prefill, decode = ([best[phase] for *_, best in found] for phase in PHASES)
    replicated = []
    for one in decode:
        options = replace(one.deployment.options, kv_replicated=True)
        replicated.append(kv_capacity_tokens(replace(one.deployment, options=options)))
    return Wide(
        [
            Column("model", [model for model, *_ in found], left=True),
            Column("machine", [machine for _, machine, _ in found], left=True),
            Column("GPUs", [str(one.deployment.tp) for one in decode]),
            Column("weights\nper GPU", [_bytes(one.weight_bytes, 4) for one in decode]),
            Column("KV tokens,\nreplicated", [f"{value:,}" for value in replicated], rank=2),
            Column("KV tokens,\nshared", [f"{one.capacity_tokens:,}" for one in decode]),
            Column("requests by\nmemory", [f"{one.memory_batch:,}" for one in decode]),
            Column("prefill\nby TTFT", [f"{one.time_batch:,}" for one in prefill]),
            Column("best", [f"{one.batch:,}" for one in prefill], rank=1),
            Column("tokens/s\nper SM", [_rate(one.tokens_per_s_sm) for one in prefill]),
            Column("decode\nby TBT", [f"{one.time_batch:,}" for one in decode]),
            Column("best", [f"{one.batch:,}" for one in decode], rank=1),
            Column("tokens/s\nper SM", [_rate(one.tokens_per_s_sm) for one in decode]),
        ],
        title="Limits by memory and SLO, with overlap and KV shared",
        elsewhere="--json has all",
    )
