"""`netsim workload inference`: Lite-GPUs against H100."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from netsim.errors import InputError, did_you_mean
from netsim.terminal import Column, Wide
from netsim.units import format_bytes, format_number, format_time, written
from netsim.workloads.cli.workload_deployment import best_figures, rate_of

if TYPE_CHECKING:
    from rich.table import Table

    from netsim.workloads.inference.limits import Best, LatencyLimits
    from netsim.workloads.inference.lite import Assumption, LiteRow

INFERENCE = "inference"

VARIED = ("tp", "overlap", "kv_replicated")
"""Options that the comparison goes through by itself."""


@dataclass(frozen=True)
class InferenceComparison:
    """What `netsim workload inference` compares: models, what is asked, and tables of all."""

    models: tuple[str, ...]
    limits: LatencyLimits
    tables: Mapping[str, Any]


def find_comparison(overrides: Sequence[str]) -> InferenceComparison:
    """The comparison with changes: `model`, [limits], [formats], [options] and [overheads]."""
    from netsim.experiment.document import apply_overrides
    from netsim.workloads.inference.limits import LatencyLimits
    from netsim.workloads.inference.lite import MODELS, REFERENCE, deployment_on
    from netsim.workloads.job.keys import read_part

    tree: dict[str, Any] = {}
    apply_overrides(tree, overrides)
    try:
        known = ("model", "limits", "formats", "options", "overheads")
        for key in tree:
            if key not in known:
                raise InputError("is not known", key=key, hint=did_you_mean(key, known))
        limits = read_part(LatencyLimits, tree.pop("limits", {}), "limits")
        model = tree.pop("model", None)
        if model is not None and not isinstance(model, str):
            raise InputError(f"{written(model)} is no name of a model", key="model")
        options = tree.get("options")
        if isinstance(options, Mapping):
            for name in (one for one in VARIED if one in options):
                hint = "all of its values are shown"
                raise InputError("is varied here", key=f"options.{name}", hint=hint)
        models = MODELS if model is None else (model,)
        deployment_on(REFERENCE, models[0], tree)
    except InputError as error:
        raise error.at(file=INFERENCE) from None
    return InferenceComparison(models, limits, tree)


def comparison_tables(comparison: InferenceComparison) -> Iterator[Table | Wide | str]:
    """Ratios by assumption, when the claim is true, and all limits."""
    from netsim.workloads.inference.lite import MATCHES

    rows = ratio_rows(comparison)
    if all(row.best is None for row in rows):
        yield from (_unserved(comparison, model) for model in comparison.models)
        return
    yield count_table(comparison)
    for model in comparison.models:
        for phase in ("prefill", "decode"):
            yield ratio_table(rows, model, phase)
    yield (
        "Tokens per second and multiprocessor (SM), of H100 as they are, of others to those of "
        f"H100 under the same assumption; * matches or outperforms it ({MATCHES:g} or more). H100 "
        "and its variants are from memory of the Lite-GPU paper: unverified. Measured overheads: "
        "vLLM of 2023 on H100, for every machine."
    )
    yield claim_table(rows)
    yield limit_table(comparison)


def _unserved(comparison: InferenceComparison, model: str) -> str:
    """What is said of a model that none of the machines can serve: too large, or too slow."""
    from netsim.workloads.inference.deployment import on_gpus
    from netsim.workloads.inference.limits import PHASES, best_batch, sizes
    from netsim.workloads.inference.lite import ALL, MACHINES, REFERENCE, assuming, deployment_on
    from netsim.workloads.inference.roofline import weight_bytes

    limits = comparison.limits
    every = [deployment_on(machine, model, comparison.tables) for machine in MACHINES]
    held = [one for each in every for one in sizes(assuming(each, ALL))]
    fit = [best_batch(one, limits, phase).memory_batch for one in held for phase in PHASES]
    if any(fit):
        ttft, tbt = format_time(limits.ttft), format_time(limits.tbt)
        return (
            f"{model}: no request keeps to the objectives, a time to the first token of {ttft} and "
            f"{tbt} between tokens. Looser ones may do (--set limits.ttft=2s, limits.tbt=0.1s)."
        )
    if fit:
        least = min(limits.tokens(phase) for phase in PHASES)
        return (
            f"{model}: no machine holds the keys and values of a request, {least:,} tokens or "
            "more. Fewer may do (--set limits.prompt=1500)."
        )
    one = every[MACHINES.index(REFERENCE)]
    gpus, memory = one.machine.domain_gpus, one.machine.memory
    need = format_bytes(round(weight_bytes(on_gpus(one, gpus)) * gpus), 4)
    return (
        f"{model}: no machine can serve it. On {gpus} GPUs its weights take {need} in "
        f"{one.formats.weights}; {gpus} {REFERENCE} hold {format_bytes(gpus * memory, 4)}, "
        "and so do the others. Smaller formats may do (--set formats.weights=fp4)."
    )


def comparison_figures(comparison: InferenceComparison) -> dict[str, Any]:
    """The same as plain figures."""
    return {
        "models": list(comparison.models),
        "limits": asdict(comparison.limits),
        "layers": _layers(comparison),
        "rows": [
            {
                "model": row.model,
                "machine": row.machine,
                "phase": row.phase,
                "assumption": row.assumption.name,
                "ratio": row.ratio,
                "matches": row.matches,
                "best": best_figures(row.best),
            }
            for row in ratio_rows(comparison)
        ],
        "sizes": [
            {"model": model, "machine": machine, "phase": phase, **(best_figures(best) or {})}
            for model, machine, both in _sizes(comparison)
            for phase, best in both
        ],
    }


def _layers(comparison: InferenceComparison) -> dict[str, dict[str, float]]:
    from netsim.workloads.inference.lite import REFERENCE, deployment_on
    from netsim.workloads.inference.roofline import layer_counts

    prompt, context = comparison.limits.prompt, comparison.limits.tokens("decode")
    return {
        model: layer_counts(
            deployment_on(REFERENCE, model, comparison.tables), prompt, context
        )._asdict()
        for model in comparison.models
    }


def ratio_rows(comparison: InferenceComparison) -> list[LiteRow]:
    """All rows of a comparison, under every assumption."""
    from netsim.workloads.inference.lite import ASSUMPTIONS, further_assumptions, lite_table

    every = (*ASSUMPTIONS, *further_assumptions())
    return lite_table(comparison.models, every, comparison.limits, comparison.tables)


def _assumptions(rows: Sequence[LiteRow]) -> list[Assumption]:
    return list(dict.fromkeys(row.assumption for row in rows))


def count_table(comparison: InferenceComparison) -> Wide:
    """What is counted in a layer of each model, for a prompt and for a token behind as many."""
    from netsim.workloads.inference.lite import REFERENCE, deployment_on
    from netsim.workloads.inference.roofline import layer_counts, reduce_share

    limits = comparison.limits
    prompt, context = limits.prompt, limits.tokens("decode")
    found = [deployment_on(REFERENCE, model, comparison.tables) for model in comparison.models]
    counts = [layer_counts(one, prompt, context) for one in found]
    layers = [one.model.layers for one in found]
    gpus = found[0].machine.domain_gpus
    sent = [2 * reduce_share(gpus) * one.all_reduce_bytes for one in counts]
    handed = [prompt * n * one.kv_bytes for n, one in zip(layers, counts, strict=True)]
    return Wide(
        [
            Column("model, per layer", list(comparison.models), left=True),
            Column("layers", [str(n) for n in layers]),
            Column("parameters", [f"{round(one.parameters):,}" for one in counts]),
            Column(
                f"GFLOP of a\nprompt of {prompt:,}", [_giga(one.prompt_flops) for one in counts]
            ),
            Column("GFLOP of a\ndecoded token", [_giga(one.decode_flops) for one in counts]),
            Column("KV bytes\nof a token", [f"{one.kv_bytes:,.0f}" for one in counts]),
            Column("KV cache,\nall layers", [format_bytes(round(n), 5) for n in handed]),
            Column("all-reduce\nof a prompt", [_size(one.all_reduce_bytes) for one in counts]),
            Column(f"sent by each\nof {gpus} GPUs", [_size(n) for n in sent]),
        ],
        title="Counts per layer; sent: by two all-reduces",
        elsewhere="--json has all",
    )


def _giga(flops: float) -> str:
    return f"{flops / 1e9:,.3f}"


def _size(size_bytes: float) -> str:
    return format_bytes(round(size_bytes), 5)


def ratio_table(rows: Sequence[LiteRow], model: str, phase: str) -> Wide:
    """A line for each assumption, a column for each machine."""
    chosen = [row for row in rows if (row.model, row.phase) == (model, phase)]
    names = [one.name for one in _assumptions(chosen)]
    columns = [Column(f"{model}, {phase}", names, left=True)]
    for machine in dict.fromkeys(row.machine for row in chosen):
        of_machine = [row for row in chosen if row.machine == machine]
        columns.append(Column(machine, [_ratio(row) for row in of_machine]))
    return Wide(columns, elsewhere="--json has all")


def _ratio(row: LiteRow) -> str:
    from netsim.workloads.inference.lite import REFERENCE

    if row.best is None or row.ratio is None:
        return "-"
    if row.machine == REFERENCE:
        return format_number(row.best.tokens_per_s_sm)
    return f"{row.ratio:.2f}" + "*" * row.matches


def claim_table(rows: Sequence[LiteRow]) -> Wide:
    """Under which assumption which variants match or outperform H100 for all models."""
    from netsim.workloads.inference.lite import true_of

    every = _assumptions(rows)
    columns = [Column("matches H100 for all models", [one.name for one in every], left=True)]
    for phase in ("prefill", "decode"):
        cells = [", ".join(true_of(rows, one, phase)) or "none" for one in every]
        columns.append(Column(phase, cells, left=True))
    return Wide(columns)


def _sizes(comparison: InferenceComparison) -> Iterator[tuple[str, str, list[tuple[str, Best]]]]:
    """Model, machine, and both phases on each number of GPUs, with all three assumptions."""
    from netsim.workloads.inference.limits import best_batch, sizes
    from netsim.workloads.inference.lite import ALL, MACHINES, assuming, deployment_on

    for model in comparison.models:
        for machine in MACHINES:
            base = assuming(deployment_on(machine, model, comparison.tables), ALL)
            for one in sizes(base):
                yield (
                    model,
                    machine,
                    [(p, best_batch(one, comparison.limits, p)) for p in ("prefill", "decode")],
                )


def limit_table(comparison: InferenceComparison) -> Wide:
    """Limits by memory and by the objectives, and best batches, on each number of GPUs."""
    from dataclasses import replace

    from netsim.workloads.inference import kv_capacity_tokens

    found = list(_sizes(comparison))
    prefill, decode = ([dict(both)[phase] for *_, both in found] for phase in ("prefill", "decode"))
    copied = []
    for one in decode:
        options = replace(one.deployment.options, kv_replicated=True)
        copied.append(kv_capacity_tokens(replace(one.deployment, options=options)))
    return Wide(
        [
            Column("model", [model for model, *_ in found], left=True),
            Column("machine", [machine for _, machine, _ in found], left=True),
            Column("GPUs", [str(one.deployment.tp) for one in decode]),
            Column(
                "weights\nof a GPU", [format_bytes(round(one.weight_bytes), 4) for one in decode]
            ),
            Column("tokens of KV,\ncopied", [f"{value:,}" for value in copied], rank=2),
            Column("tokens of KV,\nshared", [f"{one.capacity_tokens:,}" for one in decode]),
            Column("requests by\nmemory", [f"{one.memory_batch:,}" for one in decode]),
            Column("prefill\nby TTFT", [f"{one.time_batch:,}" for one in prefill]),
            Column("best", [f"{one.batch:,}" for one in prefill], rank=1),
            Column("tokens/s\nof an SM", [rate_of(one.tokens_per_s_sm) for one in prefill]),
            Column("decode\nby TBT", [f"{one.time_batch:,}" for one in decode]),
            Column("best", [f"{one.batch:,}" for one in decode], rank=1),
            Column("tokens/s\nof an SM", [rate_of(one.tokens_per_s_sm) for one in decode]),
        ],
        title="Limits by memory and by objectives, with overlap and KV shared",
        elsewhere="--json has all",
    )
