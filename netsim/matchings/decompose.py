"""Decomposition of a demand into a sum of matchings."""

from __future__ import annotations

from netsim.matchings.greedy import greedy
from netsim.matchings.perfect import FREE, perfect_matching
from netsim.matchings.tables import Submatching, Table, stuffed, take


def birkhoff(table: Table) -> list[Submatching]:
    """Return matchings whose sum is the table, whose rows and columns must have equal sums.

    Each is any perfect matching, used until its smallest entry is exhausted. By the Birkhoff-von
    Neumann theorem one exists until the table is empty, and n^2 - 2 n + 2 suffice for n rows. Their
    number is not minimized, so many may be short.
    """
    left = [dict(entries) for entries in table]
    parts: list[Submatching] = []
    known: list[int] = []
    while any(left):
        known = perfect_matching(left, known=known)
        parts.append(_part(left, known))
    return parts


def solstice(table: Table) -> list[Submatching]:
    """Return fewer matchings than `birkhoff`: long ones first, with decreasing thresholds.

    The threshold starts as the largest power of two that does not exceed all entries, and is halved
    when no perfect matching has all entries at or above it (H. Liu et al., Scheduling Techniques
    for Hybrid Circuit/Packet Networks, CoNEXT 2015).
    """
    left = [dict(entries) for entries in table]
    parts: list[Submatching] = []
    most = max((amount for entries in left for amount in entries.values()), default=0)
    least = 1 << most.bit_length() >> 1
    known: list[int] = []
    while any(left):
        found = perfect_matching(left, least, known)
        if found:
            known = found
            parts.append(_part(left, found))
        else:
            least >>= 1
    return parts


def _part(left: Table, columns: list[int]) -> Submatching:
    """Subtract a matching from the table until its smallest entry is exhausted, and return it."""
    amount = min(left[row][column] for row, column in enumerate(columns))
    take(left, columns, amount)
    return Submatching(columns, amount)


GREEDY, MAX_WEIGHT, BVN, SOLSTICE = ALGORITHMS = ("greedy", "max_weight", "bvn", "solstice")


def permanent_matchings(table: Table, switches: int, *, bidirectional: bool) -> list[list[int]]:
    """Return the permanent matching of each switch by `greedy`."""
    found: list[list[int]] = greedy(table, switches, bidirectional=bidirectional).tolist()
    return found


def decompose_demand(table: Table, algorithm: str, most: int) -> list[Submatching]:
    """Return one-way matchings for as long as the demand needs them, by `bvn` or `solstice`.

    If there are more than `most`, those with the fewest bytes are omitted. Racks without demand are
    not joined.
    """
    whole = stuffed(table)
    parts = birkhoff(whole) if algorithm == BVN else solstice(whole)
    longest = sorted(range(len(parts)), key=lambda place: -parts[place].amount)[:most]
    return [_needed(parts[place], table) for place in sorted(longest)]


def _needed(part: Submatching, table: Table) -> Submatching:
    columns = [column if column in table[row] else FREE for row, column in enumerate(part.columns)]
    return part._replace(columns=columns)
