"""Write Chakra traces from the schema, independently of netsim's reader."""

import struct
from dataclasses import dataclass, field
from pathlib import Path

COMP, SEND, RECV, COLLECTIVE = 4, 5, 6, 7
ALL_REDUCE, ALL_GATHER, ALL_TO_ALL, REDUCE_SCATTER = 0, 2, 6, 7

MEMBERS = {"int32": 7, "int64": 9, "uint32": 11, "uint64": 13, "sint32": 15, "sint64": 17}
FIXED = {"fixed32": (19, "<I"), "fixed64": (21, "<Q"), "sfixed32": (23, "<i")}
FIXED |= {"sfixed64": (25, "<q"), "double": (3, "<d"), "float": (5, "<f")}
USUAL = {"comm_size": "int64", "comm_type": "int64", "num_ops": "int64", "tensor_size": "uint64"}


@dataclass
class Node:
    """A node; values of attributes are numbers, bools, texts, or pairs of a member and a number."""

    id: int
    kind: int
    attributes: dict[str, object] = field(default_factory=dict)
    data_deps: tuple[int, ...] = ()
    ctrl_deps: tuple[int, ...] = ()
    duration_us: int = 0
    name: str = ""
    inputs: str = ""
    packed: bool = True


def varint(value: int) -> bytes:
    value %= 1 << 64
    found = b""
    while True:
        low, value = value & 0x7F, value >> 7
        found += bytes([low | 0x80 * bool(value)])
        if not value:
            return found


def number(at: int, value: int) -> bytes:
    return varint(at << 3) + varint(value)


def chunk(at: int, content: bytes) -> bytes:
    return varint(at << 3 | 2) + varint(len(content)) + content


def attribute(name: str, value: object) -> bytes:
    content = chunk(1, name.encode())
    if isinstance(value, bool):
        return content + number(27, value)
    if isinstance(value, str):
        return content + chunk(29, value.encode())
    member, given = value if isinstance(value, tuple) else (USUAL.get(name, "int32"), value)
    if member in FIXED:
        at, form = FIXED[member]
        wire = 5 if form[1] in "Iif" else 1
        return content + varint(at << 3 | wire) + struct.pack(form, given)
    assert isinstance(given, int)
    zigzag = given << 1 ^ given >> 63 if member.startswith("s") else given
    return content + number(MEMBERS[member], zigzag)


def message(node: Node) -> bytes:
    """Encode a node as proto3 does: zeros are omitted, except values of attributes."""
    found = number(1, node.id) if node.id else b""
    found += chunk(2, node.name.encode()) if node.name else b""
    found += number(3, node.kind) if node.kind else b""
    for at, deps in ((4, node.ctrl_deps), (5, node.data_deps)):
        if node.packed and deps:
            found += chunk(at, b"".join(map(varint, deps)))
        elif deps:
            found += b"".join(number(at, one) for one in deps)
    found += number(7, node.duration_us) if node.duration_us else b""
    found += chunk(8, chunk(1, node.inputs.encode())) if node.inputs else b""
    return found + b"".join(chunk(10, attribute(*one)) for one in node.attributes.items())


def trace(nodes: list[Node], version: str = "1.0.0") -> bytes:
    parts = [chunk(1, version.encode()), *map(message, nodes)]
    return b"".join(varint(len(part)) + part for part in parts)


def write(directory: Path, name: str, ranks: list[list[Node]]) -> Path:
    """Write a trace for each rank; return their prefix."""
    for rank, nodes in enumerate(ranks):
        (directory / f"{name}.{rank}.et").write_bytes(trace(nodes))
    return directory / name
