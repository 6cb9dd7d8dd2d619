"""Experiments to mutate, their mutations, and a tree as TOML."""

import copy
import json
import random
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any

from netsim.experiment import built_in
from netsim.experiment.schema import SECTIONS as DECLARED
from netsim.experiment.schema import FaultSection
from netsim.model.fabric import AT_CIRCUIT_END
from netsim.params import Param, keys_of
from netsim.plugins import registry

from . import values
from .values import Raw

Tree = dict[str, Any]
Place = tuple[Any, ...]

SMALL = {
    "hosts_per_leaf": 4, "leaves": 3, "spines": 2, "uplinks": 2, "fan_in": 3, "n_flows": 5,
    "racks": 5, "hosts_per_rack": 2, "switches": 2, "radix": 4, "group_size": 2, "rack_hosts": 2,
    "size": "9KB", "sizes": "9KB", "load": [0.5, 0.8], "seed": 1, "bottleneck_delay": "100us",
}  # fmt: skip
"""Values that make an experiment small, wherever their keys occur."""

LISTS = tuple(
    built_in()[name].with_name(file)
    for name, file in (
        ("pfc_victim", "pfc_victim.csv"),
        ("pfc_victim", "pfc_victim_alone.csv"),
        ("wan_beside", "wan_beside.csv"),
    )
)
"""Flow lists of the built-in experiments."""


SECTIONS: dict[Place, list[Param]] = {
    ("faults", "one"): list(keys_of(FaultSection).values()),
    ("fabric",): [param for plugin in registry.plugins("queue") for param in plugin.params],
    **{tuple(name.split(".")): list(keys_of(table).values()) for name, table in DECLARED.items()},
}
"""Places of sections and their keys."""

LINKS = ("tor1 - rotor*", "all", "*", "h0 -> *", "leaf0 - spine*", "left - right", "", "->")


@dataclass
class Case:
    """An experiment to check; ``wrong`` is the key of the only change, if netsim must reject it."""

    content: bytes
    arguments: list[str] = field(default_factory=list)
    wrong: str = ""


def toml(item: Any) -> str:
    """Return a value as TOML, on one line."""
    match item:
        case Raw():
            return item.text
        case bool():
            return str(item).lower()
        case int() | float():
            return repr(item)
        case list():
            return f"[{', '.join(map(toml, item))}]"
        case dict():
            return "{" + ", ".join(f"{_key(name)} = {toml(it)}" for name, it in item.items()) + "}"
    return json.dumps(str(item), ensure_ascii=False).replace("\x7f", "\\u007F")


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name, re.ASCII) else toml(name)


def text_of(tree: Tree) -> str:
    """Return a tree as the text of a file."""
    return "".join(f"{_key(name)} = {toml(item)}\n" for name, item in tree.items())


@cache
def shipped() -> tuple[Tree, ...]:
    """Return the built-in experiments, made small."""

    def shrunk(item: Any) -> Any:
        if isinstance(item, dict):
            stages = {"stage_hosts": 1} if item.get("kind") == "pipeline" else {}
            return {key: SMALL.get(key, shrunk(value)) for key, value in item.items()} | stages
        return [shrunk(value) for value in item[:3]] if isinstance(item, list) else item

    return tuple(shrunk(tomllib.loads(path.read_text("utf-8"))) for path in built_in().values())


def small(rng: random.Random) -> Tree:
    """Return a small valid experiment of any transport, topology and traffic."""
    ocs = {"kind": "ocs", "racks": 4, "hosts_per_rack": 2, "circuit_switches": 2}
    turning = ocs | {"slot": "20us", "reconfiguration_delay": "1us"}
    tree = {"kind": "fat_tree", "hosts_per_leaf": 2, "leaves": rng.choice([1, 2, 4])}
    size = rng.choice(["1B", "4KB", "20KB", "50KB"])
    circuits = {"circuits": {"at_circuit_end": rng.choice(AT_CIRCUIT_END)}}
    return {
        "transport": rng.choice(registry.names("transport")),
        **rng.choice([
            {"topology": tree},
            {"topology": tree | {"tiers": 3, "pods": 2}},
            {"topology": tree | {"planes": 2}, "fabric": {"plane_balancing": "permutation"}},
            {"topology": {"kind": "dumbbell", "hosts": 2, "bottleneck_delay": "50us"}},
            {"topology": turning, "fabric": circuits},
            {"topology": ocs | {"schedule": "demand_aware", "packet_uplink_rate": "50Gbps"}},
        ]),
        "traffic": rng.choice([
            {"kind": "permutation", "size": size},
            {"kind": "incast", "fan_in": 1, "size": size},
            {"kind": "all_to_all", "size": "4KB", "group_size": 2},
            {"kind": "pipeline", "size": size, "stage_hosts": 1},
            {"kind": "poisson", "sizes": size, "load": 0.3, "n_flows": 4},
            {"kind": "pattern", "size": size, "pattern": "uniform", "steps": 2},
            {"kind": "collective", "algorithm": "ring", "size": size, "group_size": 2},
            {"kind": "pipeline_1f1b", "stages": 2, "microbatches": 3, "activations": size},
            {"kind": "training", "job": tiny_job(), "steps": 2},
            {"kind": "jobs", "placement": "strided", "jobs": {
                "a": {"kind": "permutation", "size": size, "hosts": [0, 1]},
                "b": {"kind": "training", "job": tiny_job(), "hosts": 2, "start": "3us"},
            }},
        ]),
    }  # fmt: skip


