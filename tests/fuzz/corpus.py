"""Experiments to mutate: the built-in ones, made small, and random small ones."""

from __future__ import annotations

import copy
import random
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from netsim.model.fabric import AT_CIRCUIT_END
from netsim.model.port_pairs import PLANE_BALANCING
from netsim.params import Param
from netsim.plugins import registry

Tree = dict[str, Any]

SMALL = {
    "hosts_per_leaf": 4, "leaves": 3, "spines": 2, "uplinks": 2, "fan_in": 3, "n_flows": 5,
    "racks": 5, "hosts_per_rack": 2, "switches": 2, "radix": 4,
    "group_size": 2, "rack_hosts": 2,
    "size": "9KB", "sizes": "9KB", "load": [0.5, 0.8], "seed": 1, "bottleneck_delay": "100us",
}  # fmt: skip
"""Values that make an experiment small, wherever their keys occur."""

FIT = ("uniform", "hot_spot", "random_permutation")
"""Patterns that work for any number of hosts."""

LISTS = (
    *("transports/pfc_victim.csv", "transports/pfc_victim_alone.csv"),
    "wide_area/wan_beside.csv",
)
"""Flow lists of the built-in experiments."""

FABRIC: dict[str, tuple[str, tuple[str, ...]]] = {
    "queue_discipline": ("choice", tuple(registry.names("queue"))),
    "routing": ("choice", tuple(registry.names("routing"))),
    "plane_balancing": ("choice", PLANE_BALANCING),
    "n_traffic_classes": ("count", ()),
    "ecn_from_class": ("count", ()),
    **{
        param.name: (param.unit, param.choices)
        for plugin in registry.all("queue")
        for param in plugin.params
    },
}
FIXED: dict[str, dict[str, tuple[str, tuple[str, ...]]]] = {
    "packets": {
        "payload_bytes": ("bytes", ()),
        "header_bytes": ("bytes", ()),
        "control_bytes": ("bytes", ()),
    },
    "fabric": FABRIC,
    "routing": {"convergence_delay": ("time", ())},
    "stop": {"max_time": ("time", ()), "flow_timeout": ("time", ()), "drain": ("bool", ())},
    "measure": {"warmup": ("time", ()), "window": ("time", ()), "drain": ("time", ())},
    "outputs": {
        "directory": ("text", ()),
        "links": ("bool", ()),
        "sample_interval": ("time", ()),
        "ports": ("ports", ()),
        "hosts": ("hosts", ()),
        "flows": ("flows", ()),
        "fields": ("fields", ()),
        "sample_budget": ("bytes", ()),
        "queue_stats": ("bool", ()),
    },
}
"""Sections, their keys, and the unit and choices of each."""

ECN = {"kmin_bytes": "queue", "kmax_bytes": "queue", "pmax": "fraction", "at": "choice"}
CIRCUITS = {"guard": "time", "clock_offset": "time", "at_circuit_end": "choice"}
FAULT = {
    "loss_rate": "fraction",
    "bit_error_rate": "fraction",
    "rate": "rate",
    **dict.fromkeys(("down", "up", "at", "until", "mtbf", "mttr"), "time"),
}
NODES = ("h0", "leaf*", "spine0", "left", "rotor*", "*", "")
PATTERNS = (
    "tor1 - rotor*",
    "all",
    "*",
    "h0 -> *",
    "leaf0 - spine*",
    "left - right",
    "h0 - h1",
    "",
    "->",
    "h* - h*",
)


@cache
def folder() -> Path:
    """Return the folder of the built-in experiments and their flow lists."""
    from netsim import experiments

    return Path(next(iter(experiments.__path__)))


@cache
def shipped() -> dict[str, Tree]:
    """Return the built-in experiments, made small."""
    return {
        path.stem: _shrunk(tomllib.loads(path.read_text("utf-8")))
        for path in sorted(folder().glob("*/*.toml"), key=lambda path: path.stem)
    }


def _shrunk(item: Any) -> Any:
    if isinstance(item, dict):
        stages = {"stage_hosts": 1} if item.get("kind") == "pipeline" else {}
        return {key: SMALL.get(key, _shrunk(one)) for key, one in item.items()} | stages
    if isinstance(item, list):
        return [_shrunk(one) for one in item[:3]]
    return item


def base(rng: random.Random) -> Tree:
    """Return a valid tree: a built-in experiment or a random small one."""
    if rng.random() < 0.5:
        return copy.deepcopy(shipped()[rng.choice(sorted(shipped()))])
    return small(rng)


