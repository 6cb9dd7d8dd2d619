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
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from netsim.accuracy.cases import Case, Row, Tolerance
from netsim.engine.simulation import Options
from netsim.experiment import Experiment
from netsim.experiment.scenario import prepare
from netsim.running.drive import drive
from netsim.running.point import build_engine

SOURCE = "uet-htsim 2658277, validate.csv"
SEEDS = 5
DRAWS = Tolerance(0.05, "mean of five draws against one of theirs")
COUNTED = 1000
"""Packets from which on a count is compared."""
WHY = {
    "val-uec_rcv-05: ACKs": "uet-htsim asks for credit per packet that timed out (21,666 times), "
    "and acknowledges that; netsim asks once per timeout",
    "val-uec_rcv-09: ACKs": "uet-htsim has 3,544 to 4,037 over 12 seeds",
    "val-uec_rcv-10: last finish": "one path per flow: uet-htsim has 418 to 740 us over 12 seeds",
    "val-uec_both-10: last finish": "one path per flow: uet-htsim has 404 to 707 us over 12 seeds",
    "val-uec_both-10: ACKs": "one path per flow: uet-htsim has 5,419 to 6,509 over 12 seeds",
}
"""Known reasons of rows beyond the tolerance."""

PACKET, RATE_GBPS = 4150, 100
DIAMETERS = {2: (4, 29, 6, 24), 3: (6, 43, 9, 35)}
"""By tiers: links of the longest path, queue and ECN thresholds in packets."""

ONE_CONNECTION = {"1f10m1p": "1f1m10p", "1f10m10p": "1f1m100p"}
"""Matrices of several messages in a connection, and those of one with as many packets."""

LARGE = "perm_1024n_1024c_0u_2000000b.cm"
SMALL = ("bidir.cm", "perm_16n_16c_2MB.cm", "outcast_incast.cm", "incast_128.cm")
INCASTS = ("incast_1024_100K.cm", "incast_3-1_overlapped.tm", "incast.cm", "one.cm")
CONNECTIONS = ("test_cr_1f1m10p.cm", "test_cr_1f1m100p.cm")
TREES = {"leaf_spine_1024_oversub.topo": 4.0, "leaf_spine_1024_oversub_8-1.topo": 8.0}
"""Topologies, and the ratio of hosts to uplinks of a leaf."""
ALL = (*SMALL, *INCASTS, LARGE, *TREES)


def cases() -> Iterator[Case]:
    """Yield the plans of the simulator."""
    plans = (
        ("connections", r"connreuse", 10.0, CONNECTIONS),
        ("senders", r"uec_sender", 180.0, ALL),
        ("receivers", r"uec_rcv", 240.0, ALL),
        ("both", r"uec_both", 240.0, ALL),
        ("load_balancing", r"load_balancing_snd", 480.0, (LARGE,)),
        ("load_balancing_receivers", r"load_balancing_rcv", 480.0, (LARGE,)),
        ("slow_links", r"load_balancing_failed_snd", 600.0, (LARGE,)),
        ("slow_links_receivers", r"load_balancing_failed_rcv", 300.0, (LARGE,)),
    )
    for name, pattern, seconds, files in plans:
        measure = partial(_outcomes, pattern)
        yield Case(name, measure, seconds, name == "connections", ("validate.csv", *files))


def _read(file: Path) -> list[dict[str, str]]:
    with file.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def _options(row: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a plan; those without a value have ""."""
    words = row["options"].split()
    following = [*words[1:], "-"]
    values = {a: "" if b.startswith("-") else b for a, b in zip(words, following, strict=True)}
    return {name: value for name, value in values.items() if name.startswith("-")}


def _outcomes(pattern: str, plans: Path, *files: Path) -> Iterator[Row]:
    for row in _read(plans):
        if re.search(pattern, row["case"]):
            case = experiment(_options(row), {file.name: file for file in files})
            jit = "connreuse" not in row["case"]  # plain Python is faster for few packets
            yield from _rows(row, [outcome(case, seed, jit) for seed in range(1, SEEDS + 1)])


def _rows(row: Mapping[str, str], ours: Sequence[Sequence[float]]) -> Iterator[Row]:
    names = ("last_us", "rtx_pkts", "acks")
    whats = ("last finish", "retransmissions", "ACKs")
    for name, what, value in zip(names, whats, np.mean(ours, axis=0).tolist(), strict=True):
        theirs = float(row[name])
        if name == "last_us" or theirs > COUNTED:
            unit = "us" if name == "last_us" else "packets"
            full = f"{row['case']}: {what}"
            yield Row(full, value, theirs, unit, DRAWS, SOURCE, WHY.get(full, ""))


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
