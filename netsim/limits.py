"""What the engine's arithmetic holds, and what of it an experiment may ask for.

Every number of a run ends in an int64, or in a field of a packet's record
(`netsim.engine.kernels.fields.PacketRecord`), and compiled code does not notice when it no longer
fits. So each bound is checked before a run, where the number comes in: as a value is parsed
(`netsim.units`, `netsim.plugins.params`), or as soon as all that it depends on is known
(`netsim.model.checks`). Each is derived here from what it protects.
"""

from __future__ import annotations

INT64 = 1 << 62
"""Sums of two numbers below it fit an int64. It is the engine's "never" as well."""

# --- time -----------------------------------------------------------------------------------------

HORIZON_PS = 1 << 56
"""The clock of a run ends there, and every time that is written is shorter: 20 hours.

A time that the engine computes is the clock's plus a serialization (below 2**42 ps), a delay, or
what a transport waits: below 2**56 + 2**61.4, so it stays below INT64.
"""

TIMEOUT_PS = 1 << 48
"""Times among a transport's parameters are shorter: 281 s. The longest wait that is made of one
is ten times Swift's least timeout, doubled ten times: 10 * 2**48 * 2**10 < 2**61.4."""

DELAY_PS = 1 << 47
"""The delay of a cable and the latency of a switch are each shorter: 140 s. A hundred of them in
a row stay below the horizon."""

# --- packets and flows ----------------------------------------------------------------------------

PACKET_BYTES = (1 << 16) - 1
"""The largest packet on the wire: `size_bytes` of a packet is a u2, a loss table has 2**16 rows."""

COUNT = (1 << 31) - 1
"""The most of anything that is counted: flows, hosts and the packets of a flow are i4 in a packet.
The product of two counts, or of a count and a packet's bytes, fits an int64."""

SIZE_BYTES = 1 << 50
"""Every size that is written is smaller: 1 PiB. A buffer times ALPHA stays below INT64."""

TRAFFIC_BYTES = 1 << 60
"""All packets of all flows, once each, are smaller: what a run counts in bytes, sent again a few
times or not, fits an int64."""

ALPHA = 1 << 10
"""The most that the share of a shared buffer may be: `alpha * shared_buffer_bytes` is turned into
an int64."""

RATIO = 1 << 20
"""The most that a ratio may be: windows are ratios of a path's bandwidth-delay product."""

PATH_BYTES = 1 << 40
"""The most that a link may hold under way, rate times round trip: 1 TiB, a thousandth of what a
port is in bytes. RATIO of them fit an int64."""

# --- rates ----------------------------------------------------------------------------------------

RATE_SHIFT = 20
"""Serialization times count in units of 2**-20 ps per byte."""

PS_BITS = 8 * 10**12
"""Picoseconds that one byte takes at 1 bit/s."""

RATE_BPS = 1 << 50
"""Every rate that is written is lower, 1125 Tbps: sums and products with small factors fit."""

TRANSPORTS = 4
"""The most transports of a run: the engine has room for the parameters of so many."""

CLASSES = 8
"""The most traffic classes: a PFC frame says of each whether it is paused, in a byte."""

THREADS = 1024
"""The most threads of a run. Each has working memory of its own, half a megabyte or more."""


def slowest_rate_bps(largest_bytes: int) -> int:
    """The lowest rate at which packets of so many bytes can be sent.

    Serialization is `(size * quotient) >> RATE_SHIFT`, and the product stays below INT64.
    """
    return -(-(PS_BITS << RATE_SHIFT) // ((INT64 - 1) // largest_bytes))


def fastest_rate_bps(smallest_bytes: int) -> int:
    """The highest rate at which packets of so many bytes take any time: at least 1 ps.

    What takes no time would end in the instant in which it begins, and the order of events at
    one instant says that ends come first.
    """
    quotient = -(-(1 << RATE_SHIFT) // smallest_bytes)
    return (PS_BITS << RATE_SHIFT) // quotient
