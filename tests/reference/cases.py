"""Random small cases that drop, trim, pause and cause ties as often as possible.

One generator draws everything not given: a transport on a queue discipline (`PAIRS`), load
balancing, hosts of one port or of several (`PLANE_BALANCING`), and `FEATURES`.

To add a feature, write a function such as `random_features.with_tasks`, which adds it to a case,
and add a line to `FEATURES` with its probability. The feature is named for the field of `Case` that
it fills. It has its own random generator, so that cases without it do not change; it returns the
case unchanged if the feature does not fit. `agreement.py` runs cases on both simulators.
"""

import random
from collections.abc import Callable
from typing import Any

from .model import Case
from .queues import PAUSING
from .random_features import (
    WITH_PARAMETERS,
    parameters,
    with_carrier,
    with_circuits,
    with_cut_through,
    with_faults,
    with_llr,
    with_nic,
    with_phases,
    with_policy,
    with_port_sizes,
    with_program,
    with_reroutes,
    with_tasks,
)
from .random_graphs import NS, US, Graph, Pairs, cables, one_network, racks, several_networks
from .routing import ALGORITHMS

CONTROL_BYTES = 64
MAX_CLASSES = 8  # classes of links, each a level of a traffic class
ROUTING = (
    "ecmp",
    "ecmp_symmetric",
    "spray_random",
    "spray_round_robin",
    "spray_permutation",
    "least_loaded",
    "ecmp_levels",
    "dateline",
    "minimal_adaptive",
    *WITH_PARAMETERS,
)

TRANSPORTS = ("datagram", "roce", "ndp")
BESIDES = ("pfabric", "codel", "credit_shaper", "pfc", "credits", "mixed")
PAIRS = (
    ("datagram", "drop_tail"),
    ("datagram", "trim"),
    ("datagram", "lossless"),
    ("roce", "drop_tail"),
    ("roce", "trim"),
    ("roce", "lossless"),
    ("ndp", "drop_tail"),
    ("ndp", "trim"),
    ("ndp", "trim_return"),
    ("ndp", "lossless"),
    ("rccc", "drop_tail"),
    ("rccc", "trim"),
    *((each, model) for model in BESIDES for each in TRANSPORTS),
    *(("mixed", model) for model in ("drop_tail", "trim", "lossless", *BESIDES)),
)
"""Transports, with queue disciplines that suit them."""

PLANE_BALANCING = (None, "hash", "round_robin", "permutation", "least_loaded", "entropy")
"""Use of a host's ports; None: hosts have one."""

TREES = 0.15  # probability that all networks of a case are three-tier trees
RACKS = 0.1  # probability that only circuits join switches
JITTER = 0.3  # probability that packets are late by chance
WEIGHTS = 0.4  # probability that several classes have weights

FEATURES: dict[str, tuple[float, Callable[[Case, random.Random], Case]]] = {
    "circuits": (0.4, with_circuits),
    "policy": (0.25, with_policy),
    "faults": (0.33, with_faults),
    "reroutes": (0.25, with_reroutes),
    "carrier": (0.35, with_carrier),
    "tasks": (0.4, with_tasks),
    "phases": (0.5, with_phases),
    "program": (0.5, with_program),
    "port_sizes": (0.35, with_port_sizes),
    "cut_through_bytes": (0.25, with_cut_through),
    "nic": (0.25, with_nic),
    "llr": (0.15, with_llr),
}
"""Probability and function of each feature, in the order in which they are added."""


