"""Mutated experiments: the text of a file, overrides of a command line, and what was changed."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from netsim.model.fabric import AT_CIRCUIT_END

from . import corpus, toml_text, values
from .corpus import Tree

Path = tuple[Any, ...]
Mutation = Callable[[random.Random, Tree], "Change"]


@dataclass(frozen=True)
class Change:
    """One mutation: its key (dotted, without indices), and whether it must be rejected."""

    key: str
    what: str
    wrong: bool = False


@dataclass
class Case:
    """An experiment to check: file content, command-line arguments, and changes."""

    content: bytes
    arguments: list[str] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)

    @property
    def must_fail(self) -> bool:
        """Return whether the only change is one that must be rejected."""
        return len(self.changes) == 1 and self.changes[0].wrong


def case(number: int) -> Case:
    """Return experiment `number`."""
    rng = random.Random(f"experiment {number}")
    tree = corpus.base(rng)
    n_changes = rng.choice([1, 1, 1, 2, 2, 3, 5])
    changes = [rng.choices(_MUTATIONS, _WEIGHTS)[0](rng, tree) for _ in range(n_changes)]
    arguments = _overrides(rng, tree, changes) if rng.random() < 0.2 else []
    content = toml_text.write(tree).encode("utf-8", "surrogatepass")
    if rng.random() < 0.15:
        content = _damaged(rng, content)
        changes.append(Change("", "text"))
    return Case(content, arguments, changes)


def tiny(number: int) -> Case:
    """Return experiment `number` of those likely to be accepted and small enough to run."""
    rng = random.Random(f"tiny experiment {number}")
    tree = corpus.small(rng)
    mutations, weights = [_parameter, _fixed, _fault, _second_class, _nudged], [4, 4, 1, 1, 2]
    n_changes = rng.choice([1, 1, 2, 3])
    changes = [rng.choices(mutations, weights)[0](rng, tree) for _ in range(n_changes)]
    return Case(toml_text.write(tree).encode("utf-8", "surrogatepass"), [], changes)


def leaves(item: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the paths of all values that are not tables."""
    if isinstance(item, dict):
        for key, one in item.items():
            yield from leaves(one, (*path, key))
    elif isinstance(item, list) and item and all(isinstance(one, dict) for one in item):
        for index, one in enumerate(item):
            yield from leaves(one, (*path, index))
    else:
        yield path


