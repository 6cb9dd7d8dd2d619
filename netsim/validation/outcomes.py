"""Published outcomes of other simulators, and outcomes predicted before they were known.

The setups, with the others' results, are in `simulators.toml`, `uec_outcomes.toml` and
`predictions/`. They include the slow reference simulator in a checkout's tests, which is written
from `netsim/engine/MODEL.md` alone and imports nothing from netsim.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.common.inputs import read_toml
from netsim.engine.simulation import Options
from netsim.experiment import Experiment, built_in
from netsim.experiment.document import apply_overrides
from netsim.experiment.scenario import prepare
from netsim.model.builder import build_topology
from netsim.model.flows import FlowTable, TrafficContext
from netsim.model.inventory import HOST, SWITCH, inventory
from netsim.model.network import Network
from netsim.params import Params
from netsim.plugins.registry import find
from netsim.running.drive import drive
from netsim.running.point import build_engine, simulate
from netsim.validation.bed import GBPS, MS, US, Bed, S, fat_tree, fct_ps
from netsim.validation.cases import CHECKOUT
from netsim.validation.laws import PAYLOAD, Measured

PREDICTIONS = Path(__file__).with_name("predictions")
LEVELS = (0.5, 0.9, 0.99, 1.0)  # quantiles of htsim's completion times
QUANTILES = {"min": 0.0, "p50": 0.5, "p90": 0.9, "max": 1.0}

CLASSES = {
    "up to 1.5 KB": (1, 1500),
    "100 KB to 1 MB": (100_000, 1_000_000),
    "1 to 15 MB": (1_000_001, 15_000_000),
}
"""Smallest and largest flow of opera-sim's figures, in bytes."""


def htsim(
    matrix: Path | None = None,
    *,
    setup: str,
    simulator: str,
    tree: tuple[int, int, int],
    runs: Sequence[Sequence[float]],
    **ours: Any,
) -> Measured:
    """Measure quantiles of completion times at the sender, in us, for the flows of a connection
    matrix, else for our own permutations.

    `tree` is hosts per leaf, leaves and Gbps; `runs` are the quantiles of each of their runs.
    """
    which = "their flows" if matrix else "other permutations"
    measured = _quantiles(fat_tree(*tree[:2], tree[2] * GBPS), matrix, **ours)
    for values, theirs in zip(measured, np.array(runs).T, strict=True):
        yield {
            "about": f"{setup}, {which}",
            "ours": float(values.mean()),
            "theirs": float(theirs.mean()),
            "source": f"{simulator}, {theirs.size} run{'s' * (theirs.size > 1)}",
        }


