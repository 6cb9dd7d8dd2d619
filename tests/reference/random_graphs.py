"""Random small networks: cables, their rates and delays."""

import random
from itertools import permutations
from typing import NamedTuple

from .model import Cable

GBPS = (10, 25, 40, 100, 200, 400, 800)
NS = 1_000
US = 1_000_000
Pairs = list[tuple[int, int]]


class Graph(NamedTuple):
    """Nodes and the cables between them; hosts come first."""

    n_switches: int
    pairs: Pairs
    nics: dict[tuple[int, int], int]  # NIC of a host's cable, if hosts have several
    reach: dict[tuple[int, int], list[int]]  # NICs by which a host reaches another one


def _switches(
    rng: random.Random, trees: random.Random | None
) -> tuple[int, int, list[tuple[int, int]]]:
    """Return the number of switches, of those with hosts, and the pairs joined by cables. They form
    a three-tier tree, drawn by ``trees``, if that is given."""
    if trees is not None:
        return _tree(trees)
    shape = rng.choice(("star", "line", "leaf_spine", "leaf_spine", "random", "random"))
    if shape == "star":
        n_switches, links = 1, []
    elif shape == "line":
        n_switches = rng.randint(2, 5)
        links = [(i, i + 1) for i in range(n_switches - 1)]
        links += [pair for pair in links if rng.random() < 0.3]  # parallel cables
    elif shape == "leaf_spine":
        n_leaves, n_spines = rng.randint(2, 4), rng.randint(2, 5)
        n_switches = n_leaves + n_spines
        links = [(i, n_leaves + j) for i in range(n_leaves) for j in range(n_spines)]
    else:
        n_switches = rng.randint(3, 8)
        links = [(rng.randrange(i), i) for i in range(1, n_switches)]
        for _ in range(rng.randint(0, 2 * n_switches)):
            a, b = rng.sample(range(n_switches), 2)
            links.append((a, b))
    edge = n_leaves if shape == "leaf_spine" else n_switches
    return n_switches, edge, links


def _tree(rng: random.Random) -> tuple[int, int, list[tuple[int, int]]]:
    """Return two or three pods; each spine has its own cores; some cables are parallel."""
    pods, leaves, spines, up = (rng.randint(2, 3), *(rng.randint(1, 2) for _ in range(3)))
    first_spine, first_core = pods * leaves, pods * (leaves + spines)
    links = []
    for pod in range(pods):
        for spine in range(spines):
            above = first_spine + pod * spines + spine
            links += [(pod * leaves + leaf, above) for leaf in range(leaves)]
            links += [(above, first_core + spine * up + core) for core in range(up)]
    if rng.random() < 0.3:
        links += [pair for pair in links if pair[1] >= first_core or rng.random() < 0.5]
    return first_core + spines * up, pods * leaves, links


def one_network(rng: random.Random, n_hosts: int, trees: random.Random | None) -> Graph:
    """Return a network with one cable per host; with `trees` of three tiers."""
    n_switches, edge, links = _switches(rng, trees)
    pairs = [(host, n_hosts + rng.randrange(edge)) for host in range(n_hosts)]
    pairs += [(n_hosts + a, n_hosts + b) for a, b in links]
    if rng.random() < 0.5:  # port numbers in another order than node numbers
        rng.shuffle(pairs)
        pairs = [pair if rng.random() < 0.5 else pair[::-1] for pair in pairs]
    reach = {pair: [0] for pair in permutations(range(n_hosts), 2)}
    return Graph(n_switches, pairs, {}, reach)


def racks(rng: random.Random, n_hosts: int) -> Graph:
    """Return three to six switches without cables, for circuits (`with_circuits`)."""
    n_switches = rng.randint(3, 6)
    pairs = [(host, n_hosts + rng.randrange(n_switches)) for host in range(n_hosts)]
    reach = {pair: [0] for pair in permutations(range(n_hosts), 2)}
    return Graph(n_switches, pairs, {}, reach)


def several_networks(rng: random.Random, n_hosts: int, trees: random.Random | None) -> Graph:
    """Return up to three networks for hosts with several ports; with `trees` of three tiers.

    A host has up to two ports in most of them; ports in different networks are planes of one NIC or
    belong to two.
    """
    first, pairs = n_hosts, []
    n_networks = rng.randint(1, 3)
    groups = [rng.randrange(2) if rng.random() < 0.4 else 0 for _ in range(n_networks)]
    ports: list[list[tuple[int, int]]] = [[] for _ in range(n_hosts)]  # (network, switch)
    for network in range(n_networks):
        n_switches, edge, links = _switches(rng, trees)
        pairs += [(first + a, first + b) for a, b in links]
        surely = range(n_hosts) if network == 0 else [rng.randrange(n_hosts)]
        for host in range(n_hosts):
            further = rng.choice((0, 0, 1)) if network == 0 else rng.choice((0, 1, 1, 2))
            for _ in range((host in surely) + further):
                ports[host].append((network, first + rng.randrange(edge)))
        first += n_switches
    nics: dict[tuple[int, int], int] = {}
    reach: dict[tuple[int, int], list[int]] = {}
    for host, of_host in enumerate(ports):
        numbers = sorted({groups[network] for network, _ in of_host})
        for network, switch in of_host:
            pairs.append((host, switch))
            nics[host, switch] = numbers.index(groups[network])
        for other in range(n_hosts):
            shared = {network for network, _ in ports[other]}
            found = {nics[host, switch] for network, switch in of_host if network in shared}
            if found and other != host:
                reach[host, other] = sorted(found)
    if rng.random() < 0.5:
        rng.shuffle(pairs)
    return Graph(first - n_hosts, pairs, nics, reach)


def cables(rng: random.Random, graph: Graph) -> list[Cable]:
    """Return cables; half of the networks are uniform, so that many events are simultaneous."""
    if rng.random() < 0.5:
        rate = rng.choice(GBPS) * 10**9
        delay = rng.choice((NS, 100 * NS, 600 * NS, US, 5 * US))
        return [Cable(a, b, rate, delay, delay, graph.nics.get((a, b), 0)) for a, b in graph.pairs]
    rates = rng.sample(GBPS, rng.randint(1, 4))
    return [
        Cable(
            a,
            b,
            rng.choice(rates) * 10**9,
            rng.choice((NS, 50 * NS, 500 * NS, rng.randint(NS, 5 * US))),
            rng.choice((NS, 50 * NS, 500 * NS, rng.randint(NS, 5 * US))),
            graph.nics.get((a, b), 0),
        )
        for a, b in graph.pairs
    ]
