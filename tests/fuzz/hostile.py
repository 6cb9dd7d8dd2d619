"""Small files of other tools, and topologies, with false counts that would need much memory."""

from __future__ import annotations

import gzip
import json
import random
import re
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path

from . import toml_text
from .corpus import Tree
from .files import CM, CSV, FOREIGN, REQUESTS, SIZES, TOPO, TRACES, Case

COUNTS = (
    10**5, 10**6, 10**7, 10**8, 9 * 10**8, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 10**12, 2**50,
    2**62, 2**63 - 1, 2**63, 2**64 - 1, 10**18, 10**30, int("9" * 400), int("9" * 4000),
)  # fmt: skip
"""Counts far beyond what a small file contains."""

LETTERS = "abcdefgh"

HPCC = "5 1 4\n4\n" + "".join(f"{host} 4 100Gbps 0.001ms 0\n" for host in range(4))
SIMAI = """8 2 2 2 9 H100
4 5 6 7
0 4 2880Gbps 0.000025ms 0
1 4 2880Gbps 0.000025ms 0
2 5 2880Gbps 0.000025ms 0
3 5 2880Gbps 0.000025ms 0
0 6 400Gbps 0.0005ms 0
1 7 400Gbps 0.0005ms 0
2 6 400Gbps 0.0005ms 0
3 7 400Gbps 0.0005ms 0
6 7 400Gbps 0.0005ms 0
"""
JSON = json.dumps(
    {
        "nodes": [{"id": 9, "kind": "switch"}, *({"id": k, "kind": "host"} for k in range(4))],
        "links": [{"source": 9, "target": k, "rate_bps": 10**10, "nic": 0} for k in range(4)],
    }
)
GRAPHML = (
    '<graphml><key id="n" for="edge" attr.name="nic" attr.type="long"/><graph edgedefault='
    '"undirected"><node id="s"/>'
    + "".join(
        f'<node id="{one}"/><edge source="{one}" target="s"><data key="n">0</data></edge>'
        for one in LETTERS
    )
    + "</graph></graphml>"
)
EDGES = "".join(f"{one} s 100Gbps 1us nic=0\n" for one in LETTERS)
MSCCL = (
    '<algo name="pair" ngpus="2" nchunksperloop="2" coll="allreduce">'
    '<gpu id="0"><tb id="0" send="1" recv="1" chan="0"><step s="0" type="s" cnt="2" depid="-1" '
    'deps="-1"/><step s="1" type="r" cnt="2" depid="-1" deps="-1"/></tb></gpu>'
    '<gpu id="1"><tb id="0" send="0" recv="0" chan="0"><step s="0" type="r" cnt="2" depid="-1" '
    'deps="-1"/><step s="1" type="s" cnt="2" depid="-1" deps="-1"/></tb></gpu></algo>'
)
TASKS = json.dumps(
    [
        {"kind": "send", "host": 0, "to": 1, "size": 4096, "name": "a"},
        {"kind": "receive", "host": 1, "of": "a", "name": "b"},
    ]
)
AICB = """[rank0 ~ rank3]
comm_type,comm_group,comm_group_size,msg_size,stage,dst,src,additional,_elapsed_time
CommType.all_reduce,CommGroup.tp_group,2,8192,a,None,None,,None
CommType.all_gather,CommGroup.dp_group,2,8192,a,None,None,,None
"""
ASTRA = (
    "topology: [ Ring, Switch ]\nnpus_count: [ 4, 2 ]\nbandwidth: [ 50, 25 ]\nlatency: [ 5, 9 ]\n"
)
OPERA = "0 1 4096 0\n1 2 20000 1000\n2 3 1 0\n"

TRAFFIC: dict[str, tuple[str, str]] = {
    "goal": ("goal", ""),
    "ns3": ("ns3_flows", ""),
    "aicb": ("simai", ""),
    "opera": ("opera_flows", OPERA),
    "cm": ("htsim_cm", CM),
    "csv": ("flow_list", CSV),
    "msccl": ("msccl", MSCCL),
    "job": ("aicb", AICB),
    "tasks": ("task_graph", TASKS),
}
GRAPHS = {"hpcc": HPCC, "simai": SIMAI, "json": JSON, "graphml": GRAPHML, "edges": EDGES}
SUFFIX = {"json": ".json", "tasks": ".json", "graphml": ".graphml", "topo": ".topo", "csv": ".csv"}

