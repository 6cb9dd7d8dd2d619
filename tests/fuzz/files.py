"""Input files of every format, damaged or with false counts, and the experiments that name them."""

import gzip
import io
import json
import random
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

import netsim.experiments

from . import values
from .experiments import Tree, text_of

TRACES = Path(netsim.experiments.__file__).parent / "training" / "traces"

COUNTS = (
    10**5, 10**6, 10**7, 10**8, 9 * 10**8, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 10**12, 2**50,
    2**62, 2**63 - 1, 2**63, 2**64 - 1, 10**18, 10**30, int("9" * 400), int("9" * 4000),
)  # fmt: skip
"""Counts far beyond what a small file contains."""

ODD_CELLS = (
    "", " ", "-1", "0", "1", "7", "8", "255", "256", "65535", "2147483648", "4611686018427387904",
    "9223372036854775807", "9223372036854775808", "9" * 400, "9" * 5000, "1.5", "1e3", "1e400",
    "1e999999999", "nan", "inf", "-inf", "x", "0x10", "1_000", "²", "\u0661", "\uff11", "\x00",
    '"', "'", "#", "1KB", "1us", "4611686018427387903B", "a b", "0 1 2", "0 0", "-0", "+1", "1;2",
    "\ufeff1", "None", "100000000000000000000", "3kbps", "0.0000001", "\u2028", "💩", "true",
)  # fmt: skip
"""Cell values to put in place of numbers."""

SAMPLES = Path(__file__).parents[1] / "data" / "samples"

SERVED: Tree = {
    "kind": "serving",
    "arrival_process": "trace",
    "length_distribution": "trace",
    "prefill_instances": 1,
    "decode_instances": 1,
    "deployment": {"model": "llama3_8b", "machine": "h100", "options": {"tp": 2}},
}


def _traffic(kind: str, name: str, **more: Any) -> Tree:
    return {"traffic": {"kind": kind, "file": name, **more}}


TREES: dict[str, Tree] = {
    "all_reduce_8.goal": _traffic("goal", "all_reduce_8.goal"),
    "pipeline_8.txt": _traffic("simai", "pipeline_8.txt"),
    "incast_8.flow.txt": _traffic("ns3_flows", "incast_8.flow.txt"),
    "step_8.3.et": _traffic("chakra", "step_8", groups="step_8_groups.json"),
    "flows.csv": _traffic("flow_list", "flows.csv"),
    "more.csv": _traffic("flow_list", "more.csv"),
    "flows.cm": _traffic("htsim_cm", "flows.cm"),
    "opera.txt": _traffic("opera_flows", "opera.txt"),
    "pair.xml": _traffic("msccl", "pair.xml", size="1MB"),
    "aicb.csv": _traffic("aicb", "aicb.csv"),
    "tasks.json": _traffic("task_graph", "tasks.json"),
    "tree.topo": {"topology": {"kind": "fat_tree", "topo_file": "tree.topo"}},
    "astra.yml": {"topology": {"kind": "astra", "file": "astra.yml"}},
    **{
        name: {"topology": {"kind": "graph", "file": name}}
        for name in ("hpcc.txt", "simai.txt", "graph.json", "graph.graphml", "edges.txt")
    },
    "sizes.txt": {"traffic": {"kind": "poisson", "sizes": "sizes.txt", "load": 0.3, "n_flows": 4}},
    "requests.csv": {"traffic": SERVED | {"trace": "requests.csv"}},
    "clocks.csv": {"traffic": SERVED | {"trace": "clocks.csv"}},
}
"""Name of a file -> the sections that name it."""

FILES = {
    name: next(path for at in (TRACES, SAMPLES) if (path := at / name).exists()).read_bytes()
    for name in TREES
}
"""Valid files of every format, built-in ones and samples."""

TOPOLOGIES: tuple[Tree, ...] = (
    {"kind": "multi_plane", "planes": 2, "plane": {"kind": "dumbbell", "hosts": 2}},
    {"kind": "fat_tree", "hosts_per_leaf": 4, "leaves": 2, "spines": 2, "planes": 2},
    {"kind": "fat_tree", "tiers": 3, "radix": 4},
    {"kind": "multi_rail", "gpus_per_rack": 2, "rail": {"kind": "dumbbell", "hosts": 2}},
    {"kind": "dumbbell", "hosts": 2},
    {"kind": "wan", "datacenter": {"kind": "dumbbell", "hosts": 2}, "links": 2},
    {"kind": "ocs", "racks": 4, "hosts_per_rack": 2, "circuit_switches": 2},
)


