"""Who is joined to whom, for how many bytes, by which circuit switch: all algorithms."""

from __future__ import annotations

from netsim.matchings.decompose import birkhoff, solstice
from netsim.matchings.greedy import greedy
from netsim.matchings.perfect import FREE
from netsim.matchings.sharing import shared_out
from netsim.matchings.tables import Part, Table, stuffed
from netsim.matchings.weights import slot_by_slot

GREEDY, MAX_WEIGHT, BVN, SOLSTICE = ALGORITHMS = ("greedy", "max_weight", "bvn", "solstice")


def for_good(table: Table, switches: int, *, duplex: bool) -> list[list[int]]:
    """The matching of each switch, which it keeps: `greedy`."""
    found: list[list[int]] = greedy(table, switches, duplex=duplex).tolist()
    return found


def slots(
    table: Table, switches: int, capacity: int, most: int, *, duplex: bool
) -> list[list[Part]]:
    """What each switch goes through in slots of `capacity` bytes: `max_weight`.

    The best matching of what is left goes to the next switch, so that all have as many, at most
    `most`; in the last round some may join nobody.
    """
    parts = slot_by_slot(table, capacity, most * switches, duplex=duplex)
    nobody = Part([FREE] * len(table), capacity)
    parts += [nobody] * (-len(parts) % switches)
    return [parts[number::switches] for number in range(switches)]


def decomposed(table: Table, algorithm: str, switches: int, most: int) -> list[list[Part]]:
    """What each switch goes through, one way, for as long as the demand needs: `bvn`, `solstice`.

    Of more than `most` parts of a switch those with the fewest bytes are left out. Racks that have
    nothing to send to each other are not joined.
    """
    whole = stuffed(table)
    parts = birkhoff(whole) if algorithm == BVN else solstice(whole)
    shares = []
    for own in shared_out(parts, switches):
        longest = sorted(range(len(own)), key=lambda place: -own[place].amount)[:most]
        shares.append([_needed(own[place], table) for place in sorted(longest)])
    return shares


def _needed(part: Part, table: Table) -> Part:
    columns = [column if column in table[row] else FREE for row, column in enumerate(part.columns)]
    return part._replace(columns=columns)
