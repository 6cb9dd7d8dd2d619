"""Write GOAL schedules as text, and in the binary format of `txt2bin`."""

import struct
from dataclasses import dataclass, field

SEND, RECV, CALC = 1, 2, 3


@dataclass
class Op:
    """One operation; `peer` and `tag` may be -1."""

    kind: int
    size: int
    peer: int = 0
    tag: int = 0
    cpu: int = 0
    nic: int = 0


@dataclass
class Rank:
    """The operations of a rank; an edge (a, b, start) makes b wait for the end, or start, of a."""

    ops: list[Op] = field(default_factory=list)
    edges: list[tuple[int, int, bool]] = field(default_factory=list)


def as_text(ranks: list[Rank]) -> str:
    lines = [f"num_ranks {len(ranks)}"]
    for number, rank in enumerate(ranks):
        lines.append(f"rank {number} {{")
        for k, op in enumerate(rank.ops):
            if op.kind == CALC:
                lines.append(f"l{k}: calc {op.size} cpu {op.cpu}")
                continue
            way = "send {}b to {}" if op.kind == SEND else "recv {}b from {}"
            lines.append(
                f"l{k}: {way.format(op.size, op.peer)} tag {op.tag} cpu {op.cpu} nic {op.nic}"
            )
        for first, then, start in rank.edges:
            lines.append(f"l{then} {'i' if start else ''}requires l{first}")
        lines.append("}")
    return "\n".join(lines) + "\n"


def as_binary(ranks: list[Rank]) -> bytes:
    parts = [_part(rank) for rank in ranks]
    at = 6 + 16 * len(ranks)
    table = b""
    for part in parts:
        table += struct.pack("<QQ", at, at + len(part))
        at += len(part)
    ops = [op for rank in ranks for op in rank.ops]
    most = [max((getattr(op, name) for op in ops), default=0) for name in ("cpu", "nic")]
    return struct.pack("<QIBB", 4223, len(ranks), *most) + table + b"".join(parts)


def _part(rank: Rank) -> bytes:
    waits = [sum(then == k for _, then, _ in rank.edges) for k in range(len(rank.ops))]
    roots = [k for k, count in enumerate(waits) if not count]
    records, behind = b"", []
    for k, op in enumerate(rank.ops):
        ends = [then for first, then, start in rank.edges if first == k and not start]
        starts = [then for first, then, start in rank.edges if first == k and start]
        at = len(behind)
        behind += ends + starts
        records += struct.pack(
            "<IbIQIBBIIII",
            *(waits[k], op.kind, op.peer % 2**32, op.size, op.tag % 2**32, op.cpu, op.nic),
            *(len(ends), at, len(starts), at + len(ends)),
        )
    head = struct.pack(f"<II{len(roots)}I", len(rank.ops), len(roots), *roots)
    return head + records + struct.pack(f"<{len(behind)}I", *behind)
