"""Process groups of Chakra traces: the ranks of each name.

They come from a JSON file, `{"7": [0, 1, 2, 3], ...}`, or from METADATA nodes of PyTorch traces,
whose inputs are a list with one JSON text, `[{"pg_name": "7", "ranks": [0, 1]}, ...]`. An empty
list means all ranks.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from netsim.common.inputs import read_json
from netsim.errors import InputError
from netsim.units import shortened, written

Groups = dict[str, tuple[int, ...]]

ALL = ("", "0")
"""Names that mean all ranks unless listed."""


def read_groups(path: Path, n_ranks: int) -> Groups:
    """Read the groups of a JSON file. Raises InputError with the group."""
    body = read_json(path)
    if not isinstance(body, Mapping):
        raise InputError("is not an object", file=str(path), hint='such as {"7": [0, 1, 2, 3]}')
    try:
        return {str(name): _ranks(str(name), ranks, n_ranks) for name, ranks in body.items()}
    except InputError as error:
        raise error.at(file=str(path)) from None


def groups_of(tables: Iterable[str], n_ranks: int) -> Groups:
    """Return the groups in inputs of METADATA nodes; other inputs are ignored.

    Raises InputError, without a file, for a group with different ranks.
    """
    found: Groups = {}
    for table in dict.fromkeys(tables):
        for row in _rows(table):
            name = str(row["pg_name"])
            ranks = _ranks(name, row["ranks"], n_ranks)
            if found.setdefault(name, ranks) != ranks:
                raise InputError(f"process group {written(name)} has different ranks elsewhere")
    return found


def _rows(table: str) -> list[Mapping[str, Any]]:
    try:
        values = ast.literal_eval(table)
        body = json.loads(values[0])
    except (ValueError, SyntaxError, TypeError, LookupError, RecursionError, MemoryError):
        return []
    rows = body if isinstance(body, list) else []
    return [row for row in rows if isinstance(row, Mapping) and {"pg_name", "ranks"} <= row.keys()]


def _ranks(name: str, ranks: Any, n_ranks: int) -> tuple[int, ...]:
    group = f"process group {written(name)}"
    is_list = isinstance(ranks, list)
    if not is_list or any(isinstance(one, bool) or not isinstance(one, int) for one in ranks):
        raise InputError(f"{group}: {shortened(str(ranks))} is not a list of ranks")
    for rank in ranks:
        if not 0 <= rank < n_ranks:
            raise InputError(f"{group}: unknown rank {rank}", hint=f"0..{n_ranks - 1}")
    if len(set(ranks)) < len(ranks):
        raise InputError(f"{group}: duplicate rank", code="duplicate")
    return tuple(ranks) or tuple(range(n_ranks))
