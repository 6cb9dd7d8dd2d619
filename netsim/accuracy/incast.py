"""32 flows to one host, with every transport that delivers: against the last link's rate."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from netsim.accuracy import formulas
from netsim.accuracy.bed import GBPS, US, Bed, fct_ps, star
from netsim.accuracy.row import AccuracyRow

FLOWS, PACKETS = 32, 250
PAYLOAD, PACKET = 4096, 4160

WHY = {
    "hpcc": "eta leaves 5 % of the link idle, and windows that the first burst has cut come back "
    "by additive steps",
    "wan_fec": "each sender admits its flows alone, so that 32 of them overflow the queue at line "
    "rate: it is for paths with a capacity set aside",
    "pfabric": "what the short queue drops is sent again after a timeout",
}

TRANSPORTS = (
    *("bbr", "cubic", "dcqcn", "dctcp", "expresspass", "homa", "hpcc", "ndp", "nscc"),
    *("pfabric", "roce", "smartt", "swift", "wan_fec"),
)


def incast(transport: str) -> Iterator[AccuracyRow]:
    """The last of 32 flows of 1 MB, at 100 Gbps."""
    rate = 100 * GBPS
    network = star(FLOWS + 1, rate)
    engine = Bed(transport, network).engine(
        [(1 + i, 0, PACKETS * PAYLOAD, 0) for i in range(FLOWS)]
    )
    links = [(rate, US / 1e12)] * 2
    yield AccuracyRow(
        transport,
        "32:1 incast of 1 MB each, last flow",
        "bytes / rate of the last link, and a packet's way to it",
        "closed form",
        "us",
        formulas.incast_bound(FLOWS, PACKETS, PACKET, links) * 1e6,
        float(fct_ps(engine).max()) / US,
        WHY.get(transport, ""),
    )


PARTS = {f"incast_{name}": partial(incast, name) for name in TRANSPORTS}
