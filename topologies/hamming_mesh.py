"""HammingMesh: boards that are meshes of chips, joined by switches along rows and columns.

A board is a mesh of `board` = "4x4" chips (rows x columns), and there are `boards` = "8x8" of them.
A chip is a host with its own switch, s_row_column, that has four cables: to its neighbors, and
at the edge of a board to the switch of its row (row0, row1, ...) or column (column0, ...). So a row
switch has two cables from every board of its row.

Packets take all shortest paths. Hosts are numbered row by row of the whole machine.

Hoefler et al., "HammingMesh: A Network Topology for Large-Scale Deep Learning", SC 2022. Its rows
and columns of many boards have fat trees; here each has a single switch.
"""

from __future__ import annotations

import numpy as np

from netsim.errors import InputError
from netsim.model.columns import Ints
from netsim.network import Network
from netsim.params import REQUIRED, Param, Params
from netsim.topologies._direct import LINKS, Cables, build_direct, names_of, numbers, places

PARAMS = [
    Param("board", "text", REQUIRED, 'rows and columns of chips of a board, such as "4x4"'),
    Param("boards", "text", REQUIRED, 'rows and columns of boards, such as "8x8"'),
    *LINKS,
    Param("row_rate", "rate", None, "rate of row and column switches; default: fabric_rate"),
    Param("row_latency", "time", None, "propagation to them; default: link_latency"),
]


def build(params: Params) -> Network:
    """Return the network of `params` (see PARAMS). Raises InputError for a wrong shape."""
    board, boards = (_plane(params, key) for key in ("board", "boards"))
    shape = (board[0] * boards[0], board[1] * boards[1])
    chips = np.arange(shape[0] * shape[1]).reshape(shape)
    inside: list[Ints] = []
    outside: list[Ints] = []
    for grid, each in ((chips, board[1]), (chips.T, board[0])):
        ends = np.stack([grid[:, :-1], grid[:, 1:]], axis=-1)
        inside.append(ends[:, np.arange(1, grid.shape[1]) % each > 0].reshape(-1, 2))
        first = np.arange(0, grid.shape[1], each)
        edge = grid[:, np.stack([first, first + each - 1], axis=1).reshape(-1)]
        line = chips.size + (shape[0] if outside else 0) + np.arange(len(grid))
        outside.append(np.stack(np.broadcast_arrays(edge, line[:, None]), axis=-1).reshape(-1, 2))
    names = [f"row{k}" for k in range(shape[0])] + [f"column{k}" for k in range(shape[1])]
    cables = [
        Cables(np.concatenate(inside)),
        Cables(np.concatenate(outside), params["row_rate"], params["row_latency"]),
    ]
    name = f"hamming_mesh_{params['boards']}_of_{params['board']}"
    tiers = [names_of("s", places(shape)), names]
    return build_direct(name, params, tiers, 1, cables, shape)


def _plane(params: Params, key: str) -> tuple[int, int]:
    shape = numbers(params[key], key, 1)
    if len(shape) != 2:
        message = f"{params[key]!r} has {len(shape)} dimensions"
        raise InputError(message, key=f"topology.{key}", hint='2, such as "4x4"')
    return shape[0], shape[1]
