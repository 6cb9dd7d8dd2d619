"""`netsim workload` of inference: a deployment, and Lite-GPUs against H100."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.cli.wide import Column, Wide, plain_table
from netsim.cli.workload_tables import count_of, duration
from netsim.errors import InputError, did_you_mean
from netsim.units import format_bytes, format_number, written

if TYPE_CHECKING:
    from rich.table import Table

    from netsim.inference.deployment import Deployment
    from netsim.inference.limits import Best, Limits
    from netsim.inference.lite import Assumption, LiteRow

PS_PER_S = 1e12
INFERENCE = "inference"

VARIED = ("tp", "overlap", "kv_replicated")
"""Options that the comparison goes through by itself."""

BATCHES = (1, 8, 64)


@dataclass(frozen=True)
class Comparison:
    """What `netsim workload inference` compares: models, what is asked, and tables of all."""

    models: tuple[str, ...]
    limits: Limits
    tables: Mapping[str, Any]


def find_comparison(overrides: Sequence[str]) -> Comparison:
    """The comparison with changes: `model`, [limits], [formats], [options] and [costs]."""
    from netsim.experiment.document import apply_overrides
    from netsim.inference.limits import Limits
    from netsim.inference.lite import MODELS, REFERENCE, deployment_on
    from netsim.job.keys import read_part

    tree: dict[str, Any] = {}
    apply_overrides(tree, overrides)
    try:
        known = ("model", "limits", "formats", "options", "costs")
        for key in tree:
            if key not in known:
                raise InputError("is not known", key=key, hint=did_you_mean(key, known))
        limits = read_part(Limits, tree.pop("limits", {}), "limits")
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
    return Comparison(models, limits, tree)


def find_deployment(
    name: str, directory: Path, overrides: Sequence[str]
) -> tuple[Deployment, Limits] | None:
    """The deployment that a name or a file stands for, with changes; none if it is one of a job."""
    from netsim.experiment.document import apply_overrides
    from netsim.inference import presets
    from netsim.inference.limits import Limits
    from netsim.inference.load import deployment_from
    from netsim.inputs import is_file, path_problem
    from netsim.job.keys import read_part
    from netsim.job.load import read_toml

    path = directory / name if not path_problem(name) else None
    if path is None or not is_file(path):
        path = presets().get(name)
    if path is None:
        return None
    tree = read_toml(path)
    if not tree.keys() & {"formats", "options", "costs", "limits"} or "layout" in tree:
        return None
    for part in ("model", "machine", "costs"):
        if overrides and isinstance(tree.get(part), str):
            tree[part] = {"preset": tree[part]}
    apply_overrides(tree, overrides)
    try:
        limits = read_part(Limits, tree.pop("limits", {}), "limits")
        return deployment_from(tree, path.stem, path.parent), limits
    except InputError as error:
        raise error.at(file=str(path)) from None


def deployment_tables(deployment: Deployment, limits: Limits) -> Iterator[Table | Wide | str]:
    """What a deployment is, what its iterations are made of, and the best batches by size."""
    from netsim.inference.limits import best_batch, sizes

    yield _shape(deployment)
    found = list(sizes(deployment))
    if found:
        best = [best_batch(one, limits, phase) for one in found for phase in ("prefill", "decode")]
        fastest = max(best, key=lambda one: (one.phase == "decode", one.tokens_per_s))
        yield _iterations(fastest.deployment, limits, fastest.batch)
        yield _best(best)
    else:
        yield "No number of GPUs of its network can share and hold it."


def deployment_figures(deployment: Deployment, limits: Limits) -> dict[str, Any]:
    """The same as plain figures: bytes, picoseconds, tokens."""
    from netsim.inference import iteration_cost, kv_bytes_of_token
    from netsim.inference.limits import best_batch, sizes

    return {
        **asdict(deployment),
        "limits": asdict(limits),
        "kv_bytes_of_token": kv_bytes_of_token(deployment),
        "sizes": [
            {
                "tp": one.tp,
                "iteration_cost": iteration_cost(one)._asdict(),
                **{
                    phase: best_figures(best_batch(one, limits, phase))
                    for phase in ("prefill", "decode")
                },
            }
            for one in sizes(deployment)
        ],
    }


def best_figures(best: Best | None) -> dict[str, Any] | None:
    """A best batch as plain figures."""
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


def _shape(deployment: Deployment) -> Table:
    from netsim.inference import kv_bytes_of_token
    from netsim.inference.deployment import dense_parameters
    from netsim.job.model import parameters

    model, options, formats = deployment.model, deployment.options, deployment.formats
    table = plain_table("", "", title=deployment.name)
    table.show_header = False
    table.add_row("parameters", count_of(parameters(model).total))
    table.add_row(
        "matrices of a layer", f"{count_of(dense_parameters(model))}, {model.layers} layers"
    )
    kv = format_bytes(round(kv_bytes_of_token(deployment)), 4)
    table.add_row("keys and values", f"{kv} a token")
    size = f"{options.tp} GPUs" if options.tp else "GPUs searched"
    beside = "beside computing" if options.overlap else "behind computing"
    table.add_row("a copy", f"{size}, all-reduces {beside} ({options.all_reduce})")
    told = ", ".join(f"{name} {value}" for name, value in asdict(formats).items())
    table.add_row("formats", told)
    table.add_row("figures of the machine", deployment.machine.source)
    table.add_row("costs", deployment.costs.source)
    return table


def _iterations(deployment: Deployment, limits: Limits, most: int) -> Wide:
    """A prompt, and batches that decode: how long each part takes by itself."""
    from netsim.inference import compute_ps, iteration_cost, iteration_ps, network_ps, prompt_pairs

    cost = iteration_cost(deployment)
    causal = deployment.options.attention == "causal"
    prompt, context = limits.prompt, limits.tokens("decode")
    cases = [("a prompt", prompt, prompt_pairs(causal, 0, prompt), 0)]
    sizes = sorted({*BATCHES, most} - {0})
    cases += [(f"{batch:,} decode", batch, 0, batch) for batch in sizes]
    columns = [Column(f"iteration on {deployment.tp} GPUs", [one[0] for one in cases], left=True)]
    parts: dict[str, list[float]] = {}
    for _, tokens, pairs, batch in cases:
        rows = cost.prompt_row_ps * (tokens - batch) + cost.decode_row_ps * batch
        weights = cost.weights_ps + cost.experts_ps * min(1.0, cost.expert_share * tokens)
        attention = cost.pair_ps * pairs + cost.context_ps * batch * context
        added = cost.layers_ps + cost.iteration_ps
        sequences = batch + min(1, tokens - batch)
        for name, value in (
            ("matrices,\ncomputed", rows),
            ("matrices,\nread", weights),
            ("attention,\ncomputed", attention),
            ("attention,\nread", cost.kv_ps * batch * context),
            ("software", added + cost.sequence_ps * sequences),
            ("all but\nall-reduces", compute_ps(cost, tokens, pairs, batch, batch * context)),
            ("all-reduces", network_ps(cost, tokens)),
            ("iteration", iteration_ps(cost, tokens, pairs, batch, batch * context)),
        ):
            parts.setdefault(name, []).append(value)
    for rank, (name, values) in enumerate(reversed(parts.items())):
        columns.insert(1, Column(name, [duration(value) for value in values], rank=rank))
    return Wide(columns, elsewhere="--json has all")


def _best(found: Sequence[Best]) -> Wide:
    """The best batches by phase and number of GPUs, and what bounds them."""
    first = found[0].deployment.machine.sms
    columns = [
        Column("best batch", [one.phase for one in found], left=True),
        Column("GPUs", [str(one.deployment.tp) for one in found]),
        Column("weights\nof a GPU", [format_bytes(round(one.weight_bytes), 4) for one in found], 3),
        Column("tokens of keys\nand values", [f"{one.capacity_tokens:,}" for one in found], 2),
        Column("batch by\nmemory", [f"{one.memory_batch:,}" for one in found]),
        Column("batch by\nobjective", [f"{one.time_batch:,}" for one in found]),
        Column("best", [f"{one.batch:,}" for one in found]),
        Column("limit", [one.limit for one in found], left=True),
        Column("iteration", [duration(one.time_ps) for one in found]),
        Column("tokens/s\nof a GPU", [_rate(one.tokens_per_s) for one in found]),
    ]
    if first:
        columns.append(Column("tokens/s\nof an SM", [_rate(one.tokens_per_s_sm) for one in found]))
    return Wide(columns, elsewhere="--json has all")


def _rate(value: float) -> str:
    return format_number(value) if value else "-"


def comparison_tables(comparison: Comparison) -> Iterator[Table | Wide | str]:
    """Ratios by assumption, when the claim is true, and all limits."""
    from netsim.inference.lite import MATCHES

    rows = ratio_rows(comparison)
    for model in comparison.models:
        for phase in ("prefill", "decode"):
            yield ratio_table(rows, model, phase)
    yield (
        "Tokens per second and multiprocessor (SM), of H100 as they are, of others to those of "
        f"H100 under the same assumption; * matches or outperforms it ({MATCHES:g} or more). H100 "
        "and its variants are from memory of the Lite-GPU paper: unverified. Measured costs are "
        "those of vLLM in 2023 on H100, for every machine."
    )
    yield claim_table(rows)
    yield limit_table(comparison)


def comparison_figures(comparison: Comparison) -> dict[str, Any]:
    """The same as plain figures."""
    return {
        "models": list(comparison.models),
        "limits": asdict(comparison.limits),
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


def ratio_rows(comparison: Comparison) -> list[LiteRow]:
    """All rows of a comparison, under every assumption."""
    from netsim.inference.lite import ASSUMPTIONS, further_assumptions, lite_table

    every = (*ASSUMPTIONS, *further_assumptions())
    return lite_table(comparison.models, every, comparison.limits, comparison.tables)


def _assumptions(rows: Sequence[LiteRow]) -> list[Assumption]:
    return list(dict.fromkeys(row.assumption for row in rows))


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
    from netsim.inference.lite import REFERENCE

    if row.best is None or row.ratio is None:
        return "-"
    if row.machine == REFERENCE:
        return format_number(row.best.tokens_per_s_sm)
    return f"{row.ratio:.2f}" + "*" * row.matches


def claim_table(rows: Sequence[LiteRow]) -> Wide:
    """Under which assumption which variants match or outperform H100 for all models."""
    from netsim.inference.lite import true_of

    every = _assumptions(rows)
    columns = [Column("matches H100 for all models", [one.name for one in every], left=True)]
    for phase in ("prefill", "decode"):
        cells = [", ".join(true_of(rows, one, phase)) or "none" for one in every]
        columns.append(Column(phase, cells, left=True))
    return Wide(columns)


def _sizes(comparison: Comparison) -> Iterator[tuple[str, str, list[tuple[str, Best]]]]:
    """Model, machine, and both phases on each number of GPUs, with all three assumptions."""
    from netsim.inference.limits import best_batch, sizes
    from netsim.inference.lite import ALL, MACHINES, assuming, deployment_on

    for model in comparison.models:
        for machine in MACHINES:
            base = assuming(deployment_on(machine, model, comparison.tables), ALL)
            for one in sizes(base):
                yield (
                    model,
                    machine,
                    [(p, best_batch(one, comparison.limits, p)) for p in ("prefill", "decode")],
                )


def limit_table(comparison: Comparison) -> Wide:
    """Limits by memory and by the objectives, and best batches, on each number of GPUs."""
    from dataclasses import replace

    from netsim.inference import kv_capacity_tokens

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
            Column("tokens/s\nof an SM", [_rate(one.tokens_per_s_sm) for one in prefill]),
            Column("decode\nby TBT", [f"{one.time_batch:,}" for one in decode]),
            Column("best", [f"{one.batch:,}" for one in decode], rank=1),
            Column("tokens/s\nof an SM", [_rate(one.tokens_per_s_sm) for one in decode]),
        ],
        title="Limits by memory and by objectives, with overlap and KV shared",
        elsewhere="--json has all",
    )
