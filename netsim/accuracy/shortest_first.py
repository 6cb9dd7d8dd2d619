"""Messages of many senders to one host, against one SRPT server."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from netsim.accuracy import formulas
from netsim.accuracy.bed import GBPS, US, Bed, Flow, fct_ps, law_row, star
from netsim.accuracy.cases import Row

PAYLOAD, PACKET, HEADER = 4096, 4160, 64
N_SENDERS, RATE_BPS = 15, 100 * GBPS
PACKETS, SHARES = (1, 3, 10, 100), (0.5, 0.25, 0.15, 0.1)
SMALL = 10
N_FLOWS = 20_000
LOAD = 0.7

WHY = {
    "homa": "unscheduled classes reflect sizes, not remaining bytes; no preemption of packets",
    "pfabric": "transmissions are not preempted, and drops wait for a timeout",
}


def messages(seed: int = 1) -> list[Flow]:
    """Return Poisson arrivals of whole packets at one host, from the senders in turn."""
    rng = np.random.default_rng(seed)
    packets = rng.choice(PACKETS, N_FLOWS, p=SHARES)
    mean_ps = packets.mean() * PACKET * 8e12 / RATE_BPS / LOAD
    starts = np.cumsum(rng.exponential(mean_ps, N_FLOWS)).astype(int)
    return [
        (1 + i % N_SENDERS, 0, int(n) * PAYLOAD, int(at))
        for i, (n, at) in enumerate(zip(packets, starts, strict=True))
    ]


def slowdowns(transport: str) -> Iterator[Row]:
    """Measure the mean slowdown of all messages, and of those of up to 10 packets."""
    flows = messages()
    n = np.array([size // PAYLOAD for _, _, size, _ in flows])
    packet_ps = PACKET * 8 * 10**12 // RATE_BPS
    alone = (n + 1) * packet_ps + 2 * US
    params = {"cutoff_1": "13KB", "cutoff_2": "50KB"} if transport == "homa" else {}
    engine = Bed(transport, star(N_SENDERS + 1, RATE_BPS), params).engine(flows)
    measured = fct_ps(engine) / alone
    starts = [at for _, _, _, at in flows]
    served = formulas.srpt_times(starts, (n * packet_ps).tolist())
    expected = (served + alone - n * packet_ps) / alone
    for name, which in (("all messages", n > 0), (f"up to {SMALL} packets", n <= SMALL)):
        yield law_row(
            transport,
            f"mean slowdown at {LOAD:.0%} load, {name}",
            "SRPT server, same arrivals",
            "Schrage and Miller, Operations Research 14, 1966",
            "",
            float(expected[which].mean()),
            float(measured[which].mean()),
            WHY[transport],
        )


def homa() -> Iterator[Row]:
    yield from slowdowns("homa")


def pfabric() -> Iterator[Row]:
    yield from slowdowns("pfabric")
