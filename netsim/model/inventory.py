"""Inventory of a network: switches, NICs, cables by endpoints, rate and length; cost and power.

A length is the cable's delay at 5 ns per meter. A file can replace the price table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from netsim.common.inputs import read_toml
from netsim.errors import errors_at, raise_all
from netsim.frozen import frozen
from netsim.model.columns import Ints
from netsim.model.deadlock import ANY_CANDIDATE, Choices, pfc_text, waiting_cycle
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.model.paths import (
    MAX_FLOW,
    TIERS,
    Bisection,
    CircuitRow,
    Distance,
    Legs,
    PathCounts,
    SlotPaths,
    bisection,
    circuit_switches,
    halves,
    kinds_of_networks,
    middle_of,
    path_counts,
    path_diversity,
    pattern_saturation,
    slot_paths,
    uniform_saturation,
)
from netsim.model.patterns import Destinations
from netsim.model.port_pairs import PortPairs
from netsim.params import NONBLANK, NUMBER, REQUIRED, key, read_tables, require_table, unknown_keys

PS_PER_METER = 5_000

RACK, ROW, HALL, WAN = LENGTHS = ("rack", "row", "hall", "wan")
SCALE_UP = "scale-up"  # instead of a scale-up cable's length: its delay comes from its protocol
LONGEST_M = (3, 100, 2_000)
"""Longest cable of each class except the last: passive copper, multimode and single-mode fiber."""

HOST, SWITCH, FIBER = "host to switch", "switch to switch", "switch to circuit switch"


@frozen
class CableRow:
    """Cables of one kind; `length` is one of LENGTHS or SCALE_UP, `joins` the kind of ends."""

    joins: str
    rate_bps: int
    length: str
    count: int


def latencies_ps(network: Network) -> Ints:
    """Return the latency of each switch and 0 for each host, int64[n_nodes].

    The delay of a link into a switch includes the switch's latency. So once the latency of one end
    of a cable is known, the delays of the cable's two directions give that of the other end.
    """
    latency = np.full(network.n_nodes, -1, np.int64)
    latency[: network.n_hosts] = 0
    node, far = network.port_node, network.port_node[network.port_peer]
    back_ps = network.port_delay_ps[network.port_peer]
    while (latency < 0).any():
        new = (latency[node] >= 0) & (latency[far] < 0)
        own = latency[node[new]]
        latency[far[new]] = network.port_delay_ps[new] - (back_ps[new] - own)
    return latency


def propagation_ps(network: Network) -> Ints:
    """Return int64[n_ports], the delay of each port's cable without the latency at its far end."""
    far = network.port_node[network.port_peer]
    delay_ps: Ints = network.port_delay_ps - latencies_ps(network)[far]
    return delay_ps


def length_class(delay_ps: Ints) -> Ints:
    """Return the index into LENGTHS of cables with these delays."""
    limits_ps = np.array(LONGEST_M) * PS_PER_METER
    return np.searchsorted(limits_ps, delay_ps, side="left")


def physical_ports(network: Network) -> NDArray[np.bool_]:
    """Return bool[n_ports], all ports except duplicates on a fiber to a circuit switch."""
    real = np.ones(network.n_ports, bool)
    if network.circuits is not None:
        fiber = network.circuits.fiber
        circuit_ports = np.flatnonzero(fiber >= 0)
        real[circuit_ports] = False
        real[circuit_ports[np.unique(fiber[circuit_ports], return_index=True)[1]]] = True
    return real


def network_of_ports(network: Network) -> Ints:
    """Return int64[n_ports], the network of each port."""
    of_switches = network.switch_network[
        network.port_node[network.n_host_ports :] - network.n_hosts
    ]
    return np.concatenate([network.port_network, of_switches]).astype(np.int64)


