"""The choice among several shortest paths at a switch."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from .model import (
    DATA,
    ECMP,
    PERMUTATION_SPRAY,
    RANDOM_SPRAY,
    SYMMETRIC,
    TRIMMED,
    Packet,
    below,
    mix,
    rand32,
)

if TYPE_CHECKING:
    from .switch import SwitchPort


class Balancer:
    """Load balancing of a switch; called only if there is a choice."""

    def __init__(self, method: str, seed: int, node: int) -> None:
        self.method = method
        self.seed = seed
        self.node = node
        # Earlier choices by (ingress local port) or (ingress local port, data flag).
        self.choices: defaultdict[tuple[int, ...], int] = defaultdict(int)

    def choose(
        self, packet: Packet, ingress: SwitchPort, candidates: list[SwitchPort]
    ) -> SwitchPort:
        """Return the candidate that the packet leaves by."""
        n = len(candidates)
        data = int(packet.kind in (DATA, TRIMMED))
        if self.method == "ecmp":
            return candidates[self._ecmp(packet, n)]
        if self.method == "ecmp_symmetric":
            counter = mix(packet.flow * 2) ^ packet.entropy
            height = ingress.switch.height
            return candidates[below(rand32(self.seed, SYMMETRIC, height, counter), n)]
        if self.method == "spray_random":
            return candidates[self._random(ingress, n)]
        if self.method == "spray_round_robin":
            c = self._count(ingress.local, data)
            key = rand32(self.seed, PERMUTATION_SPRAY, 2 * ingress.index + data, c // n)
            return candidates[(c + below(key, n)) % n]
        if self.method == "spray_permutation":
            c = self._count(ingress.local, data)
            key = rand32(self.seed, PERMUTATION_SPRAY, 2 * ingress.index + data, c // n)
            return candidates[permuted(key, c % n, n)]
        if self.method == "least_loaded":
            first = self._random(ingress, n)
            in_turn = candidates[first:] + candidates[:first]
            return min(in_turn, key=lambda port: sum(port.held))  # the first of equals
        raise ValueError(f"unknown load balancing {self.method}")

    def _ecmp(self, packet: Packet, n: int) -> int:
        to_sender = int(packet.kind >= 8)
        counter = mix(packet.flow * 2 + to_sender) ^ packet.entropy
        return below(rand32(self.seed, ECMP, self.node, counter), n)

    def _random(self, ingress: SwitchPort, n: int) -> int:
        c = self._count(ingress.local)
        return below(rand32(self.seed, RANDOM_SPRAY, ingress.index, c), n)

    def count_choice(self, ingress: SwitchPort) -> int:
        """Count a choice made elsewhere; return the number of earlier ones by that port."""
        return self._count(ingress.local)

    def _count(self, *key: int) -> int:
        """Return the number of earlier choices with this key, and count one."""
        self.choices[key] += 1
        return self.choices[key] - 1


def permuted(key: int, index: int, n: int) -> int:
    """Return the image of ``index`` under the permutation of 0..n-1 with this key."""
    b = max(1, (n - 1).bit_length())
    m = (1 << b) - 1
    h = (b + 1) // 2
    x = index
    while True:
        x = (x * (key | 1) + (key >> 8)) & m
        x ^= x >> h
        x = (x * ((key >> 16) | 1) + (key >> 4)) & m
        x ^= x >> h
        if x < n:
            return x
