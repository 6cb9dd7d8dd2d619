"""Laws that hold exactly, or bounds that are nearly reached."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from netsim.accuracy import incast
from netsim.accuracy.bed import GBPS, US, Bed, acked_ps, fat_tree
from netsim.accuracy.cases import EXACT, Case, Row

PAYLOAD, PACKET, CONTROL = 4096, 4160, 64
PACKETS = 489


def lone_flow(transport: str, window: int | None, rate_bps: int) -> Iterator[Row]:
    """Compare when a flow of 489 packets is acknowledged, over four links and over two."""
    network = fat_tree(8, 4, rate_bps)
    params = {"initial_window": window} if window else {}
    bed = Bed(transport, network, params)
    size = PACKETS * PAYLOAD
    engine = bed.engine([(0, 31, size, 0), (0, 1, size, 1000 * US)])
    for links, ours_ps in zip((4, 2), acked_ps(engine).tolist(), strict=True):
        data_ps, ack_ps = (n * 8 * 10**12 // rate_bps for n in (PACKET, CONTROL))
        theirs_ps = (PACKETS + links - 1) * data_ps + links * ack_ps + 2 * links * US
        yield Row(
            f"{transport}: 2 MB alone over {links} links at {rate_bps // GBPS} Gbps",
            ours_ps / US,
            theirs_ps / US,
            "us",
            EXACT,
            "(n + L - 1) packets + L acknowledgments at the rate + 2 L delays",
        )


def cases() -> Iterator[Case]:
    for transport, windows in (("roce", (None, None)), ("ndp", (50, 300))):
        for rate, window in zip((100, 800), windows, strict=True):
            measure = partial(lone_flow, transport, window, rate * GBPS)
            yield Case(f"lone_{transport}_{rate}g", measure, 1, quick=True)
    yield from incast.CASES
