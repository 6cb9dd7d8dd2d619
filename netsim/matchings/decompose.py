"""A stuffed table as a sum of matchings, each for so many bytes."""

from __future__ import annotations

from netsim.matchings.greedy import greedy
from netsim.matchings.perfect import FREE, perfect_matching
from netsim.matchings.tables import Submatching, Table, stuffed, take


def birkhoff(table: Table) -> list[Submatching]:
    """Matchings whose sum is the table, in which all rows and columns have one sum.

    Any perfect matching is taken for as long as all of its entries last, so that one of them is
    used up. By the theorem of Birkhoff and von Neumann there is one as long as anything is left,
    and no more than n^2 - 2 n + 2 are needed for n rows. How many there are is not looked at, so
    that many may be short.
    """
    left = [dict(entries) for entries in table]
    parts: list[Submatching] = []
    known: list[int] = []
    while any(left):
        known = perfect_matching(left, known=known)
        parts.append(_part(left, known))
    return parts


def solstice(table: Table) -> list[Submatching]:
    """As `birkhoff`, in fewer parts: long ones first, by thresholds that are halved.

    The threshold begins as the largest power of two that is not above all entries, and is halved
    when no perfect matching has all of its entries at or above it (H. Liu et al., Scheduling
    Techniques for Hybrid Circuit/Packet Networks, CoNEXT 2015).
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
    """Take a matching from the table for as long as all of its entries last."""
    amount = min(left[row][column] for row, column in enumerate(columns))
    take(left, columns, amount)
    return Submatching(columns, amount)


GREEDY, MAX_WEIGHT, BVN, SOLSTICE = ALGORITHMS = ("greedy", "max_weight", "bvn", "solstice")


def for_good(table: Table, switches: int, *, bidirectional: bool) -> list[list[int]]:
    """The matching of each switch, which it keeps: `greedy`."""
    found: list[list[int]] = greedy(table, switches, bidirectional=bidirectional).tolist()
    return found


def decomposed(table: Table, algorithm: str, most: int) -> list[Submatching]:
    """Matchings, one way, for as long as the demand needs them: `bvn` and `solstice`.

    Of more than `most` those with the fewest bytes are left out. Racks that have nothing to send to
    each other are not joined.
    """
    whole = stuffed(table)
    parts = birkhoff(whole) if algorithm == BVN else solstice(whole)
    longest = sorted(range(len(parts)), key=lambda place: -parts[place].amount)[:most]
    return [_needed(parts[place], table) for place in sorted(longest)]


def _needed(part: Submatching, table: Table) -> Submatching:
    columns = [column if column in table[row] else FREE for row, column in enumerate(part.columns)]
    return part._replace(columns=columns)