def cables(network: Network) -> tuple[CableRow, ...]:
    """Return all cables of a network, with the fibers of circuit switches."""
    ports = np.arange(network.n_ports)
    plain = ports < network.port_peer
    joins = np.where(network.port_node < network.n_hosts, 0, 1)
    delay_ps = propagation_ps(network)
    circuits = network.circuits
    if circuits is not None:
        plain &= circuits.of_port < 0
        circuit_ports = np.flatnonzero(circuits.fiber >= 0)
        plain[circuit_ports] = physical_ports(network)[circuit_ports]
        joins[circuit_ports] = 2
        delay_ps[circuit_ports] = circuits.near_ps[circuit_ports]
    chosen = np.flatnonzero(plain)
    length = length_class(delay_ps)
    length[network.is_scale_up[network_of_ports(network)]] = len(LENGTHS)
    rates, rate = np.unique(network.port_rate_bps[chosen], return_inverse=True)
    shape = (3, rates.size, len(LENGTHS) + 1)
    counts = np.bincount(np.ravel_multi_index((joins[chosen], rate, length[chosen]), shape))
    rows = np.flatnonzero(counts)
    kinds = np.stack([*np.unravel_index(rows, shape), counts[rows]], axis=1).tolist()
    return tuple(
        CableRow((HOST, SWITCH, FIBER)[kind], int(rates[rate]), (*LENGTHS, SCALE_UP)[length], n)
        for kind, rate, length, n in kinds
    )


@frozen
class NicRow:
    """Equal NICs, each with `ports` of one rate, on `hosts` hosts."""

    nic: int
    ports: int
    port_rate_bps: int
    hosts: int
    is_scale_up: bool


@frozen
class SwitchRow:
    """Switches of one name (without its number), tier, latency and number of ports."""

    name: str
    tier: int
    ports: int
    rate_bps: int  # total of all ports
    latency_ps: int
    is_scale_up: bool
    count: int


@frozen
class NetworkRow:
    """Equal networks; everything except `count` applies to one of them."""

    count: int  # number of networks, such as planes, rails, or racks' own networks
    name: str  # common start of its switches' names, such as "plane0", or the first name
    hosts: int  # hosts with a port in it; `host_rate_bps` is the total of these ports
    host_rate_bps: int
    # switches, tiers: numbers of each
    switches: int
    tiers: int
    # from the first half of its hosts, by number, to the second; None for one host
    bisection: Bisection | None
    oversubscription: float | None  # rate that the first half can send, divided by the bisection
    # rate that all `count` networks carry from the first half of all hosts to the second
    across: Bisection
    across_sent_bps: int  # rate that the first half can send into them
    # pairs of hosts by distance, for each routing table; destinations are `to_edges` of `edges`
    # switches with hosts
    path_diversity: tuple[Distance, ...]
    edges: int
    to_edges: int
    is_scale_up: bool  # whether hosts reach it by their fastest NIC alone (`Network.is_scale_up`)
    # of a time-slotted routing table; `path_diversity` is then slot 0's
    slot_paths: SlotPaths | None = None
    # share of their rate at which all hosts can send evenly to each other, None if not computed
    # (`uniform_saturation`)
    uniform: float | None = None
    # the same for other traffic, by its name; only if all hosts have one port in it
    patterns: Mapping[str, float] = field(default_factory=dict)

    @property
    def diameter(self) -> int:
        """Links on the longest of the shortest paths between two hosts."""
        return max((one.links for one in self.path_diversity), default=0)


