"""Mutated input files: flow lists, topologies, sizes, requests, files of other tools."""

from __future__ import annotations

import io
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import netsim.experiments

from . import toml_text
from .corpus import Tree

FOREIGN = {
    "goal": ("goal", "all_reduce_8.goal"),
    "et": ("chakra", "step_8.3.et"),
    "aicb": ("simai", "pipeline_8.txt"),
    "ns3": ("ns3_flows", "incast_8.flow.txt"),
}
"""Formats of other tools: the traffic pattern, and a built-in file to start from."""

KINDS = ("csv", "parquet", "cm", "topo", "sizes", "requests", *FOREIGN)
TRACES = Path(netsim.experiments.__file__).parent / "training" / "traces"

ODD_CELLS = (
    "", " ", "-1", "0", "1", "7", "8", "255", "256", "65535", "2147483648", "4611686018427387904",
    "9223372036854775807", "9223372036854775808", "9" * 400, "9" * 5000, "1.5", "1e3", "1e400",
    "1e999999999", "nan", "inf", "-inf", "x", "0x10", "1_000", "²", "\u0661", "\uff11", "\x00",
    '"', "'", "#", "1KB", "1us", "4611686018427387903B", "a b", "0 1 2", "0 0", "-0", "+1", "1;2",
    "\ufeff1", "None", "100000000000000000000", "3kbps", "0.0000001", "\u2028", "💩", "true",
)  # fmt: skip
"""Cell values to put in place of numbers."""

CSV = "src,dst,size_bytes,start_ps\n0,1,4096,0\n1,2,20000,1000\n2,3,1,0\n3,0,9000,5000\n"
CSV_TEXT = (
    "# flows\nsrc,dst,size,start,class,after\n0,1,4KB,1us,0,\n1,2,2KB,0ns,0,0\n2,0,9KB,5us,0,0 1\n"
)
CM = """Nodes 8
Connections 4
Triggers 2
0->1 id 1 start 0 size 20000 send_done_trigger 7
2->1 id 2 start 5 size 20000 recv_done_trigger 7
1->3 id 3 trigger 7 size 4096 recv_done_trigger 8 prio 1
3->0 id 4 trigger 8 size 1
trigger id 7 barrier count 2
trigger id 8 oneshot
"""
TOPO = """# two tiers
Nodes 8
Tiers 2
Podsize 8

Tier 0
Downlink_speed_Gbps 100
Radix_Up 2
Radix_Down 4
Downlink_Latency_ns 1000

Tier 1
Downlink_speed_Gbps 100
Radix_Down 2
Downlink_Latency_ns 1000
"""
SIZES = "# bytes, share\n0 0\n1000 0.5\n2000,0.8\n9000 1\n"
REQUESTS = "arrived_at,num_prefill_tokens,num_decode_tokens\n0.0,374,44\n0.5,396,109\n2,879,5\n"
REQUESTS_OF_CLOCKS = (
    "# a trace\nTIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"
    "2023-11-16 18:15:50.9951690,396,0\n2023-11-16 18:15:51.2225670,879,55\n"
)
TEXTS = {"csv": (CSV, CSV_TEXT), "cm": (CM,), "topo": (TOPO,), "sizes": (SIZES,)}
TEXTS["requests"] = (REQUESTS, REQUESTS_OF_CLOCKS)

SERVED: Tree = {
    "length_distribution": "trace",
    "prefill_instances": 1,
    "decode_instances": 1,
    "deployment": {"model": "llama3_8b", "machine": "h100", "options": {"tp": 2}},
}

STRANGE = (
    b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\r\n", b",", b",,,,,", b'"', b"\n\n\n", b"\t",
    b"#", b" " * 5000, b"9" * 5000, b"->", b"0->0", b"trigger", b"\n" * 3000, b"e", b"-", b"=",
    b"\x1b[2J",
)  # fmt: skip


@dataclass
class Case:
    """An input file, the experiment that names it, and files needed next to it."""

    kind: str
    name: str
    content: bytes
    experiment: str
    what: str
    beside: tuple[Path, ...] = ()


def case(number: int) -> Case:
    """Return file `number`."""
    rng = random.Random(f"file {number}")
    kind = rng.choice(KINDS)
    name = {"sizes": "sizes.txt"}.get(kind, f"flows.{kind}")
    beside: tuple[Path, ...] = ()
    if kind in FOREIGN:
        name = FOREIGN[kind][1]
        content, what = (TRACES / name).read_bytes(), kind
        if kind == "et":
            beside = tuple(path for path in TRACES.glob("step_8*") if path.name != name)
            content = _bytes(rng, content)
        else:
            content, what = _text(rng, content.decode())
    elif kind == "parquet":
        content, what = _parquet(rng)
    else:
        content, what = _text(rng, rng.choice(TEXTS[kind]))
    if rng.random() < 0.15:
        content, what = _bytes(rng, content), what + ", bytes"
    return Case(kind, name, content, toml_text.write(_experiment(rng, kind, name)), what, beside)


