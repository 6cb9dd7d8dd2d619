"""Sets of a switch's ports, so that a window costs what its busy ports do, not what all would.

A set is a bit for each port, in words of its switch's own: two nodes that are stepped at the
same time never write to one word.
"""

from __future__ import annotations

from netsim.engine.kernels.ids import NO_PORT, LocalPort, NodeId, Numbers
from netsim.engine.kernels.instructions import lowest_bit
from netsim.engine.kernels.layout import PORTS_OF_A_WORD, Net

Words = Numbers[int, int]


def include(ports: Words, first_word: int, port: LocalPort) -> None:
    """Add a port to a set of a switch, which begins at ``first_word``."""
    ports[first_word + port // PORTS_OF_A_WORD] |= 1 << (port & (PORTS_OF_A_WORD - 1))


def exclude(ports: Words, first_word: int, port: LocalPort) -> None:
    """Remove it, if it is there."""
    ports[first_word + port // PORTS_OF_A_WORD] &= ~(1 << (port & (PORTS_OF_A_WORD - 1)))


def includes(ports: Words, first_word: int, port: LocalPort) -> bool:
    """Is it there?"""
    word = ports[first_word + port // PORTS_OF_A_WORD]
    return (word >> (port & (PORTS_OF_A_WORD - 1))) & 1 == 1


def next_port(net: Net, ports: Words, node: NodeId, before: LocalPort) -> LocalPort:
    """The first port of a set behind ``before`` (NO_PORT: the first one), or NO_PORT."""
    at = before + 1
    word = net.first_word[node] + at // PORTS_OF_A_WORD
    end = net.first_word[node + 1]
    if word >= end:
        return NO_PORT
    bits = ports[word] >> (at & (PORTS_OF_A_WORD - 1))
    if bits != 0:
        return LocalPort(at + lowest_bit(bits))
    word += 1
    while word < end:
        bits = ports[word]
        if bits != 0:
            first = (word - net.first_word[node]) * PORTS_OF_A_WORD
            return LocalPort(first + lowest_bit(bits))
        word += 1
    return NO_PORT


def empty(net: Net, ports: Words, node: NodeId) -> None:
    """Remove all of a switch's ports from a set."""
    for word in range(net.first_word[node], net.first_word[node + 1]):
        ports[word] = 0
