"""Outcomes that Ultra Ethernet's simulator records: its validate.csv, a row of it a run.

Repository ultraethernet/uet-htsim, htsim/sim/datacenter: validate_outputs has the outcomes of its
plans of 2025-08, connection_matrices and topologies their inputs. `validate.csv` has a line for
each plan: case, options, first_us, last_us, new_pkts, rtx_pkts, acks and more. Its rules are taken
as they are: base round trip of the network, all arrivals counted in ACKs, queues of one
bandwidth-delay product, also on slow links, paths that are good if packets are trimmed at the last
hop, and no marks there if receivers give credits.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from netsim.engine.simulation import Options
from netsim.experiment import Experiment
from netsim.experiment.scenario import prepare
from netsim.running.drive import drive
from netsim.running.point import build_engine
from netsim.validation.laws import Measured

SEEDS = 5
COUNTED = 1000
"""Packets from which on a count is compared."""

PACKET, RATE_GBPS = 4150, 100
DIAMETERS = {2: (4, 29, 6, 24), 3: (6, 43, 9, 35)}
"""By tiers: links of the longest path, queue and ECN thresholds in packets."""

ONE_CONNECTION = {"1f10m1p": "1f1m10p", "1f10m10p": "1f1m100p"}
"""Matrices of several messages in a connection, and those of one with as many packets."""

TREES = {"leaf_spine_1024_oversub.topo": 4.0, "leaf_spine_1024_oversub_8-1.topo": 8.0}
"""Topologies, and the ratio of hosts to uplinks of a leaf."""


def outcomes(plans: Path, *files: Path, pattern: str) -> Measured:
    """Measure the plans whose name contains `pattern`: last finish, retransmissions and ACKs."""
    with plans.open(newline="", encoding="utf-8") as lines:
        rows = [row for row in csv.DictReader(lines) if pattern in row["case"]]
    for row in rows:
        content = experiment(_options(row["options"]), {file.name: file for file in files})
        jit = "connreuse" not in row["case"]  # plain Python is faster for few packets
        runs = [outcome(content, seed, jit) for seed in range(1, SEEDS + 1)]
        last_us, retransmissions, acks = np.mean(runs, axis=0).tolist()
        for what, unit, ours, theirs in (
            ("last finish", "us", last_us, row["last_us"]),
            ("retransmissions", "packets", retransmissions, row["rtx_pkts"]),
            ("ACKs", "packets", acks, row["acks"]),
        ):
            if unit == "us" or float(theirs) > COUNTED:
                title = f"{row['case']}: {what}"
                yield {"title": title, "ours": ours, "theirs": float(theirs), "unit": unit}


def _options(text: str) -> dict[str, str]:
    """Return the options of a plan; those without a value have ""."""
    words = text.split()
    following = [*words[1:], "-"]
    values = {a: "" if b.startswith("-") else b for a, b in zip(words, following, strict=True)}
    return {name: value for name, value in values.items() if name.startswith("-")}


def experiment(options: Mapping[str, str], files: Mapping[str, Path]) -> dict[str, Any]:
    """Return a plan as an experiment."""
    name = Path(options["-tm"]).name
    for several, one in ONE_CONNECTION.items():
        name = name.replace(f"_{several}.", f"_{one}.")
    matrix = files[name]
    nodes = re.search(r"Nodes (\d+)", matrix.read_text("utf-8"))
    assert nodes is not None
    topology: dict[str, Any] = {"kind": "fat_tree"}
    if "-topo" in options:
        topology["topo_file"] = str(files[Path(options["-topo"]).name])
    else:
        topology |= {"tiers": 3, "radix": round((4 * int(nodes[1])) ** (1 / 3))}
        topology["host_rate"] = f"{RATE_GBPS}Gbps"
    links, queue, kmin, kmax = DIAMETERS[2 if "-topo" in options else 3]
    queue = int(options.get("-q", queue))
    base_ps = links * (2 * 10**6 + (PACKET + 64) * 8000 // RATE_GBPS)
    product = base_ps * RATE_GBPS / 8000

    def in_bdp(packets: int) -> str:
        return f"{packets * PACKET / product:.7f}bdp"

    n_paths = int(options.get("-paths", 64))
    transport: dict[str, Any] = {
        "kind": "nscc",
        "rto": f"{15_000_000 + 6 * queue * PACKET * 8000 // RATE_GBPS}ps",
        "ack_bytes": options.get("-sack_threshold", "16384") + "B",
        "base_rtt": f"{base_ps}ps",
        "ack_report": "all",
        "last_hop_trims": "good",
        "paths": "ecmp" if n_paths == 1 else options.get("-load_balancing_algo", "mixed"),
        "entropies": n_paths,
    }
    if "-cwnd" in options:
        transport["first_window"] = f"{int(options['-cwnd']) * PACKET}B"
    if options.keys() & {"-receiver_cc", "-receiver_cc_only"}:
        transport["kind"] = "rccc"
        transport["sender_window"] = "-sender_cc" in options
        transport["oversubscription"] = TREES.get(Path(options.get("-topo", "")).name, 1.0)
    slow = {"rate": f"{RATE_GBPS // 4}Gbps", "resize_queues": True}
    ecn: dict[str, Any] = {
        "kmin_bytes": in_bdp(kmin),
        "kmax_bytes": in_bdp(kmax),
        "pmax": 1.0,
        "at": "dequeue",
    }
    ecn["last_hop"] = transport["kind"] == "nscc"
    content: dict[str, Any] = {
        "name": "plan",
        "topology": topology,
        "packets": {"payload_bytes": "4086B", "header_bytes": "64B", "control_bytes": "64B"},
        "traffic": {"kind": "htsim_cm", "file": str(matrix), "start_unit": "us"},
        "transport": transport,
        "stop": {"max_time": "60ms"},
        "fabric": {
            "queue_discipline": "trim",
            "routing": "ecmp",
            "queue_bytes": in_bdp(queue),
            "header_queue_bytes": f"{2 * queue * PACKET}B",
            "header_ratio": 100_000,
            "ecn": ecn,
        },
    }
    failed = range(int(options.get("-failed", 0)))
    if failed:
        content["faults"] = {f"f{n}": {"links": f"core{n} -> spine0", **slow} for n in failed}
    return content


def outcome(content: Mapping[str, Any], seed: int, jit: bool = True) -> tuple[float, float, float]:
    """Return the last finish in us, retransmissions and ACKs of a run."""
    (point,) = Experiment.from_mapping({**content, "seed": seed}).points()
    engine = build_engine(point, prepare(point), Options(jit=jit))
    drive(engine)
    flows, acks = engine.flow_states(), engine.control_counts()["acks"]
    last = int(flows.acked_ps.max()) if (flows.acked_ps >= 0).all() else -1
    return last / 1e6, float(flows.retransmits.sum()), float(acks)
