"""The steps of routing at a switch, and the algorithms."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

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
    scaled_ps_per_byte,
)

if TYPE_CHECKING:
    from .switch import Switch, SwitchPort


Ports = list["SwitchPort"]


class Arrival(NamedTuple):
    """A packet that arrived at a port."""

    ingress: SwitchPort
    packet: Packet


Row = defaultdict[str, int]


def direction_key(packet: Packet) -> int:
    """Return the key shared by packets of a flow with one direction and entropy."""
    return mix(packet.flow * 2 + int(packet.kind >= 8)) ^ packet.entropy


class Routing:
    """A routing algorithm at a switch: the base of all, without any decision."""

    coupled = False
    levels = 1
    rows = 1024  # of flow tables

    def __init__(self, switch: Switch) -> None:
        self.switch = switch
        self.fabric = switch.fabric
        self.seed = switch.sim.case.seed
        self.draws: defaultdict[int, int] = defaultdict(int)  # by ingress
        self._tables: defaultdict[int, defaultdict[int, Row]] = defaultdict(
            lambda: defaultdict(lambda: defaultdict(int))
        )

    def at_source(self, came: Arrival) -> None:
        """Handle a packet from a host."""

    def at_switch(self, came: Arrival) -> None:
        """Handle a packet from a switch."""

    def choose(self, came: Arrival, ports: Ports) -> int:
        """Return the index of one of several ports."""
        raise NotImplementedError

    def on_route(self, ingress: SwitchPort, out: SwitchPort, packet: Packet) -> None:
        """Handle a packet that will leave by a port."""

    def on_depart(self, out: SwitchPort, packet: Packet) -> None:
        """Handle the start of a transmission."""

    def arrive(self, packet: Packet, ingress: SwitchPort) -> None:
        """Take the steps before a port is chosen."""
        from_host = ingress.peer.node.index < self.switch.sim.case.n_hosts
        (self.at_source if from_host else self.at_switch)(Arrival(ingress, packet))

    def port_for(self, packet: Packet, ingress: SwitchPort) -> SwitchPort:
        """Return a packet's output port, from its target's lists."""
        if packet.via is not None and (
            packet.via == self.switch.index or not self.switch.ports_to(packet.via)
        ):
            packet.via = None
        ports = self.switch.candidates(packet)
        if packet.via is not None:
            ports = self.switch.ports_to(packet.via)
        return ports[self.choose(Arrival(ingress, packet), ports) if len(ports) > 1 else 0]

    def rise(self, ingress: SwitchPort, packet: Packet) -> None:
        """Raise the level of a packet from a switch by one, up to the highest."""
        if ingress.peer.node.index >= self.switch.sim.case.n_hosts:
            self.set_level(packet, min(self.level_of(packet) + 1, self.levels - 1))

    def level_of(self, packet: Packet) -> int:
        """Return a packet's level; 0 without PFC."""
        n = self.switch.sim.n_levels
        return n - 1 - packet.prio % n

    def set_level(self, packet: Packet, level: int) -> None:
        """Change a packet's level; nothing without PFC."""
        n = self.switch.sim.n_levels
        if n > 1:
            packet.prio = packet.prio // n * n + n - 1 - level

    def count(self, ingress: SwitchPort) -> int:
        """Count a draw of a port; return the number of earlier ones."""
        self.draws[ingress.local] += 1
        return self.draws[ingress.local] - 1

    def bits(self, ingress: SwitchPort) -> int:
        """Return 32 random bits, a draw of a port."""
        return rand32(self.seed, RANDOM_SPRAY, ingress.index, self.count(ingress))

    def draw(self, ingress: SwitchPort, n: int) -> int:
        return below(self.bits(ingress), n)

    def hashed(self, packet: Packet, n: int) -> int:
        """Return a flow's index."""
        return below(rand32(self.seed, ECMP, self.switch.index, direction_key(packet)), n)

    def least(self, ingress: SwitchPort, ports: Ports) -> int:
        """Return the index of the port with the fewest bytes held."""
        if len(ports) == 1:
            return 0
        first = self.draw(ingress, len(ports))
        in_turn = [(first + k) % len(ports) for k in range(len(ports))]
        return min(in_turn, key=lambda k: sum(ports[k].held))  # the first of equals

    def row(self, ingress: SwitchPort, packet: Packet) -> Row:
        """Return the row of a packet's flow and direction."""
        table = self._tables[-1 if self.coupled else ingress.local]
        return table[below(mix(direction_key(packet)), self.rows)]

    @property
    def full_packet(self) -> int:
        packets = self.switch.sim.case.packets
        return packets["payload_bytes"] + packets["header_bytes"]

    def groups(self) -> list[int]:
        """Return the edge switches of this switch's network, in the order of their groups."""
        return self.switch.sim.edges_of[self.switch.network]

    def edge_of(self, packet: Packet) -> int:
        """Return the edge switch of a packet's destination."""
        return self.switch.sim.ports[packet.dst].peer.node.index


