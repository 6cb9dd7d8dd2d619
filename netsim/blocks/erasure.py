"""Blocks of an ideal erasure code: any k packets of a block's k data and m parity restore it.

A systematic code with that property is called maximum distance separable (MDS);
Reed-Solomon over GF(2^8) is one, for up to 255 packets in a block (RFC 5510).

The transport declares the parameters ``k``, data packets in a block, and ``interleave``:
that many blocks form a group, a run of ``k * interleave`` data packets which they take in
turn. The last group may be shorter, and then some of its blocks are shorter or empty.

    RX_BITMAPS = erasure.RX_BITMAPS
"""

from __future__ import annotations

from netsim.transport import bit_clear, bit_get, bit_set

RX_BITMAPS = 2
GOT = 0  # data packets that are here
SPARE = 1  # of each block as many bits as parity packets are here


def n_groups(env, side):
    """Groups of a flow."""
    return -(-side.n_packets // (env.par.k * env.par.interleave))


def end_of(env, side, group):
    """The data packet after the last one of a group."""
    return min((group + 1) * env.par.k * env.par.interleave, side.n_packets)


def blocks_in(env, side, group):
    """Blocks of a group that are not empty."""
    return min(env.par.interleave, side.n_packets - group * env.par.k * env.par.interleave)


def block_of(env, seq):
    """The block of data packet ``seq``."""
    group = seq // (env.par.k * env.par.interleave)
    return group * env.par.interleave + seq % env.par.interleave


def first_of(env, block):
    """The first data packet of a block."""
    group = block // env.par.interleave
    return group * env.par.k * env.par.interleave + block % env.par.interleave


def members(env, side, block):
    """The data packets of a block."""
    end = end_of(env, side, block // env.par.interleave)
    return range(first_of(env, block), end, env.par.interleave)


def lacking(env, rx, block):
    """How many more packets of a block restore it."""
    n = 0
    for seq in members(env, rx, block):
        n += 1 - bit_get(env, rx, GOT, seq) - bit_get(env, rx, SPARE, seq)
    return n


def has_parity(env, rx, block):
    """Is parity of this block here, and not all of its data?"""
    return bit_get(env, rx, SPARE, first_of(env, block)) == 1


def add_parity(env, rx, block):
    """A parity packet of a block that is not restored has arrived."""
    for seq in members(env, rx, block):
        if bit_set(env, rx, SPARE, seq):
            return


def clear_parity(env, rx, block):
    """The block is restored."""
    for seq in members(env, rx, block):
        bit_clear(env, rx, SPARE, seq)