def random_case(rng_seed: int, **named: Any) -> Case:
    """Return a case of 2 to 12 hosts and 1 to 15 flows, determined by the arguments.

    ``transport``, ``model``, ``routing``, ``planes`` and, as bools, ``trees``, ``racks``,
    ``weights`` and the names of FEATURES may be named. Raises ValueError for other names, or if
    they conflict.
    """
    pairs = [
        (transport, model)
        for transport, model in PAIRS
        if named.get("transport", transport) == transport and named.get("model", model) == model
    ]
    known = {"routing", "planes", "transport", "model", "trees", "racks", "weights", *FEATURES}
    if not pairs or named.keys() - known:
        raise ValueError(f"there are no cases with {named}")
    rng = random.Random(f"{rng_seed} {sorted(named.items())}")
    transport, model = rng.choice(pairs)
    drawn: dict[str, Any] = {
        "routing": rng.choice(ROUTING),
        "planes": rng.choice((None, *PLANE_BALANCING)),
    }
    trees = random.Random(f"{rng_seed} trees")
    drawn["jitter"] = random.Random(f"{rng_seed} jitter").random() < JITTER
    weights = random.Random(f"{rng_seed} weights")
    drawn["weights"] = weights if named.pop("weights", weights.random() < WEIGHTS) else None
    drawn["trees"] = trees if named.pop("trees", trees.random() < TREES) else None
    circuits_alone = random.Random(f"{rng_seed} racks").random() < RACKS
    if named.pop("racks", circuits_alone and not named.keys() & {"planes", "trees", "circuits"}):
        named |= {"circuits": True, "racks": True, "planes": None}
    case = _plain(rng, {"racks": False, **drawn, **named, "transport": transport, "model": model})
    case.fabric.update(parameters(random.Random(f"{rng_seed} routing")))
    for name, (share, give) in FEATURES.items():
        own = random.Random(f"{rng_seed} {name}")
        by_chance = own.random() < share
        if named.get(name, by_chance):
            case = give(case, own)
    return case