def _experiment(rng: random.Random, kind: str, name: str) -> Tree:
    tree: Tree = {
        "transport": rng.choice(["ndp", "dctcp", "ideal"]),
        "topology": {"kind": "fat_tree", "hosts_per_leaf": 4, "leaves": 2},
        "traffic": {"kind": "flow_list", "file": name},
    }
    if kind == "cm":
        tree["traffic"] = {"kind": "htsim_cm", "file": name, "start_unit": rng.choice(["ps", "us"])}
    elif kind == "topo":
        tree["topology"] = {"kind": "fat_tree", "topo_file": name}
        tree["traffic"] = {"kind": "permutation", "size": "4KB"}
    elif kind == "sizes":
        tree["traffic"] = {"kind": "poisson", "sizes": name, "load": 0.3, "n_flows": 4}
    elif kind == "requests":
        tree["transport"] = rng.choice(["ndp", "dctcp"])
        tree["traffic"] = {"kind": "serving", "arrival_process": "trace", "trace": name, **SERVED}
    elif kind in FOREIGN:
        tree["transport"] = rng.choice(["ndp", "dctcp"])
        tree["traffic"] = {"kind": FOREIGN[kind][0], "file": name}
        if kind == "et":
            tree["traffic"] |= {"file": "step_8", "groups": "step_8_groups.json"}
    return tree


def _text(rng: random.Random, text: str) -> tuple[bytes, str]:
    """Return the text with words replaced, or lines removed, repeated or swapped."""
    lines = text.split("\n")
    what = []
    for _ in range(rng.choice([1, 1, 2, 3])):
        at = rng.randrange(len(lines))
        change = rng.choice(["cell", "cell", "cell", "lose", "double", "swap", "append", "word"])
        if change == "cell":
            lines[at] = _other_cell(rng, lines[at])
        elif change == "lose":
            del lines[at]
            lines = lines or [""]
        elif change == "double":
            lines.insert(at, lines[at])
        elif change == "swap":
            other = rng.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        elif change == "append":
            lines[at] += rng.choice([",1", " 1", ",", "#", " x", ",x", " size 5"])
        else:
            words = text.replace(",", " ").split()
            lines[at] = lines[at].replace(rng.choice(words), rng.choice(words))
        what.append(change)
    return "\n".join(lines).encode("utf-8", "surrogatepass"), " ".join(what)


def _other_cell(rng: random.Random, line: str) -> str:
    separator = "," if "," in line else " "
    cells = line.split(separator)
    cells[rng.randrange(len(cells))] = rng.choice(ODD_CELLS)
    return separator.join(cells)


def _bytes(rng: random.Random, content: bytes) -> bytes:
    at = rng.randrange(len(content) + 1)
    flipped = bytearray(content)
    for _ in range(rng.choice([1, 4, 30])):
        if flipped:
            flipped[rng.randrange(len(flipped))] = rng.randrange(256)
    return rng.choice(
        [
            content[:at],
            content[at:],
            content[:at] + rng.choice(STRANGE) + content[at:],
            bytes(flipped),
            b"",
            content * 3,
            content.decode("utf-8", "replace").encode("utf-16"),
        ]
    )


def _parquet(rng: random.Random) -> tuple[bytes, str]:
    """Return a Parquet file of flows whose columns may have any type."""
    import polars as pl

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
    names = [
        "src",
        "dst",
        "size_bytes",
        "start_ps",
        "size",
        "start",
        "class",
        "after",
        "start_s",
        "x",
        "",
    ]
    what = []
    for _ in range(rng.choice([1, 1, 2])):
        name = rng.choice(names)
        if rng.random() < 0.15:
            columns.pop(name, None)
            what.append(f"without {name}")
        else:
            if name in ("size", "start", "start_s"):
                columns.pop("size_bytes" if name == "size" else "start_ps", None)
            columns[name] = rng.choice(odd)
            what.append(f"{name} as {columns[name].dtype}")
    if rng.random() < 0.05:
        columns = {name: column[:0] for name, column in columns.items()}
    stream = io.BytesIO()
    pl.DataFrame(columns).write_parquet(stream)
    return stream.getvalue(), ", ".join(what)