@dataclass
class Case:
    """An input file and the experiment that names it."""

    name: str
    content: bytes
    experiment: str

    @property
    def beside(self) -> list[Path]:
        """Return the files needed next to it."""
        is_part = self.name.endswith(".et")
        return [path for path in TRACES.glob("step_8*") if is_part and path.name != self.name]


def _case(name: str, content: bytes, tree: Tree) -> Case:
    base: Tree = {
        "transport": "dctcp",
        "topology": {"kind": "fat_tree", "hosts_per_leaf": 4, "leaves": 2},
        "traffic": {"kind": "permutation", "size": "4KB"},
    }
    return Case(name, content, text_of(base | tree))


def damaged(rng: random.Random) -> Case:
    """Return a file with words, lines or bytes changed."""
    name = rng.choice([*FILES, "flows.parquet"])
    if name == "flows.parquet":
        content, tree = _parquet(rng), _traffic("flow_list", name)
    else:
        content, tree = FILES[name], TREES[name]
        if not name.endswith(".et"):
            content = _other_words(rng, content.decode("latin-1"))
    if name.endswith(".et") or rng.random() < 0.15:
        content = _other_bytes(rng, content)
    return _case(name, content, tree)


def hostile(rng: random.Random) -> Case:
    """Return a small file, or a topology, with counts that would need much memory."""
    way = rng.choice(["text", "text", "raw", "topology", "bomb"])
    if way == "bomb":
        return _case(*rng.choice(BOMBS)(rng))
    if way == "topology":
        return _case("none", b"", {"topology": _swollen(rng, rng.choice(TOPOLOGIES))})
    name = rng.choice([name for name in FILES if name.endswith(".et") == (way == "raw")])
    content, tree = FILES[name], TREES[name]
    if way == "text":
        return _case(name, _inflated(rng, content), tree)
    if rng.random() < 0.5:
        name, content, tree = "flows.bin", _binary(2, 3), _traffic("goal", "flows.bin")
    return _case(name, _raw(rng, content), tree)


def _other_words(rng: random.Random, text: str) -> bytes:
    """Return the text with words replaced, or lines removed, repeated or swapped."""
    lines = text.split("\n")
    for _ in range(rng.choice([1, 1, 2, 3])):
        at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
        separator = "," if "," in lines[at] else " "
        cells = lines[at].split(separator)
        cells[rng.randrange(len(cells))] = rng.choice(ODD_CELLS)
        lines[at : at + 1] = rng.choice([
            *[[separator.join(cells)]] * 4, [], [lines[at]] * 2, [lines[other]],
            [lines[at] + rng.choice([",1", " 1", "#", ",x", " size 5"])],
        ])  # fmt: skip
        lines = lines or [""]
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def _other_bytes(rng: random.Random, content: bytes) -> bytes:
    at, flipped = rng.randrange(len(content) + 1), bytearray(content)
    for _ in range(rng.choice([1, 4, 30]) if content else 0):
        flipped[rng.randrange(len(flipped))] = rng.randrange(256)
    inserted = content[:at] + rng.choice(values.STRANGE) + content[at:]
    return rng.choice([content[:at], content[at:], inserted, bytes(flipped), b"", content * 3])


_NUMBER = re.compile(rb"(?<![\w.])[0-9]+(?![\w.])")


def _inflated(rng: random.Random, content: bytes) -> bytes:
    """Replace one to three whole numbers of a text by large ones."""
    for _ in range(rng.choice([1, 1, 2, 3])):
        found = list(_NUMBER.finditer(content))
        place = found[rng.randrange(min(len(found), rng.choice([3, 12, len(found)])))]
        number = str(rng.choice(COUNTS))
        content = content[: place.start()] + number.encode() + content[place.end() :]
    return content


def _raw(rng: random.Random, content: bytes) -> bytes:
    """Overwrite one or two counts of 1, 2, 4 or 8 bytes with large ones."""
    flipped = bytearray(content)
    for _ in range(rng.choice([1, 1, 2])):
        width = rng.choice([1, 2, 4, 8])
        at = rng.randrange(max(len(flipped) - width, 1))
        number = rng.choice([2 ** (8 * width) - 1, 2 ** (8 * width - 1), 2 ** (4 * width)])
        flipped[at : at + width] = number.to_bytes(width, "little")
    return bytes(flipped)


def _swollen(rng: random.Random, tree: Tree) -> Tree:
    """Return a topology with one count, or one of an inner topology, made large."""
    own = dict(tree)
    name = rng.choice([key for key in own if key != "kind"])
    if isinstance(own[name], dict):
        own[name] = _swollen(rng, own[name])
        return own
    own[name] = rng.choice([count for count in COUNTS if count < 2**62])
    return own


