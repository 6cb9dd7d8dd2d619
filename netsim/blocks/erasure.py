"""Blocks of an ideal erasure code: any k of a block's k data and m parity packets restore it.

A systematic code with that property is called maximum distance separable (MDS). Reed-Solomon over
GF(2^8) is one, for blocks of up to 255 packets (RFC 5510).

The transport declares two parameters: ``k``, data packets per block, and ``interleave``, blocks per
group. A group is a run of ``k * interleave`` data packets, dealt round-robin to its blocks. The
last group may be shorter; some of its blocks are then shorter or empty.

    RX_BITMAPS = erasure.RX_BITMAPS
"""

from __future__ import annotations

from netsim.transport import bit_clear, bit_get, bit_set

RX_BITMAPS = 2
GOT = 0  # data packets received
SPARE = 1  # in each block, one bit per parity packet received


def n_groups(env, side):
    """Return the number of groups of a flow."""
    return -(-side.n_packets // (env.par.k * env.par.interleave))


def end_of(env, side, group):
    """Return the first data packet after a group."""
    return min((group + 1) * env.par.k * env.par.interleave, side.n_packets)


def blocks_in(env, side, group):
    """Return the number of non-empty blocks of a group."""
    return min(env.par.interleave, side.n_packets - group * env.par.k * env.par.interleave)


def block_of(env, seq):
    """Return the block of data packet ``seq``."""
    group = seq // (env.par.k * env.par.interleave)
    return group * env.par.interleave + seq % env.par.interleave


def first_of(env, block):
    """Return the first data packet of a block."""
    group = block // env.par.interleave
    return group * env.par.k * env.par.interleave + block % env.par.interleave


def members(env, side, block):
    """Return the data packets of a block."""
    end = end_of(env, side, block // env.par.interleave)
    return range(first_of(env, block), end, env.par.interleave)


def lacking(env, rx, block):
    """Return how many more packets a block needs."""
    n = 0
    for seq in members(env, rx, block):
        n += 1 - bit_get(env, rx, GOT, seq) - bit_get(env, rx, SPARE, seq)
    return n


def has_parity(env, rx, block):
    """Return whether the receiver has parity of this block but not all its data."""
    return bit_get(env, rx, SPARE, first_of(env, block)) == 1


def add_parity(env, rx, block):
    """Count a parity packet of a block that is not restored."""
    for seq in members(env, rx, block):
        if bit_set(env, rx, SPARE, seq):
            return


def clear_parity(env, rx, block):
    """Drop the parity of a restored block."""
    for seq in members(env, rx, block):
        bit_clear(env, rx, SPARE, seq)
