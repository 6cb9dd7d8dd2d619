"""Who is joined to whom, and for how many bytes, by the name of an algorithm."""

from __future__ import annotations

from netsim.matchings.decompose import birkhoff, solstice
from netsim.matchings.greedy import greedy
from netsim.matchings.perfect import FREE
from netsim.matchings.tables import Submatching, Table, stuffed

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