def _binary(n_ranks: int, n_nodes: int, *, edges: int = 0, same: bool = False) -> bytes:
    """Return a binary GOAL schedule of calculations that each depend on the same `edges` others.
    With `same`, all ranks share one part of the file."""
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
    return "flows.bin", content, _traffic("goal", "flows.bin")


def _of_ranks(rng: random.Random) -> Bomb:
    content = _binary(rng.choice([1000, 20_000]), 5_000, same=True)
    return "flows.bin", content, _traffic("goal", "flows.bin")


@cache
def _zeros(size: int) -> bytes:
    return gzip.compress(bytes(size), 1)


def _of_gzip(rng: random.Random) -> Bomb:
    content = _zeros(rng.choice([10**8, 4 * 10**8]))
    return "step_8.3.et", content, TREES["step_8.3.et"]


def _of_dependencies(rng: random.Random) -> Bomb:
    """Return a trace in which a node lists one dependency 200,000 times, packed or not."""
    n = 200_000
    field = b"\x28\x01" * n if rng.random() < 0.5 else b"\x2a\xc0\x9a\x0c" + b"\x01" * n
    node = b"\x08\x02\x18\x04" + field
    length = bytes([len(node) & 0x7F | 0x80, len(node) >> 7 & 0x7F | 0x80, len(node) >> 14])
    content = b"\x07\x0a\x051.0.0" + b"\x04\x08\x01\x18\x04" + length + node
    return "step_8.3.et", content, TREES["step_8.3.et"]


def _of_triggers(rng: random.Random) -> Bomb:
    n = rng.choice([2_000, 20_000])
    lines = ["Nodes 8", f"Connections {2 * n}", "Triggers 1"]
    lines += [f"0->1 id {k} start 0 size 10 send_done_trigger 1" for k in range(n)]
    lines += [f"1->2 id {n + k} trigger 1 size 10" for k in range(n)]
    content = "\n".join([*lines, f"trigger id 1 barrier count {n}"]).encode()
    return "flows.cm", content, _traffic("htsim_cm", "flows.cm")


def _of_keys(rng: random.Random) -> Bomb:
    """Return JSON of objects with distinct keys, or of deeply nested lists."""
    n = rng.choice([3_000, 60_000])
    text = json.dumps([{f"k{k}": 1} for k in range(n)])
    if rng.random() < 0.3:
        text = "[" * n + "]" * n
    name = rng.choice(["tasks.json", "graph.json"])
    return name, text.encode(), TREES[name]


BOMBS: tuple[Callable[[random.Random], Bomb], ...] = (
    _of_edges,
    _of_ranks,
    _of_gzip,
    _of_dependencies,
    _of_triggers,
    _of_keys,
)
"""Well-formed files that are small but expand when read."""


def _parquet(rng: random.Random) -> bytes:
    """Return a Parquet file of flows with a column of any type."""
    columns: dict[str, Any] = {
        "src": pl.Series([0, 1, 2, 3]),
        "dst": pl.Series([1, 2, 3, 0]),
        "size_bytes": pl.Series([4096, 20000, 1, 9000]),
        "start_ps": pl.Series([0, 1000, 0, 5000]),
    }
    odd = [
        pl.Series(["0", "1", "2", "3"]),
        pl.Series([0.0, 1.0, 2.5, float("nan")]),
        pl.Series([0, None, 2, 3]),
        pl.Series([True, False, True, False]),
        pl.Series([2**63, 1, 2, 3], dtype=pl.UInt64),
        pl.Series([2**63 - 1, -(2**63), 0, 1]),
        pl.Series([0, 1, 2, 3], dtype=pl.Int8),
        pl.Series([0, 1, 2, 3]).cast(pl.Datetime("us")),
        pl.Series([0, 1, 2, 3]).cast(pl.Duration("ns")),
        pl.Series([[0], [1], [], [2]]),
        pl.Series([None] * 4),
        pl.Series([b"\x00", b"1", b"", b"\xff"]),
        pl.Series([{"a": 1}] * 4),
        pl.Series(["1KB", "x", "", "1us"], dtype=pl.Categorical),
        pl.Series([1, 2, 3, 4]).cast(pl.Decimal(20, 2)),
        pl.Series([0, 1, 2, 2**62]),
        pl.Series(["1us", "2us", "3us", "4us"]),
        pl.Series([-1, -2, -3, -4]),
        pl.Series([1e300, 1e-300, float("inf"), -1.0]),
    ]
    name = rng.choice([*columns, "size", "start", "class", "after", "x", ""])
    if name in ("size", "start"):
        del columns["size_bytes" if name == "size" else "start_ps"]
    columns[name] = rng.choice(odd)
    stream = io.BytesIO()
    pl.DataFrame(columns).write_parquet(stream)
    return stream.getvalue()