def _plain(rng: random.Random, drawn: dict[str, Any]) -> Case:
    """Return a case without FEATURES."""
    transport, model = drawn["transport"], drawn["model"]
    n_hosts = rng.randint(2, 12)
    networks = one_network if drawn["planes"] is None else several_networks
    graph = racks(rng, n_hosts) if drawn["racks"] else networks(rng, n_hosts, drawn["trees"])
    packets = {
        "payload_bytes": rng.choice((256, 1000, 1024, 4096)),
        "header_bytes": rng.choice((64, 66, 78)),
        "control_bytes": CONTROL_BYTES,
    }
    full = packets["payload_bytes"] + packets["header_bytes"]
    two = model in ("trim", "trim_return", "credit_shaper") or transport in ("ndp", "rccc")
    n_traffic_classes = 2 if two else rng.randint(1, 8)
    if model == "trim" and transport not in ("ndp", "rccc"):
        n_traffic_classes = rng.choice((2, 2, 3, 5))
    levels = ALGORITHMS[drawn["routing"]].levels if model in PAUSING else 1
    if two and 2 * levels > MAX_CLASSES:
        drawn["routing"], levels = "ecmp", 1
    n_traffic_classes = min(n_traffic_classes, MAX_CLASSES // levels)
    rto_ps = rng.choice((20 * US, 60 * US, 200 * US))
    flows = _flows(rng, n_hosts, list(graph.reach), packets["payload_bytes"])
    fabric = _fabric(rng, drawn, n_traffic_classes, full)
    # Some cases never end (a queue too small for a packet, a cycle of pauses).
    last_start = max(start for *_, start in flows)
    until_ps = last_start + rng.choice((1, 5, 20)) * rto_ps + rng.randrange(100 * US)
    return Case(
        n_hosts=n_hosts,
        n_switches=graph.n_switches,
        cables=cables(rng, graph),
        fabric=fabric,
        packets=packets,
        transport=transport,
        params=_params(rng, drawn, n_traffic_classes, rto_ps),
        flows=flows,
        seed=rng.choice((0, 1, rng.getrandbits(31))),
        until_ps=until_ps,
        nics=_nics(rng, graph, flows),
    )


def _nics(
    rng: random.Random, graph: Graph, flows: list[tuple[int, int, int, int]]
) -> dict[int, int]:
    """Return the NICs that some flows name, if hosts have several ports."""
    return {
        i: rng.choice(graph.reach[src, dst])
        for i, (src, dst, *_) in enumerate(flows)
        if graph.nics and rng.random() < 0.2
    }


def _fabric(
    rng: random.Random, drawn: dict[str, Any], n_traffic_classes: int, full: int
) -> dict[str, Any]:
    """Return a fabric with buffers of a few packets; ``full`` is the size of a full packet."""
    model = drawn["model"]
    xoff = rng.choice((0, full, 2 * full, 3 * full + 1, 8 * full))
    dynamic = model in ("lossless", "pfc") and rng.random() < 0.5
    fabric = {
        "queue_discipline": model,
        "routing": drawn["routing"],
        "n_traffic_classes": n_traffic_classes,
        "queue_bytes": rng.choice((full, 2 * full, 3 * full - 1, 5 * full, 12 * full)),
        "header_queue_bytes": CONTROL_BYTES * rng.choice((1, 3, 10, 100)),
        "header_ratio": rng.choice((1, 3, 10, 10)),
        "lower_queue_bytes": rng.choice((full, 2 * full, 12 * full)),
        "ecn": _ecn(rng, full),
        "ecn_from_class": rng.choice((0, rng.randrange(n_traffic_classes))),
        "xoff_bytes": xoff,
        "xon_bytes": rng.choice((max(1, xoff), xoff // 2 + 1, 1)),
        "headroom_bytes": rng.choice((0, 2 * full, 20 * full, 10**7, 10**7)),
        "shared_buffer_bytes": rng.choice((10, 30, 100)) * full if dynamic else None,
        "alpha": rng.choice((0.125, 0.3, 0.5, 1.0, 2.0)) if dynamic else None,
        "xon_gap_bytes": rng.choice((0, 1, full, 2 * full)),
    }
    if drawn["jitter"]:
        fabric["host_jitter_ps"] = rng.choice((1, NS, 300 * NS, 5 * US))
    if drawn["planes"] is not None:
        fabric["plane_balancing"] = drawn["planes"]
    if model in ("trim", "trim_return"):
        fabric["trim_bytes"] = rng.choice((None, 24, 100))
    if drawn["weights"] and n_traffic_classes > 1 and model not in ("credit_shaper", "mixed"):
        fabric["class_weights"] = _class_weights(drawn["weights"], n_traffic_classes)
    if model in ("drop_tail", "codel"):
        fabric["queue_packets"] = rng.choice((None, None, 1, 3))
    if model == "codel":
        fabric["target_ps"] = rng.choice((1, 100 * NS, US))
        fabric["interval_ps"] = rng.choice((NS, US, 5 * US + 1, 20 * US))
        fabric["mark"] = rng.random() < 0.3
    if model == "pfc":
        fabric["headroom_bytes"] = rng.choice((None, None, 2 * full))
        fabric["response_quanta"] = rng.choice((None, 0, 5, 1000))
        fabric["pause_quanta"] = rng.choice((30, 500, 65_535))
        fabric["watchdog"] = rng.choice(("none", "drop", "forward", "alert"))
        fabric["watchdog_poll_ps"] = rng.choice((US, 3 * US, 7 * US + 1))
        fabric["watchdog_detect_ps"] = rng.choice((0, 2 * US, 10 * US))
        fabric["watchdog_restore_ps"] = rng.choice((0, 5 * US, 50 * US))
    if model == "credits":
        fabric["unit_bytes"] = rng.choice((1, 64, 256))
        fabric["overhead_bytes"] = rng.choice((0, 0, 20))
        fabric["buffer_bytes"] = rng.choice((full + 300, 2 * full + 300, 8 * full, 40 * full))
        fabric["update_bytes"] = rng.choice((None, 0, full, 3 * full))
        fabric["update_period_ps"] = rng.choice((NS, US, 4096 * NS))
    if model == "mixed":
        fabric["classes"] = n_traffic_classes * ALGORITHMS[drawn["routing"]].levels
        fabric["buffer_bytes"] = rng.choice((10, 40, 100)) * full
        fabric["gap_ps"] = rng.choice((0, NS, US))
        fabric["makes"] = drawn["transport"] == "mixed" and rng.random() < 0.5
    if model == "credit_shaper":
        fabric["credit_bytes"] = rng.choice((CONTROL_BYTES, 84, full))
        fabric["credit_burst"] = rng.choice((1, 2, 5))
        fabric["credit_slots"] = rng.choice((1, 3, 8))
    return fabric


def _class_weights(rng: random.Random, n_traffic_classes: int) -> str:
    """Return weights of the classes, in random groups."""
    text = str(rng.randint(1, 9))
    for _ in range(n_traffic_classes - 1):
        text += rng.choice((":", ":", ">")) + str(rng.choice((1, 2, 3, rng.randint(1, 20))))
    return text


def _ecn(rng: random.Random, full: int) -> dict[str, Any] | None:
    if rng.random() < 0.4:
        return None
    kmin = rng.choice((0, full, 2 * full))
    kmax = kmin if rng.random() < 0.3 else kmin + rng.choice((full, 3 * full, 7 * full + 3))
    return {
        "kmin_bytes": kmin,
        "kmax_bytes": kmax,
        "pmax": rng.choice((0.1, 0.5, 0.77, 1.0)),
        "at": rng.choice(("enqueue", "dequeue")),
    }


def _params(
    rng: random.Random, drawn: dict[str, Any], n_traffic_classes: int, rto_ps: int
) -> dict[str, Any]:
    transport, model = drawn["transport"], drawn["model"]
    if transport == "datagram":
        rate = None if rng.random() < 0.5 else rng.choice((3, 7, 10, 90)) * 10**9 + 1
        data_class = rng.randrange(1 if model == "trim" else 0, n_traffic_classes)
        return {"rate_bps": rate, "data_class": data_class}
    if transport == "mixed":
        return {
            "classes": n_traffic_classes,
            "gap_ps": rng.choice((0, 1, NS, 3 * US)),
            "most": rng.choice((0, 5, 50)),
            "data_class": rng.randrange(n_traffic_classes),
        }
    if transport == "roce":
        return {
            "ack_every": rng.choice((1, 1, 2, 5)),
            "rto_ps": rto_ps,
            "data_class": rng.randrange(n_traffic_classes),
            "ack_class": rng.choice((None, rng.randrange(n_traffic_classes))),
            "reorder_packets": rng.choice((0, 0, 1, 4, 30)),
        }
    if transport == "rccc":
        return {
            "credit_window": rng.choice((1000, 5000, 40_000)),
            "base_rtt_ps": rng.choice((3 * US, 10 * US)),
            "ack_bytes": rng.choice((1, 5000, 16_384)),
            "ack_report": rng.choice(("block", "all")),
            "pull_bytes": rng.choice((256, 4096, 16_384)),
            "pull_rate": rng.choice((0.99, 0.5)),
            "idle_requests": rng.choice((True, False)),
            "oversubscription": rng.choice((1.0, 4.0)),
            "rules": rng.choice(("2025", "2024")),
            "paths": "ecmp" if drawn["planes"] == "entropy" else rng.choice(("ecmp", "oblivious")),
            "entropies": rng.choice((2, 5, 64)),
            "rto_ps": rto_ps,
        }
    return {"initial_window": rng.choice((1, 2, 8, 30)), "rto_ps": rto_ps}


def _flows(
    rng: random.Random, n_hosts: int, joined: Pairs, payload: int
) -> list[tuple[int, int, int, int]]:
    """Return one to fifteen flows, in a third of the cases an incast if possible."""
    victim = rng.randrange(n_hosts) if rng.random() < 1 / 3 else None
    starts = [0, rng.randrange(5 * US), rng.randrange(50 * US)]
    flows = []
    for _ in range(rng.randint(1, 15)):
        src, dst = rng.choice(joined)
        if victim is not None and (src, victim) in joined:
            dst = victim
        size = rng.choice(
            (
                1,
                rng.randint(1, payload),
                payload + rng.choice((0, 1)),
                rng.randint(1, 12 * payload),
                rng.randint(1, 60 * payload),
            )
        )
        flows.append((src, dst, size, rng.choice((*starts, rng.randrange(20 * US)))))
    return flows