def small(rng: random.Random) -> Tree:
    """Return a small valid experiment of any transport, topology and traffic."""
    tree: Tree = {"transport": rng.choice(registry.names("transport"))}
    if rng.random() < 0.3:
        tree = {"name": "small", "seed": rng.randrange(100), **tree}
    if rng.random() < 0.8:
        tree["topology"] = {
            "kind": "fat_tree",
            "hosts_per_leaf": 2,
            "leaves": rng.choice([1, 2, 4]),
        }
        if rng.random() < 0.2:
            tree["topology"] |= {"tiers": 3, "pods": 2}
        if rng.random() < 0.25:
            tree["topology"]["planes"] = rng.choice([2, 4])
            tree["fabric"] = {"plane_balancing": rng.choice(PLANE_BALANCING)}
    elif rng.random() < 0.5:
        tree["topology"] = {"kind": "dumbbell", "hosts": 2, "bottleneck_delay": "50us"}
    else:
        racks, switches = rng.choice([(2, 1), (3, 1), (4, 2), (5, 2)])
        tree["topology"] = {
            "kind": "ocs",
            "racks": racks,
            "hosts_per_rack": 4 // racks + 1,
            "circuit_switches": switches,
            "slot": "20us",
            "reconfiguration_delay": "1us",
        }
        if rng.random() < 0.3:
            follows = {
                "schedule": "demand_aware",
                "bidirectional": rng.random() < 0.5,
                "packet_uplink_rate": "50Gbps",
            }
            tree["topology"] = {
                key: value for key, value in tree["topology"].items() if key != "slot"
            } | follows
        elif switches > 1:
            tree["fabric"] = {"circuits": {"at_circuit_end": rng.choice(AT_CIRCUIT_END)}}
    size = rng.choice(["1B", "4KB", "20KB", "50KB"])
    tree["traffic"] = rng.choice(
        [
            {"kind": "permutation", "size": size},
            {"kind": "incast", "fan_in": 1, "size": size},
            {"kind": "all_to_all", "size": "4KB", "group_size": 2},
            {"kind": "pipeline", "size": size, "stage_hosts": 1},
            {"kind": "poisson", "sizes": size, "load": 0.3, "n_flows": 4},
            {"kind": "pattern", "size": size, "pattern": rng.choice(FIT), "steps": 2},
            {"kind": "collective", "algorithm": "ring", "size": size, "group_size": 2},
            {
                "kind": "collective",
                "what": rng.choice(["all_reduce", "all_to_all", "broadcast", "barrier"]),
                "size": size,
                "latency": "1us",
            },
            {"kind": "pipeline_1f1b", "stages": 2, "microbatches": 3, "activations": size},
            {"kind": "halving_doubling", "size": "4KB", "group_size": 2, "compute": "1us"},
            {"kind": "training", "job": tiny_job(rng), "steps": rng.choice([1, 2])},
        ]
    )
    if "slot" in tree["topology"] and rng.random() < 0.4:
        del tree["topology"]["slot"]
        tree["topology"] |= {"schedule": "demand_aware", "packet_uplink_rate": "10Gbps"}
        tree["topology"]["reconfigure"] = rng.choice(["once", "per_phase"])
        tree.pop("fabric", None)
    if rng.random() < 0.2:
        tree["outputs"] = {"sample_interval": rng.choice(["auto", "1us", "20us"])}
    return tree


def tiny_job(rng: random.Random) -> Tree:
    """Return a training job of two or four ranks."""
    layout = rng.choice([{"pp": 2}, {"dp": 2, "zero": 1}, {"tp": 2}, {"pp": 2, "tp": 2}])
    return {
        "model": {
            "layers": 4,
            "hidden": 16,
            "heads": 2,
            "sequence": 16,
            "vocabulary": 16,
        },
        "machine": {
            "memory": "1GB",
            "matrix": {"peak": {"bf16": "1TFLOP/s"}},
            "scale_up": {"rate": "100Gbps"},
            "scale_out": {"rate": "100Gbps"},
            "domain_gpus": 2,
        },
        "layout": {"global_batch": 4, **layout},
    }


def params(tree: Tree) -> Iterator[tuple[tuple[Any, ...], Param]]:
    """Yield the path and declaration of every plugin parameter in the tree."""
    for section in ("topology", "transport", "traffic"):
        for path, kind in _kinds(tree.get(section), (section,)):
            name, _ = registry.split_preset(kind)
            if name in registry.names(section):
                for param in registry.find(section, name).params:
                    yield (*path, param.name), param


def _kinds(section: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], str]]:
    if isinstance(section, str):
        yield path, section
    elif isinstance(section, dict) and isinstance(section.get("kind"), str):
        yield path, section["kind"]
    elif isinstance(section, list):
        for index, one in enumerate(section):
            yield from _kinds(one, (*path, index))