def _quantiles(
    network: Network,
    matrix: Path | None,
    transport: str,
    seeds: int,
    params: Params | None = None,
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
    """Return the flows of a matrix, or our own permutation, in whole packets."""
    given: dict[str, Any] = {"size": 2_000_000, "load": 1.0}
    if matrix is None:
        rng = np.random.default_rng(seed)
        flows = find("traffic", "permutation").module.flows(given, network, rng, None)
    else:
        given = {"file": str(matrix), "start_unit": "ps", "endless": None}
        context = TrafficContext(matrix.parent, seed, int(network.port_rate_bps[0]))
        flows = find("traffic", "htsim_cm").module.flows(given, network, None, context)
    return FlowTable(flows.src, flows.dst, -(-flows.size_bytes // PAYLOAD) * PAYLOAD)


def classes(
    experiment: str, column: str, n_flows: Sequence[int], published_ms: Sequence[Sequence[float]]
) -> Measured:
    """Measure median, mean and 99th percentile of completion times by size, in ms. A deviation
    within two bootstrap standard errors may be due to few flows."""
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


def experiment_of(file: str, name: str, change: Mapping[str, Any] | None = None) -> Experiment:
    """Return the experiment of a case of a file in `predictions`, with some keys changed."""
    path = PREDICTIONS / file
    tree = _predictions(file)
    values = {**tree["cases"][name]["set"], **(change or {})}
    texts = [f"{key}={json.dumps(value)}" for key, value in values.items()]
    overridden = apply_overrides(tree["experiment"], texts)
    return Experiment.from_tree(tree["experiment"], str(path), path.parent, overridden)


def _predictions(file: str) -> dict[str, Any]:
    """Return a file in `predictions`, with the cases of its `table`, a CSV file in that folder.

    Table columns with a dot are experiment keys, `sets` names tables of the file with more keys,
    and columns such as `truth last_finish` are quantities, empty if unknown.
    """
    tree = read_toml(PREDICTIONS / file)
    if "table" not in tree:
        return tree
    tree["cases"] = {}
    with (PREDICTIONS / tree["table"]).open(newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            case: dict[str, Any] = {"set": {}, "predicted": {}, "mended": {}, "truth": {}}
            case |= {"group": row["group"], "source": tree["source"]}
            case["about"] = f"{row['group']}, {row['case']}"
            for name in row["sets"].split("; "):
                case["set"] |= tree["sets"][name]
            for column, text in row.items():
                table, _, quantity = column.partition(" ")
                if quantity and text:
                    case[table][quantity] = float(text)
                elif "." in column and text:
                    case["set"][column] = json.loads(text) if text[0].isdigit() else text
            tree["cases"][row["case"]] = case
    return tree


def predicted(file: str) -> Measured:
    """Yield the prediction of each case of a file in `predictions`, and its outcome.

    A prediction that a corrected rule changed has a second row. A quantity with `least` has a row
    for each group of cases: the median ratio of ours to theirs, where theirs is at least `least`.
    """
    tree = _predictions(file)
    ratios = defaultdict(list)
    for case in tree["cases"].values():
        for name, ours in case["predicted"].items():
            theirs = case.get("truth", {}).get(name)
            least = tree["quantities"][name].get("least")
            if least is None:
                yield _compared(tree, name, case, ours, theirs)
                if name in case.get("mended", {}):
                    mended = {**case, "about": f"{case['about']}, mended"}
                    row = _compared(tree, name, mended, case["mended"][name], theirs)
                    yield {**row, "predicted": False}
            elif theirs is not None and theirs >= least:
                ratios[case["group"], name].append(ours / theirs)
    for (group, name), values in ratios.items():
        about = f"{group}, median ratio of {len(values)} cases"
        common = {"about": about, "source": tree["source"]}
        yield _compared(tree, name, common, float(np.median(values)), 1.0)


def _compared(
    tree: Mapping[str, Any], name: str, case: Mapping[str, Any], ours: float, theirs: float | None
) -> dict[str, Any]:
    """Return the row of a quantity."""
    quantity = tree["quantities"][name]
    return {
        "title": f"{case['about']}: {name.replace('_', ' ')}",
        "ours": ours,
        "theirs": theirs,
        "unit": quantity.get("unit", ""),
        "tolerance": quantity["tolerance"],
        "because": quantity["because"],
        "source": f"{case['source']}; predicted {tree['predicted']['on']}",
        "question": quantity["question"],
        "predicted": True,
        "why": case.get("why", {}).get(name, ""),
    }


def sizes(hosts: int, radix: int, gbps: int, planes: int) -> Measured:
    """Yield counts of a two-tier fat tree: leaves, spines, host cables, and the capacity of
    inter-switch cables in units of a host's port."""
    rate = f"{gbps * planes}Gbps"
    tree = build_topology("fat_tree", hosts=hosts, radix=radix, host_rate=rate, planes=planes)
    counted = inventory(tree)
    kinds = {row.name: row.count for row in counted.switches}
    cables = {row.joins: row.count * row.rate_bps / (gbps * GBPS) for row in counted.cables}
    counts = kinds["leaf"], kinds["spine"], cables[HOST], cables[SWITCH]
    yield from ({"ours": float(count)} for count in counts)


def repeated(
    file: str,
    name: str,
    variant: str,
    seeds: int,
    change: Mapping[str, Any] | None = None,
    truth: Mapping[str, float] | None = None,
) -> Measured:
    """Simulate a case of a file in `predictions` again, as a `variant` with other values of keys
    (`change`): means of its quantities over seeds from 1 on, against its outcome, or against
    `truth`, another value of theirs."""
    tree = _predictions(file)
    case = tree["cases"][name]
    points = experiment_of(file, name, {**(change or {}), "seed": f"1..{seeds}"}).points()
    runs = [simulate(point).flows for point in points]
    shown = {**case, "about": f"{case['about']}, {variant}", "why": {}}
    for quantity, theirs in (truth or case["truth"]).items():
        _, column, level = tree["quantities"][quantity]["of"].split(".")
        values = [np.quantile(flows[column], QUANTILES[level]) / US for flows in runs]
        row = _compared(tree, quantity, shown, float(np.mean(values)), theirs)
        yield {**row, "source": case["source"], "predicted": False}


def slow_link(transport: Params, fabric: Params, seeds: int) -> Measured:
    """Measure the mean and the lowest rate of a permutation of 128 flows, in Gbps. One downlink of
    a core has a tenth of its rate; rates are over 30 ms, means over seeds."""
    rates = []
    for seed in range(1, seeds + 1):
        content = {
            "name": "slow_link",
            "seed": seed,
            "topology": {"kind": "fat_tree", "tiers": 3, "radix": 8, "host_rate": "10Gbps"},
            "packets": {"payload_bytes": "9000B"},
            "transport": dict(transport),
            "fabric": dict(fabric),
            "traffic": {"kind": "permutation", "size": "1GB"},
            "faults": {"slow": {"links": "core0 -> spine0", "rate": "1Gbps"}},
            "measure": {"warmup": "20ms", "window": "30ms", "drain": "1us"},
        }
        (point,) = Experiment.from_mapping(content).points()
        received = np.asarray(simulate(point).tables["measured_hosts"]["received_bytes"])
        rates.append(received * 8 / (30 * MS / S) / GBPS)
    yield {"ours": float(np.mean(rates))}
    yield {"ours": float(np.min(rates, axis=1).mean())}


TESTS = CHECKOUT / "tests"


def departures(seeds: tuple[int, int], length: int, **named: bool) -> Measured:
    """Compare random cases, with this many transmissions, with the reference: every packet
    departure, flows, tasks and counters. `seeds` is the half-open range of their seeds."""
    if str(TESTS) not in sys.path:
        sys.path.insert(0, str(TESTS))
    check = import_module("agreement").check
    ours: int | None = 0
    theirs, why = 0, ""
    for seed in range(*seeds):
        try:
            engine, simulator = check(seed, length, **named)
        except AssertionError:
            ours, why = None, f"case {seed} differs: run tests/test_against_reference.py"
            break
        ours += engine.counts.hops
        theirs += sum(len(port.departures) for port in simulator.ports)
    yield {"count": seeds[1] - seeds[0], "ours": ours, "theirs": theirs, "why": why}


COUNTED = 1000  # minimum number of packets for a count to be compared

UEC_PACKET, RATE_GBPS = 4150, 100
DIAMETERS = {2: (4, 29, 6, 24), 3: (6, 43, 9, 35)}
"""By number of tiers: links of the longest path, queue and ECN thresholds in packets."""

ONE_CONNECTION = {"1f10m1p": "1f1m10p", "1f10m10p": "1f1m100p"}
"""Matrices of several messages in a connection, and of one message with as many packets."""

TREES = {"leaf_spine_1024_oversub.topo": 4.0, "leaf_spine_1024_oversub_8-1.topo": 8.0}
"""Topologies, and the ratio of hosts to uplinks of a leaf."""


def uec_outcomes(plans: Path, *files: Path, pattern: str) -> Measured:
    """Measure last finish, retransmissions and ACKs of the plans in a validate.csv whose name
    contains `pattern`.

    Repository ultraethernet/uet-htsim, htsim/sim/datacenter: validate_outputs has the outcomes of
    its plans of 2025-08, connection_matrices and topologies their inputs. Each plan is a line:
    case, options, first_us, last_us, new_pkts, rtx_pkts, acks and more. We use its rules: base
    round trip of the network, all arrivals counted in ACKs, queues of one bandwidth-delay product,
    also on slow links, paths that are good if packets are trimmed at the last hop, and no marks
    there if receivers give credits.
    """
    with plans.open(newline="", encoding="utf-8") as lines:
        rows = [row for row in csv.DictReader(lines) if pattern in row["case"]]
    for row in rows:
        content = uec_experiment(_options(row["options"]), {file.name: file for file in files})
        jit = "connreuse" not in row["case"]  # plain Python is faster for few packets
        draws = 20 if content["topology"].get("radix") == 4 else 5  # 16 hosts vary more
        runs = [uec_outcome(content, seed, jit) for seed in range(1, draws + 1)]
        last_us, retransmissions, acks = np.mean(runs, axis=0).tolist()
        for what, unit, ours, theirs in (
            ("last finish", "us", last_us, row["last_us"]),
            ("retransmissions", "packets", retransmissions, row["rtx_pkts"]),
            ("ACKs", "packets", acks, row["acks"]),
        ):
            if unit == "us" or float(theirs) > COUNTED:
                title = f"{row['case']}: {what}"
                question = "flows" if unit == "us" else "counts"
                values = {"ours": ours, "theirs": float(theirs), "unit": unit}
                yield {"title": title, **values, "question": question}


def _options(text: str) -> dict[str, str]:
    """Return the options of a plan, with "" for options without a value."""
    words = text.split()
    following = [*words[1:], "-"]
    values = {a: "" if b.startswith("-") else b for a, b in zip(words, following, strict=True)}
    return {name: value for name, value in values.items() if name.startswith("-")}


def uec_experiment(options: Mapping[str, str], files: Mapping[str, Path]) -> dict[str, Any]:
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
    base_ps = links * (2 * 10**6 + (UEC_PACKET + 64) * 8000 // RATE_GBPS)
    product = base_ps * RATE_GBPS / 8000

    def in_bdp(packets: int) -> str:
        return f"{packets * UEC_PACKET / product:.7f}bdp"

    n_paths = int(options.get("-paths", 64))
    transport: dict[str, Any] = {
        "kind": "nscc",
        "rto": f"{15_000_000 + 6 * queue * UEC_PACKET * 8000 // RATE_GBPS}ps",
        "ack_bytes": options.get("-sack_threshold", "16384") + "B",
        "base_rtt": f"{base_ps}ps",
        "ack_report": "all",
        "last_hop_trims": "good",
        "paths": "ecmp" if n_paths == 1 else options.get("-load_balancing_algo", "mixed"),
        "entropies": n_paths,
    }
    if "-cwnd" in options:
        transport["first_window"] = f"{int(options['-cwnd']) * UEC_PACKET}B"
    if options.keys() & {"-receiver_cc", "-receiver_cc_only"}:
        transport["kind"] = "rccc"
        transport["sender_window"] = "-sender_cc" in options
        transport["idle_requests"] = False
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
            "header_queue_bytes": f"{2 * queue * UEC_PACKET}B",
            "header_ratio": 100_000,
            "ecn": ecn,
        },
    }
    failed = range(int(options.get("-failed", 0)))
    if failed:
        content["faults"] = {f"f{n}": {"links": f"core{n} -> spine0", **slow} for n in failed}
    return content


def uec_outcome(
    content: Mapping[str, Any], seed: int, jit: bool = True
) -> tuple[float, float, float]:
    """Return the last finish in us, retransmissions and ACKs of a run."""
    (point,) = Experiment.from_mapping({**content, "seed": seed}).points()
    engine = build_engine(point, prepare(point), Options(jit=jit))
    drive(engine)
    flows, acks = engine.flow_states(), engine.control_counts()["acks"]
    last = int(flows.acked_ps.max()) if (flows.acked_ps >= 0).all() else -1
    return last / 1e6, float(flows.retransmits.sum()), float(acks)