class Ecmp(Routing):
    """A hash of the flow."""

    def choose(self, came: Arrival, ports: Ports) -> int:
        """Return the same port for the same flow, direction and entropy."""
        return self.hashed(came.packet, len(ports))


class EcmpSymmetric(Routing):
    """The same hash both ways."""

    def choose(self, came: Arrival, ports: Ports) -> int:
        """Return the same port for the same flow, entropy and height."""
        counter = mix(came.packet.flow * 2) ^ came.packet.entropy
        return below(rand32(self.seed, SYMMETRIC, self.switch.height, counter), len(ports))


class SprayRandom(Routing):
    """A random port for each packet."""

    def choose(self, came: Arrival, ports: Ports) -> int:
        return self.draw(came.ingress, len(ports))


class SprayRoundRobin(Routing):
    """Round robin over ports; each round starts at a random port."""

    def __init__(self, switch: Switch) -> None:
        super().__init__(switch)
        self._choices: defaultdict[tuple[int, int], int] = defaultdict(int)

    def choose(self, came: Arrival, ports: Ports) -> int:
        """Count a choice; data packets and others are counted separately."""
        n, data = len(ports), int(came.packet.kind in (DATA, TRIMMED))
        c = self._choices[came.ingress.local, data]
        self._choices[came.ingress.local, data] += 1
        key = rand32(self.seed, PERMUTATION_SPRAY, 2 * came.ingress.index + data, c // n)
        return self.in_round(key, c, n)

    def in_round(self, key: int, c: int, n: int) -> int:
        """Return the index of choice `c`, given the key of its round."""
        return (c + below(key, n)) % n


class SprayPermutation(SprayRoundRobin):
    """Round robin over ports; each round has a random order."""

    def in_round(self, key: int, c: int, n: int) -> int:
        """Return the index of choice `c`, given the key of its round."""
        return permuted(key, c % n, n)


class LeastLoaded(Routing):
    """The port with the fewest bytes held."""

    coupled = True

    def choose(self, came: Arrival, ports: Ports) -> int:
        return self.least(came.ingress, ports)


class MinimalAdaptive(LeastLoaded):
    """As least_loaded, one level higher with each link."""

    levels = 8

    def on_route(self, ingress: SwitchPort, out: SwitchPort, packet: Packet) -> None:  # noqa: ARG002
        self.rise(ingress, packet)


class Wcmp(Routing):
    """Rendezvous hashing of entries."""

    def choose(self, came: Arrival, ports: Ports) -> int:
        e = rand32(self.seed, ECMP, self.switch.index, direction_key(came.packet))
        hashes = [
            mix(e ^ port.local ^ (ports[:k].count(port) << 16)) for k, port in enumerate(ports)
        ]
        return hashes.index(max(hashes))


class EntropyDigits(Routing):
    """A digit of the entropy for each link crossed."""

    def choose(self, came: Arrival, ports: Ports) -> int:
        planes: int = self.fabric["digit_planes"]
        weight: int = planes * self.fabric["digit_base"] ** (came.packet.hops - 1)
        return came.packet.entropy // weight % len(ports)


class LetFlow(Routing):
    """A random port for each flowlet."""

    def choose(self, came: Arrival, ports: Ports) -> int:
        row, now = self.row(came.ingress, came.packet), self.switch.sim.now
        k = row["index"]
        fits = row["made"] and k < len(ports) and ports[k].local == row["local"]
        if not fits or now - row["at_ps"] > self.fabric["flowlet_gap_ps"]:
            k = self.draw(came.ingress, len(ports))
        row.update(made=1, index=k, local=ports[k].local, at_ps=now)
        return k


class EcmpLevels(Ecmp):
    """As ecmp, one level higher with each link."""

    levels = 4

    def on_route(self, ingress: SwitchPort, out: SwitchPort, packet: Packet) -> None:  # noqa: ARG002
        self.rise(ingress, packet)


class Dateline(Ecmp):
    """As ecmp, at level 1 from the link that closes a ring."""

    levels = 2

    def on_route(self, ingress: SwitchPort, out: SwitchPort, packet: Packet) -> None:
        """Set the level on a link to a switch."""
        if out.peer.node.index < self.switch.sim.case.n_hosts:
            return
        groups = self.groups()
        here = groups.index(self.switch.index) if self.switch.index in groups else -1
        others = [port.peer.node.index for port in self.switch.ports]
        nearer = [abs(groups.index(one) - here) for one in others if one in groups]
        out_of = out.peer.node.index
        far = abs((groups.index(out_of) if out_of in groups else -1) - here)
        if min(nearer, default=far) < far:
            self.set_level(packet, 1)
        elif ingress.peer.node.index < self.switch.sim.case.n_hosts:
            self.set_level(packet, 0)


class Valiant(Routing):
    """Over an intermediate group."""

    levels = 6

    def on_route(self, ingress: SwitchPort, out: SwitchPort, packet: Packet) -> None:  # noqa: ARG002
        self.rise(ingress, packet)

    def at_source(self, came: Arrival) -> None:
        groups, away = self.groups(), self.edge_of(came.packet)
        if away == self.switch.index:
            return
        if self.fabric["intermediate"] == "other":
            groups = [one for one in groups if one not in (away, self.switch.index)]
        if groups:
            came.packet.via = groups[self._draw(came.ingress, came.packet, len(groups))]

    def _draw(self, ingress: SwitchPort, packet: Packet, n: int) -> int:
        if self.fabric["valiant_unit"] == "packet":
            return self.draw(ingress, n)
        return below(rand32(self.seed, 128, direction_key(packet), 0), n)

    def choose(self, came: Arrival, ports: Ports) -> int:
        if self.fabric["valiant_unit"] == "packet":
            return self.draw(came.ingress, len(ports))
        return self.hashed(came.packet, len(ports))


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


class Measured(Routing):
    """A discounting rate estimator of each port."""

    coupled = True

    def __init__(self, switch: Switch) -> None:
        super().__init__(switch)
        self._bytes: defaultdict[int, int] = defaultdict(int)
        self._period: defaultdict[int, int] = defaultdict(int)

    def _discount(self, port: SwitchPort) -> None:
        """Apply all multiples of the period up to now."""
        a = self.share
        m = self.switch.sim.now // self.fabric["dre_period_ps"]
        for _ in range(self._period[port.local], m):
            before = self._bytes[port.local]
            self._bytes[port.local] -= (before * a) >> 16
            if self._bytes[port.local] == before:
                break
        self._period[port.local] = m

    @property
    def share(self) -> int:
        """The discount, in units of 2**-16."""
        alpha: float = self.fabric["dre_alpha"]
        return math.floor(alpha * 65536 + 0.5)

    def on_depart(self, out: SwitchPort, packet: Packet) -> None:
        self._discount(out)
        self._bytes[out.local] += packet.size

    def level(self, port: SwitchPort, n: int) -> int:
        """Return the utilization, one of n levels."""
        self._discount(port)
        q = scaled_ps_per_byte(port.rate_bps)
        period_ps: int = self.fabric["dre_period_ps"]
        w = max(1, (period_ps << 20) // q)
        return min(n - 1, n * self._bytes[port.local] * self.share // (65536 * w))


class Conga(Measured):
    """Flowlets on the least congested path, according to reports of other leaves."""

    def __init__(self, switch: Switch) -> None:
        super().__init__(switch)
        self._from: defaultdict[tuple[int, int], int] = defaultdict(int)
        self._to: dict[tuple[int, int], tuple[int, int]] = {}  # level + 1, time
        self._next: defaultdict[int, int] = defaultdict(int)
        self._n: defaultdict[int, int] = defaultdict(int)

    def at_source(self, came: Arrival) -> None:
        """Record the packet's source leaf in it, and report a path."""
        away = self.edge_of(came.packet)
        if away == self.switch.index:
            return
        groups = self.groups()
        came.packet.carried["origin"] = groups.index(self.switch.index) + 1
        leaf = groups.index(away) % 64
        if self._n[leaf] > 0:
            k = self._next[leaf]
            self._next[leaf] = (k + 1) % self._n[leaf]
            if self._from[leaf, k] > 0:
                came.packet.carried["feedback"] = 8 * k + self._from[leaf, k]

    def at_switch(self, came: Arrival) -> None:
        """Store a packet's path congestion and feedback at its last leaf."""
        if self.edge_of(came.packet) != self.switch.index or came.packet.carried["origin"] == 0:
            return
        leaf = (came.packet.carried["origin"] - 1) % 64
        if came.packet.carried["path"] > 0:
            k = (came.packet.carried["path"] - 1) % 16
            self._from[leaf, k] = came.packet.carried["congestion"] + 1
            self._n[leaf] = max(self._n[leaf], k + 1)
        if came.packet.carried["feedback"] > 0:
            k, found = divmod(came.packet.carried["feedback"] - 1, 8)
            self._to[leaf, k] = found + 1, self.switch.sim.now

    def choose(self, came: Arrival, ports: Ports) -> int:
        if came.ingress.peer.node.index >= self.switch.sim.case.n_hosts:
            return self.hashed(came.packet, len(ports))
        row, now = self.row(came.ingress, came.packet), self.switch.sim.now
        kept = row["index"] if row["made"] and row["index"] < len(ports) else None
        if kept is None or now - row["at_ps"] > self.fabric["flowlet_gap_ps"]:
            leaf = self.groups().index(self.edge_of(came.packet)) % 64
            costs = [max(self.level(p, 8), self._reported(leaf, k)) for k, p in enumerate(ports)]
            if kept is None or costs[kept] > min(costs):
                first = self.draw(came.ingress, len(ports))
                in_turn = [(first + k) % len(ports) for k in range(len(ports))]
                kept = min(in_turn, key=costs.__getitem__)
        row.update(made=1, index=kept, at_ps=now)
        came.packet.carried["path"] = kept + 1
        return kept

    def _reported(self, leaf: int, path: int) -> int:
        found, at_ps = self._to.get((leaf, path % 16), (0, 0))
        late = self.switch.sim.now - at_ps > self.fabric["feedback_age_ps"]
        return 0 if found == 0 or late else found - 1

    def on_depart(self, out: SwitchPort, packet: Packet) -> None:
        """Note the utilization in the packet, after it grew."""
        super().on_depart(out, packet)
        if out.peer.node.index >= self.switch.sim.case.n_hosts:
            carried = packet.carried
            carried["congestion"] = max(carried["congestion"], self.level(out, 8))


class Drill(Routing):
    """The port with the fewest bytes of some random ports and the last choice."""

    coupled = True

    def __init__(self, switch: Switch) -> None:
        super().__init__(switch)
        self._last: dict[int, tuple[int, int]] = {}  # index and local port, by ingress

    def choose(self, came: Arrival, ports: Ports) -> int:
        n, d = len(ports), self.fabric["samples"]
        if d >= n:
            first = self.draw(came.ingress, n)
            seen = [(first + k) % n for k in range(n)]
        else:
            seen = [self.draw(came.ingress, n) for _ in range(d)]
        if self.fabric["remember"] and came.ingress.local in self._last:
            index, local = self._last[came.ingress.local]
            if index < n and ports[index].local == local:
                seen.append(index)
        best = min(seen, key=lambda k: sum(ports[k].held))  # the first of equals
        self._last[came.ingress.local] = best, ports[best].local
        return best


class Adaptive(Measured):
    """Any port of the best quality."""

    def choose(self, came: Arrival, ports: Ports) -> int:
        gap, now = self.fabric["flowlet_gap_ps"], self.switch.sim.now
        if gap == 0:
            return self._best(came.ingress, ports)
        row = self.row(came.ingress, came.packet)
        k = row["index"]
        fits = row["made"] and k < len(ports) and ports[k].local == row["local"]
        if not fits or now - row["at_ps"] > gap:
            k = self._best(came.ingress, ports)
        row.update(made=1, index=k, local=ports[k].local, at_ps=now)
        return k

    def _best(self, ingress: SwitchPort, ports: Ports) -> int:
        u = self.bits(ingress)
        costs = [self._cost(port) for port in ports]
        taken, equal = 0, 1
        for k in range(1, len(ports)):
            if costs[k] < costs[taken]:
                taken, equal = k, 1
            elif costs[k] == costs[taken]:
                equal += 1
                if below(mix(u ^ k), equal) == 0:
                    taken = k
        return taken

    def _cost(self, port: SwitchPort) -> int:
        once: int = self.fabric["queue_level"] * self.full_packet
        reached = sum(sum(port.held) >= times * once for times in (1, 2, 4))
        return 4 * reached + self.level(port, 4)


class Dlb(Routing):
    """Flowlets to a port in the best band of sampled load."""

    coupled = True
    rows = 512

    def __init__(self, switch: Switch) -> None:
        super().__init__(switch)
        self._load: defaultdict[int, int] = defaultdict(int)
        self._ticks = 0

    def _sample(self) -> None:
        """Apply all periods up to now."""
        m = self.switch.sim.now // self.fabric["tick_ps"]
        for port in self.switch.ports:
            for _ in range(self._ticks, m):
                load = self._load[port.local]
                self._load[port.local] = load - load // self.fabric["load_weight"] + sum(port.held)
                if self._load[port.local] == load:
                    break
        self._ticks = max(self._ticks, m)

    def arrive(self, packet: Packet, ingress: SwitchPort) -> None:
        self._sample()
        super().arrive(packet, ingress)

    def on_depart(self, out: SwitchPort, packet: Packet) -> None:
        self._sample()
        self._load[out.local] += packet.size

    def _band(self, port: SwitchPort) -> int:
        tick_ps: int = self.fabric["tick_ps"]
        weight: int = self.fabric["load_weight"]
        w = max(1, (tick_ps << 20) // scaled_ps_per_byte(port.rate_bps))
        return min(7, 4 * self._load[port.local] // (weight * w))

    def choose(self, came: Arrival, ports: Ports) -> int:
        gap, now, n = self.fabric["flowlet_gap_ps"], self.switch.sim.now, len(ports)
        row = self.row(came.ingress, came.packet)
        k = row["index"]
        fits = row["made"] and k < n and ports[k].local == row["local"]
        if not fits or gap == 0 or now - row["at_ps"] > gap:
            first = self.draw(came.ingress, n)
            in_turn = [(first + j) % n for j in range(n)]
            k = min(in_turn, key=lambda j: self._band(ports[j]))
        row.update(made=1, index=k, local=ports[k].local, at_ps=now)
        return k


class UgalL(LeastLoaded):
    """Minimal, or over another group if its own queue is shorter."""

    levels = 6

    def at_source(self, came: Arrival) -> None:
        away, here = self.edge_of(came.packet), self.switch.index
        others = [one for one in self.groups() if one not in (away, here)]
        if away == here or not others:
            return
        via = others[self.draw(came.ingress, len(others))]
        if not self.switch.ports_to(via):
            return
        minimal = min(sum(port.held) for port in self.switch.candidates(came.packet))
        other = min(sum(port.held) for port in self.switch.ports_to(via))
        threshold = self.fabric["ugal_threshold"] * self.full_packet
        if minimal > self.fabric["ugal_weight"] * other + threshold:
            came.packet.via = via

    def on_route(self, ingress: SwitchPort, out: SwitchPort, packet: Packet) -> None:  # noqa: ARG002
        self.rise(ingress, packet)


class UgalG(UgalL):
    """Minimal, or over another group if that path holds fewer bytes, as switches publish."""

    def __init__(self, switch: Switch) -> None:
        super().__init__(switch)
        # By local port: times and values.
        self._published: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)

    def at_source(self, came: Arrival) -> None:
        away, here = self.edge_of(came.packet), self.switch.index
        others = [one for one in self.groups() if one not in (away, here)]
        if away == here or not others:
            return
        via = others[self.draw(came.ingress, len(others))]
        threshold = self.fabric["ugal_threshold"] * self.full_packet
        detour = self._way(here, via) + self._way(via, away)
        if self._way(here, away) > detour + threshold:
            came.packet.via = via

    def _way(self, at: int, to: int) -> int:
        """Return the bytes on the path between two edge switches."""
        sim, total = self.switch.sim, 0
        for _ in range(8):
            if at == to or at not in self.groups():
                break
            switch = sim.switches[at - sim.case.n_hosts]
            ports = switch.ports_to(to)
            if not ports:
                break
            loads = [self._load(port) for port in ports]
            total += min(loads)
            at = ports[loads.index(min(loads))].peer.node.index
        return total

    def _load(self, port: SwitchPort) -> int:
        """Return the bytes at a port of any switch, as known to this switch."""
        if port.switch is self.switch:
            return sum(port.held)
        delay_ps = self.fabric["publish_delay_ps"]
        before_ps = (self.switch.sim.now // delay_ps - 1) * delay_ps
        algorithm = port.switch.routing
        assert isinstance(algorithm, UgalG)
        seen = [value for at, value in algorithm._published[port.local] if at < before_ps]
        return seen[-1] if seen else 0

    def on_depart(self, out: SwitchPort, packet: Packet) -> None:  # noqa: ARG002
        self._published[out.local].append((self.switch.sim.now, sum(out.held)))


class Par(UgalL):
    """The second switch compares again."""

    levels = 1

    def at_switch(self, came: Arrival) -> None:
        if came.packet.hops == 2 and came.packet.via is None:
            self.at_source(came)

    def on_route(self, ingress: SwitchPort, out: SwitchPort, packet: Packet) -> None:
        """Nothing."""


ALGORITHMS: dict[str, type[Routing]] = {
    "ecmp": Ecmp,
    "ecmp_symmetric": EcmpSymmetric,
    "ecmp_levels": EcmpLevels,
    "dateline": Dateline,
    "minimal_adaptive": MinimalAdaptive,
    "spray_random": SprayRandom,
    "spray_round_robin": SprayRoundRobin,
    "spray_permutation": SprayPermutation,
    "least_loaded": LeastLoaded,
    "wcmp": Wcmp,
    "entropy_digits": EntropyDigits,
    "letflow": LetFlow,
    "conga": Conga,
    "drill": Drill,
    "adaptive": Adaptive,
    "dlb": Dlb,
    "valiant": Valiant,
    "ugal_l": UgalL,
    "ugal_g": UgalG,
    "par": Par,
}
