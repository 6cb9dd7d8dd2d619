"""Limits of the engine's arithmetic and of experiments.

Every number of a run ends in an int64 or in a packet's field
(`netsim.engine.kernels.fields.PacketRecord`), and compiled code does not detect overflow. So each
bound is checked before a run: when a value is parsed (`netsim.units`, `netsim.params`), or
when all that it depends on is known (`netsim.model.checks`). Each limit is derived here.
"""

from __future__ import annotations

INT64 = 1 << 62  # sums of two smaller numbers fit an int64. Also the engine's "never".

# --- time -----------------------------------------------------------------------------------------

HORIZON_PS = 1 << 56
"""End of a run's clock, 20 hours; every written time is less.

A computed time is the clock plus a serialization (below 2**42 ps), a delay, or a transport's wait:
below 2**56 + 2**61.4, less than INT64.
"""

TIMEOUT_PS = 1 << 48
"""Bound of times in a transport's parameters: 281 s. The longest wait derived from one is ten times
Swift's minimum timeout, doubled ten times: 10 * 2**48 * 2**10 < 2**61.4."""

DELAY_PS = 1 << 47
"""Bound of a cable's delay and a switch's latency: 140 s. A hundred in a row stay below the
horizon."""

# --- packets and flows ----------------------------------------------------------------------------

PACKET_BYTES = (1 << 16) - 1
"""Largest packet on the wire: a packet's `size_bytes` is a u2, a loss table has 2**16 rows."""

COUNT = (1 << 31) - 1
"""Largest count: packets store flow, host and packet numbers as i4. The product of two counts,
or of a count and a packet's bytes, fits an int64."""

SIZE_BYTES = 1 << 50  # bound of every written size: 1 PiB. A buffer times ALPHA stays below INT64.

TRAFFIC_BYTES = 1 << 60
"""Bound of the bytes of all packets of all flows, so byte counts of a run, including some
retransmissions, fit an int64."""

ALPHA = 1 << 10  # largest share of a shared buffer: `alpha * shared_buffer_bytes` becomes an int64
RATIO = 1 << 20  # largest ratio: windows are ratios of a path's bandwidth-delay product

PATH_BYTES = 1 << 40
"""Maximum bytes in flight on a link, rate times round trip: 1 TiB, a thousandth of a port's bytes.
RATIO times as many still fit an int64."""

# --- rates ----------------------------------------------------------------------------------------

RATE_SHIFT = 20  # serialization times count in units of 2**-20 ps per byte
PS_BITS = 8 * 10**12  # picoseconds per byte at 1 bit/s
RATE_BPS = 1 << 50  # bound of all rates: 1125 Tbps. Sums and small multiples of rates fit an int64.
TRANSPORTS = 4  # most transports of a run: the engine has room for this many parameter records
CLASSES = 8  # most traffic classes: a PFC frame has one bit per class, in a byte
THREADS = 1024  # most threads of a run; each has its own working memory of half a megabyte or more


def slowest_rate_bps(largest_bytes: int) -> int:
    """Return the lowest rate for packets of ``largest_bytes``. Serialization is `(size * quotient)
    >> RATE_SHIFT`, and the product stays below INT64."""
    return -(-(PS_BITS << RATE_SHIFT) // ((INT64 - 1) // largest_bytes))


def fastest_rate_bps(smallest_bytes: int) -> int:
    """Return the highest rate at which packets of ``smallest_bytes`` take at least 1 ps.

    A transmission of 0 ps would end when it starts, but at any instant the event order puts ends
    before starts.
    """
    quotient = -(-(1 << RATE_SHIFT) // smallest_bytes)
    return (PS_BITS << RATE_SHIFT) // quotient
