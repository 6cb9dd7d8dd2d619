"""The matchings of one schedule shared out among several circuit switches."""

from __future__ import annotations

from collections.abc import Iterable

from netsim.matchings.tables import Part


def shared_out(parts: Iterable[Part], switches: int) -> list[list[Part]]:
    """What each switch goes through, so that all have the same bytes, up to one each.

    One after the other is filled; a part that does not fit is divided, so that there are fewer than
    `switches` more of them (R. McNaughton's rule, Scheduling with Deadlines and Loss Functions,
    Management Science, 1959).
    """
    parts = list(parts)
    whole, rest = divmod(sum(part.amount for part in parts), switches)
    shares: list[list[Part]] = []
    waiting = parts[::-1]
    for number in range(switches):
        room, own = whole + (number < rest), []
        while room:
            part = waiting.pop()
            fits = min(room, part.amount)
            own.append(part._replace(amount=fits))
            if part.amount > fits:
                waiting.append(part._replace(amount=part.amount - fits))
            room -= fits
        shares.append(own)
    return shares