TOPOLOGIES: tuple[Tree, ...] = (
    {"kind": "multi_plane", "planes": 2, "plane": {"kind": "dumbbell", "hosts": 2}},
    {"kind": "fat_tree", "hosts_per_leaf": 4, "leaves": 2, "spines": 2, "planes": 2},
    {"kind": "fat_tree", "tiers": 3, "radix": 4},
    {
        "kind": "multi_rail",
        "gpus_per_rack": 2,
        "scale_up_planes": 2,
        "rail": {"kind": "dumbbell", "hosts": 2},
    },
    {"kind": "dumbbell", "hosts": 2},
    {"kind": "wan", "datacenter": {"kind": "dumbbell", "hosts": 2}, "links": 2},
    {"kind": "ocs", "racks": 4, "hosts_per_rack": 2, "circuit_switches": 2},
)

_NUMBER = re.compile(rb"(?<![\w.])[0-9]+(?![\w.])")


def case(number: int) -> Case:
    """Return case `number`."""
    rng = random.Random(f"hostile {number}")
    kind = rng.choice(
        [
            *TRAFFIC,
            *GRAPHS,
            "topo",
            "astra",
            "sizes",
            "requests",
            "binary",
            "et",
            "topology",
            *BOMBS,
        ]
    )
    if kind in BOMBS:
        name, content, tree = BOMBS[kind](rng)
        return Case(kind, name, content, toml_text.write(tree), "a bomb", _beside(name))
    if kind == "topology":
        tree = _experiment("topology", "")
        tree["topology"], what = _swollen(rng, rng.choice(TOPOLOGIES))
        return Case(kind, "none", b"", toml_text.write(tree), what)
    name, content = _valid(kind)
    content, what = (_raw if kind in ("binary", "et") else _inflated)(rng, content)
    return Case(kind, name, content, toml_text.write(_experiment(kind, name)), what, _beside(name))


def _valid(kind: str) -> tuple[str, bytes]:
    """Return the name and content of a valid file of a kind."""
    if kind in FOREIGN:
        return FOREIGN[kind][1], (TRACES / FOREIGN[kind][1]).read_bytes()
    if kind == "binary":
        return "flows.bin", _binary(2, 3)
    texts = {name: text for name, (_, text) in TRAFFIC.items()}
    texts |= {**GRAPHS, "topo": TOPO, "astra": ASTRA, "sizes": SIZES, "requests": REQUESTS}
    return f"flows{SUFFIX.get(kind, '.txt')}", texts[kind].encode()


def _beside(name: str) -> tuple[Path, ...]:
    if not name.endswith(".et"):
        return ()
    return tuple(path for path in TRACES.glob("step_8*") if path.name != name)


def _experiment(kind: str, name: str) -> Tree:
    tree: Tree = {
        "transport": "dctcp",
        "topology": {"kind": "fat_tree", "hosts_per_leaf": 4, "leaves": 2},
        "traffic": {"kind": "permutation", "size": "4KB"},
    }
    if kind in GRAPHS:
        tree["topology"] = {"kind": "graph", "file": name}
    elif kind == "astra":
        tree["topology"] = {"kind": "astra", "file": name}
    elif kind == "topo":
        tree["topology"] = {"kind": "fat_tree", "topo_file": name}
    elif kind == "sizes":
        tree["traffic"] = {"kind": "poisson", "sizes": name, "load": 0.3, "n_flows": 4}
    elif kind == "requests":
        deployment = {"model": "llama3_8b", "machine": "h100", "options": {"tp": 2}}
        tree["traffic"] = {"kind": "serving", "arrival_process": "trace", "trace": name}
        tree["traffic"] |= {
            "length_distribution": "trace",
            "prefill_instances": 1,
            "decode_instances": 1,
        }
        tree["traffic"]["deployment"] = deployment
    elif kind == "et":
        tree["traffic"] = {"kind": "chakra", "file": "step_8", "groups": "step_8_groups.json"}
    elif kind != "topology":
        tree["traffic"] = {"kind": {"binary": "goal"}.get(kind) or TRAFFIC[kind][0], "file": name}
        if kind == "msccl":
            tree["traffic"]["size"] = "1MB"
    return tree


def _inflated(rng: random.Random, content: bytes) -> tuple[bytes, str]:
    """Replace one to three whole numbers of a text by large ones."""
    what = []
    for _ in range(rng.choice([1, 1, 2, 3])):
        found = list(_NUMBER.finditer(content))
        place = found[rng.randrange(min(len(found), rng.choice([3, 12, len(found)])))]
        number = str(rng.choice(COUNTS))
        content = content[: place.start()] + number.encode() + content[place.end() :]
        what.append(f"{place[0].decode()} at {place.start()} is {number[:30]}")
    return content, ", ".join(what)