@frozen
class Inventory:
    """All counts of a network."""

    name: str
    hosts: int
    nics: tuple[NicRow, ...]
    networks: tuple[NetworkRow, ...]
    switches: tuple[SwitchRow, ...]
    cables: tuple[CableRow, ...]
    circuit_switches: tuple[CircuitRow, ...]
    pfc: str | None  # whether PFC can deadlock the network; None with circuits, which exclude PFC

    @property
    def bisection(self) -> Bisection:
        """Rate from the first half of the hosts to the second, through all networks together."""
        parts = [row.across for row in self.networks]
        hows = {part.how for part in parts if part.rate_bps}
        return Bisection(
            sum(part.rate_bps for part in parts), TIERS if TIERS in hows else parts[0].how
        )

    @property
    def oversubscription(self) -> float | None:
        """Rate that the first half can send into networks that reach the second, divided by the
        bisection."""
        sent_bps = sum(row.across_sent_bps for row in self.networks)
        rate_bps = self.bisection.rate_bps
        return sent_bps / rate_bps if rate_bps else None

    @property
    def tiers(self) -> int:
        """Largest number of tiers of a network."""
        return max(row.tiers for row in self.networks)

    @property
    def diameter(self) -> int:
        """Links on the longest of the shortest paths between two hosts of one network."""
        return max(row.diameter for row in self.networks)

    @property
    def switch_count(self) -> int:
        return sum(row.count for row in self.switches)

    @property
    def cable_count(self) -> int:
        return sum(row.count for row in self.cables)


Patterns = Mapping[str, tuple[Destinations, Legs | None]]
"""Name -> where hosts send, and the legs of their packets' paths (`pattern_saturation`)."""


def inventory(
    network: Network, patterns: Patterns | None = None, choices: Choices = ANY_CANDIDATE
) -> Inventory:
    """Return the inventory of a network; kinds of networks with the most hosts come first.
    `patterns` are traffic patterns whose saturation is computed in addition to uniform traffic's;
    `choices` are the routing algorithm's choices."""
    rows = [_network(network, these, patterns or {}) for these in kinds_of_networks(network)]
    return Inventory(
        name=network.name,
        hosts=network.n_hosts,
        nics=_nics(network),
        networks=tuple(sorted(rows, key=lambda row: -row.hosts)),
        switches=_switches(network),
        cables=cables(network),
        circuit_switches=circuit_switches(network),
        pfc=None if network.circuits else pfc_text(network, waiting_cycle(network, None, choices)),
    )


def stem(name: str) -> str:
    """Return a switch's name without its number and network: "leaf"."""
    parts = [re.sub(r"[^a-zA-Z]+", "", part) for part in name.split(".")]
    return next((part for part in reversed(parts) if part), name)


def common_name(names: Sequence[str]) -> str:
    """Return the common dotted prefix of switches' names, or the first name if there is none."""
    parts = [name.split(".")[:-1] for name in names]
    common = [part[0] for part in zip(*parts, strict=False) if len(set(part)) == 1]
    return ".".join(common) or names[0]


