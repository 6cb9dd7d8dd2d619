"""Random small cases that make a fabric drop, trim, pause and meet ties as often as possible."""

from __future__ import annotations

import random
from itertools import permutations
from typing import Any

from .model import Cable, Case, LinkFault, Phase, Reroute
from .random_tasks import with_tasks

TRANSPORTS = ("datagram", "roce", "ndp")
LOAD_BALANCING = (
    "ecmp",
    "ecmp_symmetric",
    "spray_random",
    "spray_rr",
    "spray_permutation",
    "least_loaded",
)

# (transport, model) that make sense together.
COMBINATIONS = (
    ("datagram", "drop_tail"),
    ("datagram", "trim"),
    ("datagram", "lossless"),
    ("roce", "drop_tail"),
    ("roce", "lossless"),
    ("ndp", "drop_tail"),
    ("ndp", "trim"),
)

BESIDES = ("pfabric", "codel", "credit_shaper", "mixed")
"""Queue disciplines that go with every transport."""

GBPS = (10, 25, 40, 100, 200, 400, 800)
NS = 1_000
US = 1_000_000
Pairs = list[tuple[int, int]]
CONTROL_BYTES = 64
WITH_TASKS = 0.4
"""The share of cases whose hosts have tasks."""


def random_case(
    rng_seed: int, transport: str, model: str, load_balancing: str, planes: str | None = None
) -> Case:
    """A case of 2 to 12 hosts and 1 to 15 flows; the arguments determine it.

    With ``planes`` hosts have up to four ports, in up to three networks.
    """
    if (transport, model) not in COMBINATIONS and model not in BESIDES:
        raise ValueError(f"{transport} on {model} makes no sense")
    rng = random.Random(f"{rng_seed} {transport} {model} {load_balancing} {planes or ''}".strip())
    n_hosts = rng.randint(2, 12)
    nics: dict[tuple[int, int], int] = {}
    if planes is None:
        n_switches, pairs = _graph(rng, n_hosts)
        reach = {pair: [0] for pair in permutations(range(n_hosts), 2)}
    else:
        n_switches, pairs, nics, reach = _networks(rng, n_hosts)
    cables = _cables(rng, pairs, nics)
    packets = {
        "payload_bytes": rng.choice((256, 1000, 1024, 4096)),
        "header_bytes": rng.choice((64, 66, 78)),
        "control_bytes": CONTROL_BYTES,
    }
    full = packets["payload_bytes"] + packets["header_bytes"]
    two = model in ("trim", "credit_shaper") or transport == "ndp"
    n_classes = 2 if two else rng.randint(1, 8)
    rto_ps = rng.choice((20 * US, 60 * US, 200 * US))
    flows = _flows(rng, n_hosts, list(reach), packets["payload_bytes"])
    last_start = max(start for *_, start in flows)
    fabric = _fabric(rng, model, load_balancing, n_classes, full)
    if planes is not None:
        fabric["planes"] = planes
    params = _params(rng, transport, model, n_classes, rto_ps)
    seed = rng.choice((0, 1, rng.getrandbits(31)))
    # Timers may never end (a queue too small for a packet, pauses in a circle).
    until_ps = last_start + 20 * rto_ps + rng.randrange(100 * US)
    case = Case(
        n_hosts=n_hosts,
        n_switches=n_switches,
        cables=cables,
        fabric=fabric,
        packets=packets,
        transport=transport,
        params=params,
        flows=flows,
        seed=seed,
        until_ps=until_ps,
        faults=_faults(rng, 2 * len(cables)),
        reroutes=_reroutes(rng, n_hosts, n_switches, pairs),
        nics={
            i: rng.choice(reach[src, dst])
            for i, (src, dst, *_) in enumerate(flows)
            if planes is not None and rng.random() < 0.2
        },
    )
    return with_tasks(case, rng) if rng.random() < WITH_TASKS else case


def _switches(rng: random.Random) -> tuple[int, int, list[tuple[int, int]]]:
    """Number of switches, of those with hosts, and the pairs of them that cables join."""
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


def _graph(rng: random.Random, n_hosts: int) -> tuple[int, list[tuple[int, int]]]:
    """Number of switches, and the pairs of nodes that cables join; a host has one cable."""
    n_switches, edge, links = _switches(rng)
    pairs = [(host, n_hosts + rng.randrange(edge)) for host in range(n_hosts)]
    pairs += [(n_hosts + a, n_hosts + b) for a, b in links]
    if rng.random() < 0.5:  # port numbers that do not follow the node numbers
        rng.shuffle(pairs)
        pairs = [pair if rng.random() < 0.5 else pair[::-1] for pair in pairs]
    return n_switches, pairs