def tables(item: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the paths of all tables, the whole tree first."""
    if isinstance(item, dict):
        yield path
    for key, one in item.items() if isinstance(item, dict) else enumerate(item):
        if isinstance(one, dict | list):
            yield from tables(one, (*path, key))


def get(tree: Tree, path: Path) -> Any:
    """Return the value at a path."""
    item: Any = tree
    for key in path:
        item = item[key]
    return item


def put(tree: Tree, path: Path, value: Any) -> None:
    """Set the value at a path; plugin names along the path become tables."""
    item: Any = tree
    for key in path[:-1]:
        if isinstance(item[key], str):
            item[key] = {"kind": item[key]}
        item = item[key]
    item[path[-1]] = value


def _dotted(path: Path) -> str:
    return ".".join(str(key) for key in path if isinstance(key, str))


def _section(tree: Tree, name: str) -> Tree:
    """Return the table of a fixed section, creating it if missing."""
    if not isinstance(tree.get(name), dict):
        tree[name] = {}
    table: Tree = tree[name]
    return table


# --- mutations: each changes the tree in place ---------------------------------------------------


def _anything(rng: random.Random, tree: Tree) -> Change:
    path = rng.choice(list(leaves(tree)) or [("x",)])
    value = copy.deepcopy(rng.choice(values.ANYTHING))
    put(tree, path, value)
    return Change(_dotted(path), f"= {toml_text.value(value)[:60]}", value in values.WRONG_ANYWHERE)


def _nudged(rng: random.Random, tree: Tree) -> Change:
    path = rng.choice(list(leaves(tree)))
    value = values.neighbor(rng, get(tree, path))
    put(tree, path, value)
    return Change(_dotted(path), f"= {toml_text.value(value)[:60]}")


def _parameter(rng: random.Random, tree: Tree) -> Change:
    known = list(corpus.params(tree))
    if not known:
        return _fixed(rng, tree)
    path, param = rng.choice(known)
    value = copy.deepcopy(values.of_unit(rng, param.unit, param.choices))
    if param.each and rng.random() < 0.5:
        parts = rng.sample(param.each, rng.randint(1, len(param.each)))
        value = {part: copy.deepcopy(values.of_unit(rng, param.unit)) for part in parts}
    put(tree, path, value)
    return Change(_dotted(path), f"= {toml_text.value(value)[:60]}")


def _fixed(rng: random.Random, tree: Tree) -> Change:
    name = rng.choice(["packets", "fabric", "fabric", "routing", "stop", "measure", "outputs"])
    key, (unit, choices) = rng.choice(list(corpus.FIXED[name].items()))
    path: Path = (name, key)
    if name == "fabric" and rng.random() < 0.25:
        key, unit = rng.choice(list(corpus.ECN.items()))
        path, choices = ("fabric", "ecn", key), ("enqueue", "dequeue")
        if not isinstance(_section(tree, "fabric").get("ecn"), dict):
            tree["fabric"]["ecn"] = {"kmin_bytes": "5pkt"}
    elif name == "fabric" and rng.random() < 0.15:
        key, unit = rng.choice(list(corpus.CIRCUITS.items()))
        path, choices = ("fabric", "circuits", key), AT_CIRCUIT_END
        if not isinstance(_section(tree, "fabric").get("circuits"), dict):
            tree["fabric"]["circuits"] = {}
    value = copy.deepcopy(values.of_unit(rng, unit, choices))
    _section(tree, name)
    put(tree, path, value)
    return Change(_dotted(path), f"= {toml_text.value(value)[:60]}")


def _fault(rng: random.Random, tree: Tree) -> Change:
    fault: Tree = {"links": rng.choice(corpus.PATTERNS)}
    if rng.random() < 0.2:
        fault = {"node": rng.choice(corpus.NODES)}
    for key in rng.sample(list(corpus.FAULT), rng.choice([0, 1, 1, 2, 4])):
        fault[key] = copy.deepcopy(values.of_unit(rng, corpus.FAULT[key]))
    if rng.random() < 0.2:
        beside: Tree = rng.choice([{}, {"label": "none"}, {"label": copy.deepcopy(fault)}])
        tree["faults"] = [beside, {"label": rng.choice(["none", "", "é", 3]), "one": fault}]
    else:
        _section(tree, "faults")["one"] = fault
    return Change("faults.one", toml_text.value(fault)[:80])


def _second_class(rng: random.Random, tree: Tree) -> Change:
    other = corpus.small(rng)
    one = {"transport": {"kind": other["transport"]}, "traffic": other["traffic"]}
    _section(tree, "flow_classes")[rng.choice(["b", "wan", "c d", "é", ""])] = one
    return Change("flow_classes", str(other["transport"]))


def _removed(rng: random.Random, tree: Tree) -> Change:
    path = rng.choice(list(leaves(tree)) + [path for path in tables(tree) if path])
    del get(tree, path[:-1])[path[-1]]
    return Change(_dotted(path), "removed")


def _renamed(rng: random.Random, tree: Tree) -> Change:
    path = rng.choice(list(leaves(tree)))
    table, key = get(tree, path[:-1]), path[-1]
    name = values.misspelled(rng, str(key))
    new = name not in table
    table[name] = table.pop(key)
    return Change(_dotted((*path[:-1], name)), f"instead of {key}", new)


def _added(rng: random.Random, tree: Tree) -> Change:
    path = rng.choice(list(tables(tree)))
    table = get(tree, path)
    name = rng.choice(
        ["x", "Kind", "sise", "name", "description", "seed", "kind", "", "a b", "a.b"]
    )
    wrong = name in ("x", "Kind", "sise", "a b", "a.b", "") and path not in [
        ("flow_classes",),
        ("faults",),
    ]
    table[name] = copy.deepcopy(rng.choice(values.ANYTHING))
    return Change(_dotted((*path, name)), f"added {toml_text.value(table[name])[:60]}", wrong)


def _moved(rng: random.Random, tree: Tree) -> Change:
    path = rng.choice(list(leaves(tree)))
    value = get(tree, path[:-1]).pop(path[-1])
    to = (*rng.choice(list(tables(tree))), path[-1])
    put(tree, to, value)
    return Change(_dotted(to), f"moved from {_dotted(path)}")


def _replaced_table(rng: random.Random, tree: Tree) -> Change:
    path = rng.choice([path for path in tables(tree) if path] or [("topology",)])
    value = copy.deepcopy(rng.choice(values.ANYTHING))
    put(tree, path, value)
    return Change(_dotted(path), f"= {toml_text.value(value)[:60]}")


def _listed(rng: random.Random, tree: Tree) -> Change:
    path = rng.choice(list(leaves(tree)))
    value = get(tree, path)
    other = values.neighbor(rng, value)
    choices = [[value], [value, value], [value, other], [[value, other]], [value, {"kind": value}]]
    put(tree, path, rng.choice(choices))
    return Change(_dotted(path), "a list")


def _kind(rng: random.Random, tree: Tree) -> Change:
    section = rng.choice(["topology", "transport", "traffic"])
    from netsim.plugins import registry

    known = registry.names(section)
    name = rng.choice(known)
    presets = list(registry.find(section, name).presets)
    kind = rng.choice(
        [
            name,
            f"{name}:{rng.choice(presets)}" if presets else name,
            f"{name}:",
            f":{name}",
            f"{name}:nosuch",
            values.misspelled(rng, name),
            rng.choice(
                ["./none.py", "/", "..", "", "ndp.py", "~x/y.py", "\x00.py", "a" * 300 + ".py"]
            ),
            rng.choice(["netsim", "os", "__init__", "_draw", "ndp.ndp", "../transports/ndp"]),
        ]
    )
    table = tree.get(section)
    if isinstance(table, dict) and rng.random() < 0.7:
        table["kind"] = kind
    else:
        tree[section] = kind
    return Change(f"{section}.kind", kind[:60])


_WEIGHTED: list[tuple[Mutation, int]] = [
    (_anything, 6),
    (_nudged, 5),
    (_parameter, 8),
    (_fixed, 8),
    (_fault, 2),
    (_second_class, 2),
    (_removed, 2),
    (_renamed, 2),
    (_added, 2),
    (_moved, 1),
    (_replaced_table, 2),
    (_listed, 2),
    (_kind, 3),
]
_MUTATIONS = [mutation for mutation, _ in _WEIGHTED]
_WEIGHTS = [weight for _, weight in _WEIGHTED]


# --- around the tree: overrides and the text itself ----------------------------------------------


def _overrides(rng: random.Random, tree: Tree, changes: list[Change]) -> list[str]:
    arguments: list[str] = []
    for _ in range(rng.choice([1, 1, 2])):
        path = rng.choice(list(leaves(tree)) or [("x",)])
        key = _dotted(path)
        if rng.random() < 0.2:
            key = rng.choice(
                [key + ".x", "." + key, key + ".", "", "x.y.z", key.upper(), f'"{key}"']
            )
        value = rng.choice(
            [
                toml_text.value(rng.choice(values.ANYTHING)),
                str(rng.choice(rng.choice(list(values.ODD.values())))),
                rng.choice(["", "=", "\n", '"', "[1, 2", "ndp", "1 # 2", "{}", "1\nseed = 2", "'"]),
            ]
        )
        text = key + ("=" if rng.random() < 0.95 else "") + value
        # Command-line arguments cannot contain these characters.
        arguments += ["--set", text.replace("\x00", "").encode("utf-8", "replace").decode()]
        changes.append(Change(key, "--set"))
    if rng.random() < 0.3:
        arguments += [
            "--seed",
            rng.choice(["1", "1..3", "0", "-1", "4294967296", "x", "[1,2]", ""]),
        ]
        changes.append(Change("seed", "--seed"))
    return arguments


def _damaged(rng: random.Random, content: bytes) -> bytes:
    """Return the text with lines or bytes removed, repeated, swapped or inserted."""
    lines = content.split(b"\n")
    at = rng.randrange(len(lines))
    byte = rng.randrange(len(content) + 1)
    strange = rng.choice(
        [
            b"\x00", b"\xff", b"\xef\xbb\xbf", b"\r", b"\xed\xa0\x80", b'"', b"[", b"]]", b"=",
            b"#", b"\n[topology]\n", b"a.b.c = 1\n", b"\nseed = 1\nseed = 2\n", b"'''", b"\\",
            b"\x1b[2J", b"[" * 20000, b"a." * 2000 + b"b = 1\n", b"x = " + b"{a=" * 2000,
            b"\n[[topology]]\n", b"\n[" + b"a." * 3000 + b"a]\n",
        ]
    )  # fmt: skip
    return rng.choice(
        [
            content[:byte],
            content[byte:],
            content[:byte] + strange + content[byte:],
            content[:byte] + content[byte + 1 :],
            b"\n".join(lines[:at] + lines[at + 1 :]),
            b"\n".join(lines[: at + 1] + lines[at:]),
            b"\n".join(rng.sample(lines, len(lines))),
            content.decode("utf-8", "replace").encode("utf-16"),
            content * 2,
        ]
    )