def _raw(rng: random.Random, content: bytes) -> tuple[bytes, str]:
    """Overwrite one or two counts of 1, 2, 4 or 8 bytes with large ones."""
    flipped, what = bytearray(content), []
    for _ in range(rng.choice([1, 1, 2])):
        width = rng.choice([1, 2, 4, 8])
        at = rng.randrange(max(len(flipped) - width, 1))
        number = rng.choice([2 ** (8 * width) - 1, 2 ** (8 * width - 1), 2 ** (4 * width)])
        flipped[at : at + width] = number.to_bytes(width, "little")
        what.append(f"{width} bytes at {at} are {number}")
    return bytes(flipped), ", ".join(what)


def _swollen(rng: random.Random, tree: Tree) -> tuple[Tree, str]:
    """Return a topology with one count, or one of an inner topology, made large."""
    own = dict(tree)
    name = rng.choice([key for key in own if key != "kind"])
    if isinstance(own[name], dict):
        own[name], what = _swollen(rng, own[name])
        return own, f"{name}.{what}"
    own[name] = rng.choice([count for count in COUNTS if count < 2**62])
    return own, f"{name} = {own[name]}"


def _binary(n_ranks: int, n_nodes: int, *, edges: int = 0, same: bool = False) -> bytes:
    """Return a binary GOAL schedule of calculations that each depend on the same `edges` others.

    With `same`, all ranks share one part of the file.
    """
    record = struct.pack("<IbIQIBBIIII", 0, 3, 0, 5, 0, 0, 0, edges, 0, 0, 0)
    part = struct.pack(f"<II{n_nodes}I", n_nodes, n_nodes, *range(n_nodes)) + record * n_nodes
    part += struct.pack(f"<{edges}I", *[0] * edges)
    begin = 6 + 16 * n_ranks
    starts = [begin + (0 if same else rank * len(part)) for rank in range(n_ranks)]
    table = b"".join(struct.pack("<QQ", one, one + len(part)) for one in starts)
    head = struct.pack("<QIBB", 4223, n_ranks, 0, 0)
    return head + table + part * (1 if same else n_ranks)


Bomb = tuple[str, bytes, Tree]


def _of_edges(rng: random.Random) -> Bomb:
    content = _binary(1, 10_000, edges=rng.choice([1000, 40_000]))
    return "flows.bin", content, _experiment("binary", "flows.bin")


def _of_ranks(rng: random.Random) -> Bomb:
    content = _binary(rng.choice([1000, 20_000]), 5_000, same=True)
    return "flows.bin", content, _experiment("binary", "flows.bin")


@cache
def _zeros(size: int) -> bytes:
    return gzip.compress(bytes(size), 1)


def _of_gzip(rng: random.Random) -> Bomb:
    content = _zeros(rng.choice([10**8, 4 * 10**8]))
    return FOREIGN["et"][1], content, _experiment("et", "")


def _of_dependencies(rng: random.Random) -> Bomb:
    """Return a trace in which a node lists one dependency 200,000 times, packed or not."""
    n = 200_000
    field = b"\x28\x01" * n if rng.random() < 0.5 else b"\x2a\xc0\x9a\x0c" + b"\x01" * n
    node = b"\x08\x02\x18\x04" + field
    length = bytes([len(node) & 0x7F | 0x80, len(node) >> 7 & 0x7F | 0x80, len(node) >> 14])
    content = b"\x07\x0a\x051.0.0" + b"\x04\x08\x01\x18\x04" + length + node
    return FOREIGN["et"][1], content, _experiment("et", "")


def _of_triggers(rng: random.Random) -> Bomb:
    n = rng.choice([2_000, 20_000])
    lines = ["Nodes 8", f"Connections {2 * n}", "Triggers 1"]
    lines += [f"0->1 id {k} start 0 size 10 send_done_trigger 1" for k in range(n)]
    lines += [f"1->2 id {n + k} trigger 1 size 10" for k in range(n)]
    content = "\n".join([*lines, f"trigger id 1 barrier count {n}"]).encode()
    return "flows.cm", content, _experiment("cm", "flows.cm")


def _of_keys(rng: random.Random) -> Bomb:
    """Return JSON of objects with distinct keys, or of deeply nested lists."""
    n = rng.choice([3_000, 60_000])
    text = json.dumps([{f"k{k}": 1} for k in range(n)])
    if rng.random() < 0.3:
        text = "[" * n + "]" * n
    name = rng.choice(["flows.json", "graph.json"])
    kind = "tasks" if name == "flows.json" else "json"
    return name, text.encode(), _experiment(kind, name)


BOMBS: dict[str, Callable[[random.Random], Bomb]] = {
    "edges of GOAL": _of_edges,
    "ranks of GOAL": _of_ranks,
    "gzip": _of_gzip,
    "dependencies": _of_dependencies,
    "triggers": _of_triggers,
    "keys": _of_keys,
}
"""Well-formed files that are small but expand when read."""
