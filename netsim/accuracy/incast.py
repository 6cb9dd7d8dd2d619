"""32 flows to one host, for every reliable transport, against the last link's rate."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from netsim.accuracy import formulas
from netsim.accuracy.bed import GBPS, US, Bed, fct_ps, law_row, star
from netsim.accuracy.cases import Case, Row

FLOWS, PACKETS = 32, 250
PAYLOAD, PACKET = 4096, 4160

WHY = {
    "hpcc": "eta leaves 5 % of the link idle, and windows cut by the burst recover additively",
    "wan_fec": "senders admit flows alone: 32 overflow the queue (it needs reserved capacity)",
    "pfabric": "drops of the short queue wait for a timeout",
}

TRANSPORTS = (
    *("bbr", "cubic", "dcqcn", "dctcp", "expresspass", "homa", "hpcc", "ndp", "nscc"),
    *("pfabric", "roce", "smartt", "swift", "wan_fec"),
)


def incast(transport: str) -> Iterator[Row]:
    """Measure when the last of 32 flows of 1 MB at 100 Gbps is complete."""
    rate = 100 * GBPS
    network = star(FLOWS + 1, rate)
    engine = Bed(transport, network).engine(
        [(1 + i, 0, PACKETS * PAYLOAD, 0) for i in range(FLOWS)]
    )
    links = [(rate, US / 1e12)] * 2
    yield law_row(
        transport,
        "32:1 incast of 1 MB each, last flow",
        "bytes / last link's rate + first packet's path",
        "closed form",
        "us",
        formulas.incast_bound(FLOWS, PACKETS, PACKET, links) * 1e6,
        float(fct_ps(engine).max()) / US,
        WHY.get(transport, ""),
    )


QUICK = ("roce", "ndp")
"""Each other transport has to be compiled first, for about 15 s."""

CASES = tuple(
    Case(f"incast_{name}", partial(incast, name), 3, quick=name in QUICK) for name in TRANSPORTS
)