def tiny_job() -> Tree:
    """Return a training job of two ranks."""
    network = {"rate": "100Gbps"}
    return {
        "model": {"layers": 4, "hidden": 16, "heads": 2, "sequence": 16, "vocabulary": 16},
        "machine": {
            "memory": "1GB",
            "matrix": {"peak": {"bf16": "1TFLOP/s"}},
            "scale_up": network,
            "scale_out": network,
            "domain_gpus": 2,
        },
        "layout": {"global_batch": 4, "pp": 2},
    }


def mutated(rng: random.Random) -> Case:
    """Return an experiment with some changes, overrides or damaged text."""
    tree = copy.deepcopy(rng.choice(shipped())) if rng.random() < 0.5 else small(rng)
    n_changes = rng.choice([1, 1, 2, 4])
    wrong = [rng.choices(*zip(*MUTATIONS, strict=True))[0](rng, tree) for _ in range(n_changes)]
    arguments = _overrides(rng, tree) if rng.random() < 0.2 else []
    content = text_of(tree).encode("utf-8", "surrogatepass")
    if rng.random() < 0.15:
        return Case(_damaged(rng, content), arguments)
    return Case(content, arguments, wrong[0] if n_changes == 1 and not arguments else "")


def tiny(rng: random.Random) -> Case:
    """Return an experiment that is likely to be accepted and small enough to run."""
    tree = small(rng)
    for _ in range(rng.choice([1, 1, 2])):
        rng.choice([_parameter, _declared, _nudged])(rng, tree)
    return Case(text_of(tree).encode("utf-8", "surrogatepass"))


# --- mutations: each changes the tree and returns the key of a change that must be rejected -------


def places(item: Any, *, tables: bool = False, at: Place = ()) -> Iterator[Place]:
    """Yield the places of all values, or of all tables, the whole tree first."""
    if tables and isinstance(item, dict):
        yield at
    for key, value in item.items() if isinstance(item, dict) else enumerate(item):
        if isinstance(value, dict) or (isinstance(value, list) and any(map(_is_table, value))):
            yield from places(value, tables=tables, at=(*at, key))
        elif not tables:
            yield (*at, key)


def _is_table(item: Any) -> bool:
    return isinstance(item, dict)


def get(tree: Tree, place: Place) -> Any:
    """Return the value at a place."""
    for key in place:
        tree = tree[key]
    return tree


def put(tree: Any, place: Place, value: Any) -> str:
    """Set the value at a place; plugin names on the way become tables. Return the key."""
    for key, following in pairwise(place):
        inner = tree.get(key) if isinstance(tree, dict) else tree[key]
        if isinstance(following, str) and not isinstance(inner, dict):
            tree[key] = inner = {"kind": inner} if isinstance(inner, str) else {}
        tree = inner
    tree[place[-1]] = copy.deepcopy(value)
    return ".".join(key for key in place if isinstance(key, str))


def _any_place(rng: random.Random, tree: Tree) -> Place:
    return rng.choice(list(places(tree)) or [("x",)])


def _anything(rng: random.Random, tree: Tree) -> str:
    value = rng.choice(values.ANYTHING)
    place = rng.choice([_any_place(rng, tree), *list(places(tree, tables=True))[1:3]])
    key = put(tree, place, value)
    return key if value in values.WRONG_ANYWHERE else ""


def _nudged(rng: random.Random, tree: Tree) -> str:
    place = _any_place(rng, tree)
    put(tree, place, values.neighbor(rng, get(tree, place)))
    return ""


def params(tree: Tree) -> Iterator[tuple[Place, Param]]:
    """Yield the place and declaration of every plugin parameter."""
    for section in ("topology", "transport", "traffic"):
        used = tree.get(section)
        for at, use in enumerate(used) if isinstance(used, list) else [(None, used)]:
            kind = use.get("kind") if isinstance(use, dict) else use
            name = registry.split_preset(kind)[0] if isinstance(kind, str) else ""
            if name in registry.names(section):
                for param in registry.find(section, name).params:
                    yield (section, *([] if at is None else [at]), param.name), param


def unit_of(param: Param) -> str:
    """Return the name of a key's unit."""
    return param.unit if isinstance(param.unit, str) else param.unit.name


def choices_of(param: Param) -> Sequence[str]:
    """Return the names that a key may have."""
    kind = {"queue_discipline": "queue", "routing": "routing"}.get(param.name)
    names: Sequence[str] = registry.names(kind) if kind else param.choices
    return names