def _networks(
    rng: random.Random, n_hosts: int
) -> tuple[int, Pairs, dict[tuple[int, int], int], dict[tuple[int, int], list[int]]]:
    """Number of switches, pairs joined by cables, NICs of hosts' cables, and of hosts with a way.

    The last says by which NICs the first of two hosts reaches the second. There are up to three
    networks; a host has up to two ports in most of them, and the ports in different networks are
    planes of one NIC or belong to two of them.
    """
    first, pairs = n_hosts, []
    n_networks = rng.randint(1, 3)
    groups = [rng.randrange(2) if rng.random() < 0.4 else 0 for _ in range(n_networks)]
    ports: list[list[tuple[int, int]]] = [[] for _ in range(n_hosts)]  # (network, switch)
    for network in range(n_networks):
        n_switches, edge, links = _switches(rng)
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
    return first - n_hosts, pairs, nics, reach


def _cables(rng: random.Random, pairs: Pairs, nics: dict[tuple[int, int], int]) -> list[Cable]:
    """Half of the networks are uniform, so that many things happen at the same time."""
    if rng.random() < 0.5:
        rate = rng.choice(GBPS) * 10**9
        delay = rng.choice((NS, 100 * NS, 600 * NS, US, 5 * US))
        return [Cable(a, b, rate, delay, delay, nics.get((a, b), 0)) for a, b in pairs]
    rates = rng.sample(GBPS, rng.randint(1, 4))
    return [
        Cable(
            a,
            b,
            rng.choice(rates) * 10**9,
            rng.choice((NS, 50 * NS, 500 * NS, rng.randint(NS, 5 * US))),
            rng.choice((NS, 50 * NS, 500 * NS, rng.randint(NS, 5 * US))),
            nics.get((a, b), 0),
        )
        for a, b in pairs
    ]