def _nics(network: Network) -> tuple[NicRow, ...]:
    ports = np.arange(network.n_host_ports)
    own = network.nic_of_port * np.int64(network.port_rate_bps.max() + 1)
    key, counts = np.unique(own + network.port_rate_bps[ports], return_counts=True)
    scale = int(network.port_rate_bps.max() + 1)
    first = np.searchsorted(network.nic_of_port, key // scale)
    up = network.is_scale_up[network.port_network[first]]
    rows = np.stack([network.port_nic[first].astype(np.int64), counts, key % scale, up])
    kinds, hosts = np.unique(rows, axis=1, return_counts=True)
    return tuple(
        NicRow(nic, n_ports, rate_bps, n, bool(up))
        for (nic, n_ports, rate_bps, up), n in zip(kinds.T.tolist(), hosts.tolist(), strict=True)
    )


def _switches(network: Network) -> tuple[SwitchRow, ...]:
    """Return switches by tier; a fiber to a circuit switch counts as one port."""
    real = physical_ports(network)
    node = network.port_node[real]
    ports = np.bincount(node, minlength=network.n_nodes)
    rates = np.bincount(node, network.port_rate_bps[real].astype(float), network.n_nodes)
    latency = latencies_ps(network)
    up = network.is_scale_up[network.switch_network].tolist()
    counted: dict[tuple[str, int, int, int, int, bool], int] = {}
    for index, name in enumerate(network.switch_names):
        at = network.n_hosts + index
        figures = (int(one[at]) for one in (network.tier, ports, rates, latency))
        key = (stem(name), *figures, up[index])
        counted[key] = counted.get(key, 0) + 1
    ordered = sorted(counted.items(), key=lambda item: item[0][1])
    return tuple(SwitchRow(*key, count) for key, count in ordered)


def _network(network: Network, alike: Ints, patterns: Patterns) -> NetworkRow:
    number = int(alike[0])
    inside = np.flatnonzero(network.switch_network == number)
    ports = np.flatnonzero(network.port_network == number)
    hosts = int(np.unique(network.port_node[ports]).size)
    found = [path_counts(network, number, table_number=k) for k in range(network.n_tables)]
    middle = middle_of(network, number)
    cut = bisection(network, number, middle) if hosts > 1 else None
    over = None
    if cut is not None and cut.rate_bps:
        over = _sent_bps(network, number, middle) / cut.rate_bps
    across, sent_bps = _across(network, alike, cut)
    if not np.array_equal(network.port_node[ports], np.arange(network.n_hosts)):
        patterns = {}
    bounds = {
        name: pattern_saturation(network, to, number, legs) for name, (to, legs) in patterns.items()
    }
    return NetworkRow(
        count=int(alike.size),
        name=common_name([network.switch_names[one] for one in inside.tolist()]),
        hosts=hosts,
        host_rate_bps=int(network.port_rate_bps[ports].sum()),
        switches=int(inside.size),
        tiers=int(np.unique(network.tier[network.n_hosts :][inside]).size),
        bisection=cut,
        oversubscription=over,
        across=across,
        across_sent_bps=sent_bps,
        path_diversity=_distances(network, number, found),
        edges=int(np.diff(network.first_group)[number]),
        to_edges=min(int(one.groups.size) for one in found),
        is_scale_up=bool(network.is_scale_up[number]),
        slot_paths=slot_paths(network, number),
        uniform=uniform_saturation(network, number),
        patterns={name: bound for name, bound in bounds.items() if bound is not None},
    )


def _distances(network: Network, number: int, found: Sequence[PathCounts]) -> tuple[Distance, ...]:
    names = [""] if network.policy is None else network.policy.names
    rows: list[Distance] = []
    for name, one in zip(names, found, strict=True):
        rows += path_diversity(network, number, one, name)
    return tuple(rows)


def _sent_bps(network: Network, number: int, middle: int) -> int:
    """Return the lower rate that hosts on either side of `middle` can send into a network."""
    return min(int(network.port_rate_bps[half].sum()) for half in halves(network, number, middle))


def _across(network: Network, alike: Ints, own: Bisection | None) -> tuple[Bisection, int]:
    """Return the rate that equal networks carry between the halves of all hosts, and the rate that
    the halves can send. `own` is each network's bisection, which applies if its halves match."""
    middle = network.n_hosts // 2
    total, sent_bps, how = 0, 0, MAX_FLOW
    for number in alike.tolist():
        low, high = halves(network, number, middle)
        if not (low.size and high.size):
            continue
        own_low, _ = halves(network, number, middle_of(network, number))
        same = low.size == own_low.size
        cut = own if own is not None and same else bisection(network, number, middle)
        total, how = total + cut.rate_bps, cut.how
        sent_bps += _sent_bps(network, number, middle)
    return Bisection(total, how), sent_bps


def shares_of_networks(
    network: Network, flows: FlowTable, port_pairs: PortPairs
) -> Iterator[tuple[str, float]]:
    """Yield the name of each kind of network and its share of all bytes; nothing if there is one
    kind.

    Equal networks, such as rails, are one kind. A flow's bytes are split evenly over its port
    pairs.
    """
    if network.first_group.size <= 2:
        return
    kinds = kinds_of_networks(network)
    if len(kinds) == 1:
        return
    part = np.repeat(flows.size_bytes / np.maximum(port_pairs.counts, 1), port_pairs.counts)
    n_bytes = np.bincount(
        network.port_network[port_pairs.src_port], part, network.first_group.size - 1
    )
    for alike in kinds:
        names = np.flatnonzero(network.switch_network == alike[0]).tolist()
        name = common_name([network.switch_names[one] for one in names])
        more = f" and {alike.size - 1} alike" if alike.size > 1 else ""
        nics = np.unique(network.port_nic[np.isin(network.port_network, alike)]).tolist()
        nic = f" (NIC {', '.join(map(str, nics))})"
        yield name + more + nic, float(n_bytes[alike].sum() / max(n_bytes.sum(), 1))


# --- prices ---------------------------------------------------------------------------------------

BUILT_IN = Path(__file__).with_name("prices.toml")
BPS_PER_GBPS = 1e9
CABLE = "cable"
SCALE_UP_PORT = "scale_up_port"
PARTS = (
    SCALE_UP_PORT,
    "nic_port",
    "switch_port",
    "circuit_port",
    "fiber",
    *(f"{CABLE}.{n}" for n in LENGTHS),
)


@frozen
class Price:
    """Price and power of one piece: a constant, and a part per Gbit/s of line rate."""

    source: str = key(NONBLANK, REQUIRED, "where the price is from")
    usd: float = key(NUMBER, 0.0, "price of a piece")
    usd_per_gbps: float = key(NUMBER, 0.0, "price per line rate")
    watts: float = key(NUMBER, 0.0, "power of a piece")
    watts_per_gbps: float = key(NUMBER, 0.0, "power per line rate")


@frozen
class BillRow:
    """All pieces of one part; `source` is the source of its price."""

    part: str
    count: int
    usd: float
    watts: float
    source: str


def read_prices(path: Path | None = None) -> dict[str, Price]:
    """Return netsim's prices by part, replaced by prices of the file `path`. Raises
    InputError, with file and key, for an invalid price table."""
    prices = _read(BUILT_IN)
    return prices if path is None else prices | _read(path)


def bill(counted: Inventory, prices: Mapping[str, Price]) -> tuple[BillRow, ...]:
    """Return cost and power of each part that a network has."""
    pieces: dict[str, list[tuple[int, float]]] = {part: [] for part in PARTS}
    for nic in counted.nics:
        if not nic.is_scale_up:  # otherwise the cable belongs to the host
            pieces["nic_port"].append((nic.hosts * nic.ports, nic.port_rate_bps))
    for switch in counted.switches:
        share = switch.rate_bps / switch.ports
        part = SCALE_UP_PORT if switch.is_scale_up else "switch_port"
        pieces[part].append((switch.count * switch.ports, share))
    for circuit in counted.circuit_switches:
        pieces["circuit_port"].append((circuit.count * circuit.ports, circuit.rate_bps))
    for cable in counted.cables:
        if cable.length == SCALE_UP:
            continue  # part of its port
        part = "fiber" if cable.joins == FIBER else f"{CABLE}.{cable.length}"
        pieces[part].append((cable.count, cable.rate_bps))
    rows = []
    for part, these in pieces.items():
        count = sum(n for n, _ in these)
        gbps = sum(n * rate_bps for n, rate_bps in these) / BPS_PER_GBPS
        price = prices[part]
        if count:
            usd = price.usd * count + price.usd_per_gbps * gbps
            watts = price.watts * count + price.watts_per_gbps * gbps
            rows.append(BillRow(part, count, usd, watts, price.source))
    return tuple(rows)


def _read(path: Path) -> dict[str, Price]:
    tree = read_toml(path)
    lengths = tree.pop(CABLE, {})
    with errors_at(file=path):
        require_table(lengths, CABLE)
        tables = tree | {f"{CABLE}.{length}": table for length, table in lengths.items()}
        raise_all(unknown_keys(tables, PARTS, "unknown part of a network"))
        return read_tables(Price, tables)
