"""Outcomes of csg-htsim and uet-htsim on the same networks.

Fat trees of two tiers without oversubscription, 1 us a link, 4096 bytes of payload in packets of
4160 bytes, control packets of 64. All flows start at 0 and are complete when the sender has the
acknowledgment that covers them; 2 MB are 489 whole packets. Of NDP and NSCC there is one run of
theirs per setup. Their RoCE draws a new hash in each run.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.accuracy import homa, rotors
from netsim.accuracy.bed import GBPS, US, Bed, acked_ps, fat_tree
from netsim.accuracy.cases import Case, Row, Tolerance
from netsim.errors import InputError
from netsim.model.flows import FlowTable, TrafficContext
from netsim.plugins.registry import find

PAYLOAD, FLOW_BYTES = 4096, 2_000_000
QUANTILES = {"median": 0.5, "nine in ten": 0.9, "p99": 0.99, "last flow": 1.0}

SPRAYED = Tolerance(0.03, "means over seeds; packets take other random paths")
TAIL = Tolerance(0.10, "the slowest flows of single runs")
HASHED = Tolerance(0.10, "flows hash to other paths")

REASON = "hashes differ: ours is a mean over {} draws from {:.0f} to {:.0f} us, {:.0%} below theirs"

Figures = tuple[float, ...]
"""Microseconds at QUANTILES."""


@dataclass(frozen=True)
class Setup:
    """A setup and their completion times, one tuple for each of their runs.

    `file` is the CSV of each flow's time, `matrix` the flows. `sprayed` says whether each packet of
    a flow can take another path.
    """

    name: str
    bed: tuple[int, int, int]  # hosts per leaf, leaves, Gbps
    transport: str
    matrix: str
    file: str
    theirs: tuple[Figures, ...]
    sprayed: bool
    seeds: int
    params: dict[str, Any] = field(default_factory=dict)
    fabric: dict[str, Any] = field(default_factory=dict)

    @property
    def n_hosts(self) -> int:
        return self.bed[0] * self.bed[1]


SMALL, LARGE = (8, 16, 100), (32, 32, 800)
PERMUTATION = {128: "perm_128n_128c_0u_2000000b.cm", 1024: "perm_1024n_1024c_0u_2000000b.cm"}

SETUPS = (
    Setup(
        *("NDP, 128 hosts", SMALL, "ndp", PERMUTATION[128], "128n_100g_ndp_perm.csv"),
        theirs=((177.57, 178.01, 178.29, 178.35),),
        sprayed=True,
        seeds=2,
        params={"initial_window": 50},
        fabric={"queue_bytes": "35pkt"},
    ),
    Setup(
        *("NDP, 1,024 hosts", LARGE, "ndp", PERMUTATION[1024], "1024n_800g_ndp_perm.csv"),
        theirs=((29.34, 29.47, 29.55, 29.69),),
        sprayed=True,
        seeds=2,
        params={"initial_window": 300},
        fabric={"queue_bytes": "200pkt"},
    ),
    Setup(
        *("NDP on single paths, 128 hosts", SMALL, "ndp"),
        *(PERMUTATION[128], "128n_100g_ndp_flowecmp.csv"),
        theirs=((343.55, 532.52, 682.4, 686.39),),
        sprayed=False,
        seeds=100,
        params={"initial_window": 50},
        fabric={"queue_bytes": "35pkt", "routing": "ecmp"},
    ),
    Setup(
        *("RoCE, 128 hosts", SMALL, "roce:htsim", PERMUTATION[128], "128n_100g_roce_flowecmp.csv"),
        theirs=((342.46, 510.03, 741.22, 744.18), (352.82, 533.92, 664.79, 668.97)),
        sprayed=False,
        seeds=100,
    ),
    Setup(
        *("RoCE, 1,024 hosts", LARGE, "roce:800g", PERMUTATION[1024]),
        "1024n_800g_roce_flowecmp_pfc96_120.csv",
        theirs=(
            (55.01, 86.11, 110.73, 150.84),
            (56.63, 86.0, 109.73, 110.78),
            (55.59, 87.32, 121.65, 131.12),
        ),
        sprayed=False,
        seeds=5,
    ),
    Setup(
        *("NSCC with REPS, 128 hosts", SMALL, "nscc:100g", PERMUTATION[128]),
        "128n_100g_uec_nscc_reps.csv",
        theirs=((189.98, 196.49, 200.77, 200.94),),
        sprayed=True,
        seeds=6,
        params={"paths": "reps"},
    ),
    Setup(
        *("NSCC, oblivious, 128 hosts", SMALL, "nscc:100g", PERMUTATION[128]),
        "128n_100g_uec_nscc_oblivious.csv",
        theirs=((191.52, 202.16, 231.66, 245.01),),
        sprayed=True,
        seeds=6,
        params={"paths": "oblivious"},
    ),
    Setup(
        *("NSCC on single paths, 128 hosts", SMALL, "nscc:100g", PERMUTATION[128]),
        "128n_100g_uec_nscc_flowecmp.csv",
        theirs=((334.01, 541.18, 775.52, 877.32),),
        sprayed=False,
        seeds=100,
        params={"paths": "ecmp"},
    ),
    Setup(
        *("RoCE, 32 to 1, 128 hosts", SMALL, "roce:htsim"),
        *("incast_128n_32c_1MB.cm", "incast32_1MB_128n_roce.csv"),
        theirs=((2358.09, 2582.13, 2614.37, 2615.51),),
        sprayed=False,
        seeds=5,
    ),
)
"""Their quantiles, as recorded with release builds."""


def _flows(setup: Setup, seed: int, matrix: Path | None) -> FlowTable:
    """Return the flows of a matrix, or a permutation of our own, in whole packets."""
    network = fat_tree(*setup.bed[:2], setup.bed[2] * GBPS)
    if matrix is None:
        params: dict[str, Any] = {"size": FLOW_BYTES, "load": 1.0}
        rng = np.random.default_rng(seed)
        flows = find("traffic", "permutation").module.flows(params, network, rng, None)
    else:
        params = {"file": str(matrix), "start_unit": "ps", "endless": None}
        context = TrafficContext(matrix.parent, seed, setup.bed[2] * GBPS)
        flows = find("traffic", "htsim_cm").module.flows(params, network, None, context)
    return FlowTable(flows.src, flows.dst, -(-flows.size_bytes // PAYLOAD) * PAYLOAD)


def ours(setup: Setup, matrix: Path | None) -> NDArray[np.float64]:
    """Return our completion times in microseconds: a row for each of QUANTILES, by seeds."""
    network = fat_tree(*setup.bed[:2], setup.bed[2] * GBPS)
    found = []
    for seed in range(1, setup.seeds + 1):
        bed = Bed(setup.transport, network, setup.params, setup.fabric, seed=seed)
        times = acked_ps(bed.engine(_flows(setup, seed, matrix)))
        found.append(np.quantile(times, list(QUANTILES.values())) / US)
    return np.array(found).T


def outcomes(file: Path) -> list[Figures]:
    """Return the quantiles of each run in a CSV file with the columns draw and fct_us."""
    runs = defaultdict(list)
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines):
                runs[row["draw"]].append(float(row["fct_us"]))
    except (OSError, KeyError, ValueError):
        raise InputError("needs columns draw and fct_us", file=str(file)) from None
    levels = list(QUANTILES.values())
    return [tuple(map(float, np.quantile(times, levels))) for times in runs.values()]


def compare(setup: Setup, matrix: Path | None = None, file: Path | None = None) -> Iterator[Row]:
    """Compare quantiles: on their flows if there is a matrix, else on permutations of our own."""
    theirs: Sequence[Figures] = outcomes(file) if file else setup.theirs
    which = "their flows" if matrix else "other permutations"
    simulator = "uet-htsim" if setup.transport.startswith("nscc") else "csg-htsim"
    for column, (name, values) in enumerate(zip(QUANTILES, ours(setup, matrix), strict=True)):
        runs = [run[column] for run in theirs]
        below = float((values < np.mean(runs)).mean())
        drawn = not setup.sprayed and values.min() <= max(runs) and min(runs) <= values.max()
        yield Row(
            f"{setup.name}, {which}: {name}",
            float(values.mean()),
            float(np.mean(runs)),
            "us",
            (SPRAYED if column < 2 else TAIL) if setup.sprayed else HASHED,
            f"{simulator}, {len(runs)} run{'s' * (len(runs) > 1)}",
            REASON.format(values.size, values.min(), values.max(), below) if drawn else "",
            (min(runs), max(runs)) if len(runs) > 1 else None,
        )


QUICK = ("128n_100g_ndp_perm", "128n_100g_uec_nscc_reps", "1024n_800g_roce_flowecmp_pfc96_120")


def cases() -> Iterator[Case]:
    for setup in SETUPS:
        name, seconds = setup.file.removesuffix(".csv"), setup.n_hosts * setup.seeds / 500
        if "perm" in setup.matrix:
            yield Case(name, partial(compare, setup), seconds, quick=name in QUICK)
        on_theirs = partial(compare, setup)
        needs = (setup.matrix, setup.file)
        yield Case(f"{name}_their_flows", on_theirs, seconds, needs=needs)
    yield from rotors.cases()
    yield from homa.cases()