def _fabric(
    rng: random.Random, model: str, load_balancing: str, n_classes: int, full: int
) -> dict[str, Any]:
    """Buffers of a few packets; ``full`` is the size of a full packet."""
    xoff = rng.choice((0, full, 2 * full, 3 * full + 1, 8 * full))
    dynamic = model == "lossless" and rng.random() < 0.5
    fabric = {
        "model": model,
        "load_balancing": load_balancing,
        "n_classes": n_classes,
        "queue_bytes": rng.choice((full, 2 * full, 3 * full - 1, 5 * full, 12 * full)),
        "header_queue_bytes": CONTROL_BYTES * rng.choice((1, 3, 10, 100)),
        "header_ratio": rng.choice((1, 3, 10, 10)),
        "ecn": _ecn(rng, full),
        "ecn_from_class": rng.choice((0, rng.randrange(n_classes))),
        "xoff_bytes": xoff,
        "xon_bytes": rng.choice((max(1, xoff), xoff // 2 + 1, 1)),
        "headroom_bytes": rng.choice((0, 2 * full, 20 * full, 10**7, 10**7)),
        "shared_buffer_bytes": rng.choice((10, 30, 100)) * full if dynamic else None,
        "alpha": rng.choice((0.125, 0.3, 0.5, 1.0, 2.0)) if dynamic else None,
        "xon_gap_bytes": rng.choice((0, 1, full, 2 * full)),
    }
    if model == "codel":
        fabric["target_ps"] = rng.choice((1, 100 * NS, US))
        fabric["interval_ps"] = rng.choice((NS, US, 5 * US + 1, 20 * US))
        fabric["mark"] = rng.random() < 0.3
    if model == "mixed":
        fabric["classes"] = n_classes
        fabric["buffer_bytes"] = rng.choice((10, 40, 100)) * full
        fabric["gap_ps"] = rng.choice((0, NS, US))
    if model == "credit_shaper":
        fabric["credit_bytes"] = rng.choice((CONTROL_BYTES, 84, full))
        fabric["credit_burst"] = rng.choice((1, 2, 5))
        fabric["credit_slots"] = rng.choice((1, 3, 8))
    return fabric


def _faults(rng: random.Random, n_ports: int) -> dict[int, LinkFault]:
    """In a third of the cases, faults on some links or on all."""
    if rng.random() < 2 / 3:
        return {}
    ports = range(n_ports)
    chosen = rng.sample(ports, rng.randint(1, n_ports)) if rng.random() < 0.7 else ports
    faults = {}
    for port in chosen:
        down = rng.randrange(50 * US)
        outages: tuple[tuple[int, int], ...] = ()
        if rng.random() < 0.3:
            outages = ((down, down + rng.randrange(1, 100 * US)),)
        if outages and rng.random() < 0.3:
            outages += ((down + 30 * US, down + 130 * US),)
        faults[port] = LinkFault(_phases(rng), outages)
    return faults


def _phases(rng: random.Random) -> tuple[Phase, ...]:
    """A link with other errors all the time, or with other rates and errors for some time each."""
    loss, errors = rng.choice((0.0, 0.02, 0.2)), rng.choice((0.0, 1e-6, 1e-5))
    phases = [Phase(0, loss, errors)]
    while rng.random() < 0.6 and len(phases) < 5:
        begin = phases[-1].from_ps + rng.choice((1, rng.randrange(1, 10 * US), 5 * US))
        loss, errors = rng.choice((0.0, 0.0, 0.2, 1.0)), rng.choice((0.0, 0.0, 1e-5))
        rate = rng.choice((None, rng.choice(GBPS) * 10**9))
        phases.append(Phase(begin, loss, errors, rate))
    return tuple(phases)


def _reroutes(
    rng: random.Random, n_hosts: int, n_switches: int, pairs: list[tuple[int, int]]
) -> list[Reroute]:
    """In a quarter of the cases, some switches send anywhere for a while, or nowhere."""
    if rng.random() < 3 / 4:
        return []
    ends = [[pair for pair in pairs if node in pair] for node in range(n_hosts + n_switches)]
    edges = {max(pair) for pair in pairs if min(pair) < n_hosts}
    reroutes: list[Reroute] = []
    for _ in range(rng.randint(1, 5)):
        switch = rng.randrange(n_hosts, n_hosts + n_switches)
        inner = [k for k, pair in enumerate(ends[switch]) if min(pair) >= n_hosts]
        ports = {
            edge: tuple(sorted(rng.sample(inner, rng.randint(0, min(3, len(inner))))))
            for edge in sorted((edges & _joined_to(switch, pairs, n_hosts)) - {switch})
            if rng.random() < 0.6
        }
        at = rng.choice((0, 10 * US, rng.randrange(50 * US)))
        if all((one.at_ps, one.switch) != (at, switch) for one in reroutes):
            reroutes.append(Reroute(at, switch, ports))
    return reroutes


def _joined_to(switch: int, pairs: Pairs, n_hosts: int) -> set[int]:
    """The switches of a network, by one of them."""
    found = {switch}
    while True:
        inner = [set(pair) for pair in pairs if min(pair) >= n_hosts and found & set(pair)]
        more = set().union(found, *inner)
        if more == found:
            return found
        found = more


def _ecn(rng: random.Random, full: int) -> dict[str, Any] | None:
    if rng.random() < 0.4:
        return None
    kmin = rng.choice((0, full, 2 * full))
    kmax = kmin if rng.random() < 0.3 else kmin + rng.choice((full, 3 * full, 7 * full + 3))
    return {
        "kmin_bytes": kmin,
        "kmax_bytes": kmax,
        "pmax": rng.choice((0.1, 0.5, 0.77, 1.0)),
        "at": rng.choice(("enqueue", "dequeue")),
    }


def _params(
    rng: random.Random, transport: str, model: str, n_classes: int, rto_ps: int
) -> dict[str, Any]:
    if transport == "datagram":
        rate = None if rng.random() < 0.5 else rng.choice((3, 7, 10, 90)) * 10**9 + 1
        data_class = 1 if model == "trim" else rng.randrange(n_classes)
        return {"rate_bps": rate, "data_class": data_class}
    if transport == "roce":
        return {
            "ack_every": rng.choice((1, 1, 2, 5)),
            "rto_ps": rto_ps,
            "data_class": rng.randrange(n_classes),
            "ack_class": rng.choice((None, rng.randrange(n_classes))),
        }
    return {"initial_window": rng.choice((1, 2, 8, 30)), "rto_ps": rto_ps}


def _flows(
    rng: random.Random, n_hosts: int, joined: Pairs, payload: int
) -> list[tuple[int, int, int, int]]:
    """One to fifteen flows, in a third of the cases all to the same host if they can."""
    victim = rng.randrange(n_hosts) if rng.random() < 1 / 3 else None
    starts = [0, rng.randrange(5 * US), rng.randrange(50 * US)]
    flows = []
    for _ in range(rng.randint(1, 15)):
        src, dst = rng.choice(joined)
        if victim is not None and (src, victim) in joined:
            dst = victim
        size = rng.choice(
            (
                1,
                rng.randint(1, payload),
                payload + rng.choice((0, 1)),
                rng.randint(1, 60 * payload),
                rng.randint(1, 60 * payload),
            )
        )
        flows.append((src, dst, size, rng.choice((*starts, rng.randrange(20 * US)))))
    return flows
