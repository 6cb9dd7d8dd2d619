"""Small made-up points and results for code that only passes them on."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

HERE = Path(__file__)
IDEAL_PS = 1_000_000


@dataclass
class FakeResult:
    """The attributes of netsim.running.point.RunResult."""

    flows: dict[str, np.ndarray]
    links: dict[str, np.ndarray]
    summary: dict[str, Any]
    complete: bool = True
    stop_reason: str = "finished"
    hash: str = ""
    reason: str | None = None
    more: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)

    @property
    def tables(self) -> dict[str, dict[str, np.ndarray]]:
        return {"flows": self.flows, "links": self.links} | self.more


@dataclass
class FakePoint:
    """The attributes of netsim.experiment.Point that writing results needs."""

    name: str = "tiny"
    index: int = 0
    axes: dict[str, Any] = field(default_factory=dict)
    seed: int = 1
    transport_name: str = "ndp"
    directory: Path = HERE.parent
    file: str = "tiny.toml"

    def __post_init__(self) -> None:
        self.topology = _choice("topology", "fat_tree")
        self.transport = _choice("transport", self.transport_name)
        self.traffic = _choice("traffic", "permutation")
        self.uses = (self.topology, self.transport, self.traffic)
        self.outputs = SimpleNamespace(directory="results/tiny", links=True, plot=False)
        self.resolved = {
            "name": "tiny",
            "seed": self.seed,
            "transport": {"kind": self.transport_name},
        }


def _choice(kind: str, name: str) -> SimpleNamespace:
    module = SimpleNamespace(__name__=f"netsim.{kind}")
    plugin = SimpleNamespace(kind=kind, name=name, path=HERE, module=module, params=())
    return SimpleNamespace(plugin=plugin, name=name, params={}, module=module)


def fake_result(
    n_flows: int = 8,
    *,
    unfinished: int = 0,
    sizes: np.ndarray | None = None,
    complete: bool = True,
    stop_reason: str = "finished",
    reason: str | None = None,
    seed: int = 1,
) -> FakeResult:
    """Return a result of `n_flows` flows, the last `unfinished` of them incomplete."""
    rng = np.random.default_rng(seed)
    slowdown = 1 + rng.exponential(0.5, n_flows)
    ideal = np.full(n_flows, IDEAL_PS, np.int64)
    if sizes is None:
        sizes = np.full(n_flows, 10_000, np.int64)
    fct = (ideal * slowdown).astype(np.int64)
    slowdown = fct / ideal
    if unfinished:
        fct[-unfinished:] = -1
        slowdown[-unfinished:] = np.nan
    flows = {
        "flow": np.arange(n_flows),
        "src": np.arange(n_flows, dtype=np.int32),
        "dst": np.roll(np.arange(n_flows, dtype=np.int32), 1),
        "size_bytes": sizes,
        "start_ps": np.zeros(n_flows, np.int64),
        "fct_ps": fct,
        "acked_ps": np.where(fct < 0, -1, fct + 1000),
        "ideal_ps": ideal,
        "slowdown": slowdown,
        "packets": np.full(n_flows, 3),
        "packets_sent": np.full(n_flows, 4),
        "retransmits": np.full(n_flows, 1),
        "traffic_class": np.zeros(n_flows, np.int16),
    }
    links = _links()
    done = fct[fct >= 0]
    digest = hashlib.sha256(fct.tobytes()).hexdigest()
    summary = {
        "simulated_ps": 2_000_000,
        "wall_s": 0.5,
        "compile_s": 0.1,
        "packet_hops": 1_000_000,
        "packet_hops_per_s": 2.5e6,
        "threads": 1,
        "flows": n_flows,
        "flows_finished": len(done),
        "fct_ps": _statistics(done),
        "slowdown": _statistics(slowdown[fct >= 0]),
        "drops": 0,
        "lost": 0,
        "unroutable": 0,
        "trims": 12,
        "ecn_marks": 0,
        "retransmits": n_flows,
        "ideal_max_ps": IDEAL_PS if n_flows else None,
        "pfc_pauses": 0,
        "conservation": {},
        "hash": digest,
    }
    return FakeResult(flows, links, summary, complete, stop_reason, digest, reason)


def _statistics(values: np.ndarray) -> dict[str, float]:
    if not len(values):
        return dict.fromkeys(("mean", "p50", "p99", "max"), float("nan"))
    return {
        "mean": values.mean(),
        "p50": np.percentile(values, 50),
        "p99": np.percentile(values, 99),
        "max": values.max(),
    }


def _links() -> dict[str, np.ndarray]:
    """Return links of two hosts under one leaf with two classes: four links, eight rows."""
    names = np.array(["host 0", "host 1", "leaf 0"])
    from_node = np.repeat([0, 1, 2, 2], 2)
    to_node = np.repeat([2, 2, 0, 1], 2)
    rows = len(from_node)
    return {
        "link": np.repeat(np.arange(4), 2),
        "from_node": from_node,
        "to_node": to_node,
        "from_name": names[from_node],
        "to_name": names[to_node],
        "traffic_class": np.tile([0, 1], 4),
        "rate_bps": np.full(rows, 800_000_000_000),
        "bytes": np.full(rows, 50_000),
        "packets": np.full(rows, 20),
        "drops": np.zeros(rows, np.int64),
        "lost": np.zeros(rows, np.int64),
        "unroutable": np.zeros(rows, np.int64),
        "unroutable_bytes": np.zeros(rows, np.int64),
        "lost_bytes": np.zeros(rows, np.int64),
        "drop_bytes": np.zeros(rows, np.int64),
        "trims": np.full(rows, 3),
        "ecn_marks": np.zeros(rows, np.int64),
        "max_queue_bytes": np.arange(rows) * 4160,
        "pfc_pauses_sent": np.zeros(rows, np.int64),
        "paused_ps": np.zeros(rows, np.int64),
        "utilization": np.full(rows, 0.25),
    }
