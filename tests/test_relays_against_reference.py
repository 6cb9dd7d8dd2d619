"""Relayed messages of random racks: what the engine simulates is what MODEL.md makes of them."""

from __future__ import annotations

import random

import pytest
from engine_case import departures, engine_for, flow_results, flows_of, run, tasks_of
from reference.model import Cable, Case
from reference.random_tasks import with_tasks
from reference.relays import relay
from reference.simulator import simulate
from reference.small import FULL, NS, PAYLOAD, G, case, fabric

from netsim.errors import InputError
from netsim.model.relays import AT, RelayRule, relayed
from netsim.model.tasks import Workload

CASES, UNTIL_PS = 60, 100_000 * NS


def racks(rng: random.Random) -> tuple[Case, int, int]:
    """Two or three racks of two to four hosts, and random flows between them."""
    n_racks, rack = rng.randint(2, 3), rng.choice((2, 3, 4))
    rail = 2 if rack == 4 and rng.random() < 0.5 else 1
    n = n_racks * rack
    rates = [rng.choice((10, 50, 100)) * G for _ in range(2)]
    delays = [rng.randint(50, 2_000) * NS for _ in range(2)]
    cables = [Cable(h, n + h // rack, rates[0], delays[0], delays[0]) for h in range(n)]
    for h in range(n):
        switch = n + n_racks + h % rack // rail
        cables.append(Cable(h, switch, rates[1], delays[1], delays[1], nic=1))
    flows = []
    for _ in range(rng.randint(1, 9)):
        src, dst = rng.sample(range(n), 2)
        flows.append(
            (src, dst, rng.randint(1, 12 * PAYLOAD), rng.choice((0, rng.randrange(10**7))))
        )
    queue = rng.choice((3, 10, 1000)) * FULL
    kind = rng.choice(("datagram", "roce", "ndp"))
    in_fabric = fabric("trim" if kind == "ndp" else "drop_tail", queue_bytes=queue)
    made = case(n, cables, flows, kind, in_fabric=in_fabric, seed=rng.randrange(1000))
    if kind == "roce":
        made.params["rto_ps"] = 50_000 * NS
    if kind == "ndp":
        made.params["rto_ps"] = 80_000 * NS
    return made, rack, rail


@pytest.mark.parametrize("first", range(0, CASES, 20))
def test_every_departure(first: int) -> None:
    refused = chunked = 0
    for seed in range(first, first + 20):
        rng = random.Random(seed)
        one, rack, rail = racks(rng)
        if rng.random() < 0.5:
            one = with_tasks(one, rng)
        at, chunk = rng.choice(AT), rng.choice((10**6, 2 * PAYLOAD, 1500))
        load = Workload(flows_of(one), tasks_of(one))
        try:
            made, legs = relayed(load, RelayRule(rack, rail, at, chunk))
        except InputError:
            refused += 1
            continue
        by_text = relay(one, rack, rail, at, chunk)
        by_text.until_ps = UNTIL_PS
        expected = simulate(by_text)
        engine = run(engine_for(by_text, load=made, jit=False), UNTIL_PS)
        for port in range(engine.network.n_ports):
            assert departures(engine, port) == [tuple(d)[1:] for d in expected.departures[port]]
        assert flow_results(engine) == [tuple(flow) for flow in expected.flows]
        chunked += legs is not None and int(legs.chunk.max()) > 0
    assert chunked > 3
    assert refused < 10
