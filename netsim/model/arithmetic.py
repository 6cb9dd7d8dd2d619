"""Integer arithmetic: hashes and serialization times.

Products in the hash stay below 2**63, so that int64 never overflows and plain Python agrees with
compiled code.
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np

from netsim.limits import PS_BITS, RATE_SHIFT
from netsim.model.columns import Ints

PURPOSE_ECMP = 1
PURPOSE_SPRAY = 2
PURPOSE_PERMUTATION = 3
PURPOSE_ECN = 4
PURPOSE_TRIM = 5
PURPOSE_ENTROPY = 7
PURPOSE_LOSS = 8
PURPOSE_SYMMETRIC = 9
PURPOSE_PLANE = 10
PURPOSE_PLANE_PERMUTATION = 11
PURPOSE_CLOCK = 12
PURPOSE_THIRD_SWITCH = 13
PURPOSE_ARRIVAL_ORDER = 14
PURPOSE_HOST_JITTER = 15
PURPOSE_READY_ORDER = 16
PURPOSE_START = 17

RATE_MASK = (1 << RATE_SHIFT) - 1


def byte_quotient(rate_bps: Ints) -> Ints:
    """Return the time per byte of a link in units of 2**-20 ps, int64; see `send_time`."""
    return np.rint(float(PS_BITS << RATE_SHIFT) / rate_bps).astype(np.int64)


@overload
def send_time(size_bytes: int, quotient: int) -> int: ...
@overload
def send_time(size_bytes: Ints | int, quotient: Ints) -> Ints: ...
def send_time(size_bytes: Any, quotient: Any) -> Any:
    """Return the time in ps to send `size_bytes` on a link with this `byte_quotient`.
    `netsim.limits` keeps the product of a packet within int64."""
    return (size_bytes * quotient) >> RATE_SHIFT


def serialization_ps(size_bytes: int, q20: int) -> int:
    """Return the time to send ``size_bytes`` if a byte takes ``q20`` units of 2**-20 ps. Like
    `send_time`, but safe up to 8 TB, for windows and queue sizes."""
    whole = size_bytes * (q20 >> RATE_SHIFT)
    return whole + ((size_bytes * (q20 & RATE_MASK)) >> RATE_SHIFT)


def mix(x: Any) -> Any:
    """Scramble 32 bits; also takes int64 arrays."""
    x = x & 0xFFFFFFFF
    x = x ^ (x >> 16)
    x = (x * 0x7FEB352D) & 0xFFFFFFFF
    x = x ^ (x >> 15)
    x = (x * 0x45D9F3B) & 0xFFFFFFFF
    return x ^ (x >> 16)


def salt(seed: int, purpose: int, entity: Any) -> Any:
    """Return the part of `rand32` without the counter; also takes arrays of entities."""
    return mix(mix(mix(seed) ^ (purpose & 0xFFFFFFFF)) ^ (entity & 0xFFFFFFFF))


def rand32(seed: int, purpose: int, entity: int, counter: int) -> int:
    """Return 32 random bits, a pure function of the arguments."""
    draw: int = mix(salt(seed, purpose, entity) ^ (counter & 0xFFFFFFFF))
    return draw


def below(h: Any, n: int) -> Any:
    """Map 32 random bits to 0 .. n-1; also takes arrays."""
    return (h * n) >> 32


def permuted(key: int, x: int, n: int) -> int:
    """Return element ``x`` of the pseudo-random permutation of 0 .. n-1 with this ``key``."""
    b = 1
    while (1 << b) < n:
        b += 1
    m = (1 << b) - 1
    h = (b + 1) >> 1
    while True:
        x = (x * (key | 1) + (key >> 8)) & m
        x = x ^ (x >> h)
        x = (x * ((key >> 16) | 1) + (key >> 4)) & m
        x = x ^ (x >> h)
        if x < n:
            return x