def _parameter(rng: random.Random, tree: Tree) -> str:
    known = list(params(tree))
    if not known:
        return _declared(rng, tree)
    place, param = rng.choice(known)
    value = values.of_unit(rng, unit_of(param), choices_of(param))
    if param.each and rng.random() < 0.5:
        value = {part: values.of_unit(rng, unit_of(param)) for part in param.each[:2]}
    put(tree, place, value)
    return ""


def _declared(rng: random.Random, tree: Tree) -> str:
    section = rng.choice([*SECTIONS, ("fabric",)])
    param = rng.choice(SECTIONS[section])
    if section[0] == "faults":
        put(tree, (*section, "links"), rng.choice(LINKS))
    put(tree, (*section, param.name), values.of_unit(rng, unit_of(param), choices_of(param)))
    return ""


def _second_class(rng: random.Random, tree: Tree) -> str:
    other = small(rng)
    flow_class = {name: other[name] for name in ("transport", "traffic")}
    put(tree, ("flow_classes", rng.choice(["b", "c d", "é", ""])), flow_class)
    return ""


def _removed(rng: random.Random, tree: Tree) -> str:
    place = rng.choice([*places(tree), *list(places(tree, tables=True))[1:]])
    del get(tree, place[:-1])[place[-1]]
    return ""


def _renamed(rng: random.Random, tree: Tree) -> str:
    place = _any_place(rng, tree)
    table, name = get(tree, place[:-1]), values.misspelled(rng, str(place[-1]))
    if place[-1] not in table:
        return ""
    is_new, value = name not in table, table.pop(place[-1])
    key = put(tree, (*place[:-1], name), value)
    return key if is_new else ""


def _added(rng: random.Random, tree: Tree) -> str:
    place = rng.choice(list(places(tree, tables=True)))
    name = rng.choice(["x", "Kind", "sise", "name", "description", "kind", "", "a b", "a.b"])
    key = put(tree, (*place, name), rng.choice(values.ANYTHING))
    is_wrong = name not in ("name", "description", "kind")
    return key if is_wrong and place not in [("flow_classes",), ("faults",)] else ""


def _moved(rng: random.Random, tree: Tree) -> str:
    place = _any_place(rng, tree)
    value = get(tree, place)
    get(tree, place[:-1]).pop(place[-1])
    put(tree, (*rng.choice(list(places(tree, tables=True))), place[-1]), value)
    return ""


def _listed(rng: random.Random, tree: Tree) -> str:
    place = _any_place(rng, tree)
    value = get(tree, place)
    other = values.neighbor(rng, value)
    put(
        tree, place, rng.choice([[value], [value, value], [value, other], [value, {"kind": value}]])
    )
    return ""


def _kind(rng: random.Random, tree: Tree) -> str:
    section = rng.choice(["topology", "transport", "traffic"])
    name = rng.choice(registry.names(section))
    odd = ("./none.py", "/", "..", "", "~x/y.py", "\x00.py", "netsim", "__init__", "ndp.ndp")
    kind = rng.choice([name, f"{name}:", f":{name}", values.misspelled(rng, name), rng.choice(odd)])
    put(tree, (section, "kind") if isinstance(tree.get(section), dict) else (section,), kind)
    return ""


Mutation = Callable[[random.Random, Tree], str]
MUTATIONS: list[tuple[Mutation, int]] = [
    (_anything, 7),
    (_nudged, 5),
    (_parameter, 8),
    (_declared, 10),
    (_second_class, 2),
    (_removed, 2),
    (_renamed, 2),
    (_added, 2),
    (_moved, 1),
    (_listed, 2),
    (_kind, 3),
]


def _overrides(rng: random.Random, tree: Tree) -> list[str]:
    """Return options of a command line, without characters that arguments cannot contain."""
    key = ".".join(part for part in _any_place(rng, tree) if isinstance(part, str))
    key = rng.choice([key, key, key + ".x", "." + key, "", "x.y.z", f'"{key}"'])
    odd = ["", "=", "\n", '"', "[1, 2", "ndp", "1 # 2", "{}", "1\nseed = 2"]
    odd += [toml(rng.choice(values.ANYTHING)), str(rng.choice(values.ODD["time"]))]
    change = f"{key}={rng.choice(odd)}".replace("\x00", "").encode("utf-8", "replace").decode()
    seed = ["--seed", rng.choice(["1", "1..3", "-1", "4294967296", "x", "[1,2]", ""])]
    return ["--set", change, *(seed if rng.random() < 0.3 else [])]


def _damaged(rng: random.Random, content: bytes) -> bytes:
    """Return the text with lines or bytes removed, repeated, swapped or inserted."""
    lines, at = content.split(b"\n"), rng.randrange(len(content) + 1)
    strange = rng.choice(values.STRANGE)
    return rng.choice([
        content[:at],
        content[at:],
        content[:at] + strange + content[at:],
        content[:at] + content[at + 1 :],
        b"\n".join(rng.sample(lines, len(lines))),
        content.decode("utf-8", "replace").encode("utf-16"),
        content * 2,
    ])  # fmt: skip
