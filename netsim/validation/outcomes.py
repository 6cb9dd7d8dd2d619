"""Published outcomes of other simulators, and outcomes that were predicted before they were known.

The setups, with what the others found, are in `simulators.toml` and `predictions/`.
"""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.common.inputs import read_toml
from netsim.errors import InputError
from netsim.experiment import Experiment, built_in
from netsim.experiment.document import apply_overrides
from netsim.model.flows import FlowTable, TrafficContext
from netsim.model.network import Network
from netsim.plugins.registry import find
from netsim.running.point import simulate
from netsim.validation.bed import GBPS, US, Bed, fat_tree, fct_ps
from netsim.validation.laws import PAYLOAD, Measured

PREDICTIONS = Path(__file__).with_name("predictions")
LEVELS = (0.5, 0.9, 0.99, 1.0)
"""Quantiles of htsim's completion times."""

CLASSES = {
    "up to 1.5 KB": (1, 1500),
    "100 KB to 1 MB": (100_000, 1_000_000),
    "1 to 15 MB": (1_000_001, 15_000_000),
}
"""Smallest and largest flow of opera-sim's figures, in bytes."""


def htsim(
    matrix: Path | None = None,
    file: Path | None = None,
    *,
    setup: str,
    simulator: str,
    tree: tuple[int, int, int],
    runs: Sequence[Sequence[float]],
    hashed: bool,
    **ours: Any,
) -> Measured:
    """Measure quantiles of completion times at the sender, in us, on the flows of a connection
    matrix, else on permutations of our own.

    `tree` is hosts per leaf, leaves and Gbps; `runs` are the quantiles of their runs, unless `file`
    has the times. `hashed` says that flows keep the path that they hash to.
    """
    theirs = runs_of(file) if file else runs
    which = "their flows" if matrix else "other permutations"
    measured = _quantiles(fat_tree(*tree[:2], tree[2] * GBPS), matrix, **ours)
    for column, values in enumerate(measured):
        single = [run[column] for run in theirs]
        low, high, mean = min(single), max(single), float(np.mean(single))
        row = {"about": f"{setup}, {which}", "ours": float(values.mean()), "theirs": mean}
        row["source"] = f"{simulator}, {len(single)} run{'s' * (len(single) > 1)}"
        if hashed and values.min() <= high and low <= values.max():
            row["why"] = (
                f"hashes differ: ours is a mean over {values.size} draws from {values.min():.0f} "
                f"to {values.max():.0f} us, {(values < mean).mean():.0%} below theirs"
            )
        if len(single) > 1:
            row["spread"] = (low, high)
        yield row


def _quantiles(
    network: Network,
    matrix: Path | None,
    transport: str,
    seeds: int,
    params: Mapping[str, Any] | None = None,
    fabric: Mapping[str, Any] | None = None,
) -> NDArray[np.float64]:
    """Return our completion times in microseconds: a row for each of LEVELS, by seeds."""
    found = []
    for seed in range(1, seeds + 1):
        bed = Bed(transport, network, params or {}, fabric or {}, seed=seed)
        times = fct_ps(bed.engine(_flows(network, seed, matrix)), "acked_ps")
        found.append(np.quantile(times, LEVELS) / US)
    return np.array(found).T


def _flows(network: Network, seed: int, matrix: Path | None) -> FlowTable:
    """Return the flows of a matrix, or a permutation of our own, in whole packets."""
    given: dict[str, Any] = {"size": 2_000_000, "load": 1.0}
    if matrix is None:
        rng = np.random.default_rng(seed)
        flows = find("traffic", "permutation").module.flows(given, network, rng, None)
    else:
        given = {"file": str(matrix), "start_unit": "ps", "endless": None}
        context = TrafficContext(matrix.parent, seed, int(network.port_rate_bps[0]))
        flows = find("traffic", "htsim_cm").module.flows(given, network, None, context)
    return FlowTable(flows.src, flows.dst, -(-flows.size_bytes // PAYLOAD) * PAYLOAD)


def runs_of(file: Path) -> list[tuple[float, ...]]:
    """Return the quantiles of each run in a CSV file with the columns draw and fct_us."""
    runs = defaultdict(list)
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines):
                runs[row["draw"]].append(float(row["fct_us"]))
    except (OSError, KeyError, ValueError):
        raise InputError("needs columns draw and fct_us", file=str(file)) from None
    return [tuple(map(float, np.quantile(times, LEVELS))) for times in runs.values()]


def classes(
    experiment: str, column: str, n_flows: Sequence[int], published_ms: Sequence[Sequence[float]]
) -> Measured:
    """Measure median, mean and 99th percentile of completion times by size, in ms.

    A deviation within two standard errors of a bootstrap is explained by few flows.
    """
    (point,) = Experiment.load(built_in()[experiment]).points()
    flows = simulate(point).flows
    size, took = flows["size_bytes"], flows[column] / 1e9
    rng = np.random.default_rng(1)
    for number, (label, (least, most)) in enumerate(CLASSES.items()):
        some = took[(size >= least) & (size <= most) & (flows["fct_ps"] >= 0)]
        errors = _statistics(rng.choice(some, (1000, some.size))).std(axis=1)
        source = f"opera-sim c098613, Figure7_datamining, {n_flows[number]} flows; here {some.size}"
        for statistic, ours, theirs, error in zip(
            ("median", "mean", "p99"), _statistics(some), published_ms[number], errors, strict=True
        ):
            few = f"{some.size} flows here: this has a standard error of {error / ours:.0%}"
            yield {
                "label": label,
                "statistic": statistic,
                "ours": float(ours),
                "theirs": theirs,
                "source": source,
                "why": few if abs(ours - theirs) < 2 * error else "",
            }


def _statistics(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return median, mean and 99th percentile along the last axis."""
    median, p99 = np.quantile(values, [0.5, 0.99], axis=-1)
    return np.array([median, values.mean(axis=-1), p99])


def slowdowns(workload: int, short_bytes: int, long_bytes: int) -> Measured:
    """Measure the mean and p99 slowdown of short messages and the mean of long ones."""
    (point,) = experiment_of("homa.toml", f"homa_w{workload}_80").points()
    flows = simulate(point).flows
    size, slowdown = flows["size_bytes"], flows["slowdown"]
    short, long = slowdown[size <= short_bytes], slowdown[size >= long_bytes]
    for value in (short.mean(), np.quantile(short, 0.99), long.mean()):
        yield {"ours": float(value)}


def experiment_of(file: str, name: str) -> Experiment:
    """Return the experiment of a case of a file in `predictions`."""
    path = PREDICTIONS / file
    tree = read_toml(path)
    texts = [f"{key}={json.dumps(value)}" for key, value in tree["cases"][name]["set"].items()]
    overridden = apply_overrides(tree["experiment"], texts)
    return Experiment.from_tree(tree["experiment"], str(path), path.parent, overridden)


def predicted(file: str) -> Measured:
    """Yield what was predicted of each case of a file in `predictions`, and its outcome."""
    tree = read_toml(PREDICTIONS / file)
    for case in tree["cases"].values():
        for name, quantity in tree["quantities"].items():
            yield {
                "title": f"{case['about']}: {name.replace('_', ' ')}",
                "ours": case["predicted"][name],
                "theirs": case["truth"][name],
                "unit": quantity.get("unit", ""),
                "tolerance": quantity["tolerance"],
                "because": quantity["because"],
                "source": f"{case['source']}; predicted {tree['predicted']['on']}",
                "why": case.get("why", {}).get(name, ""),
            }
