"""Relayed messages and queue pairs in random racks: the engine matches MODEL.md in every
departure."""

import random

import numpy as np
from agreement import compare_totals
from engine_case import departures, engine_for, flows_of, run, tasks_of
from reference.random_features import with_carrier, with_tasks
from reference.relays import racks, relay, stripe
from reference.simulator import simulate
from reference.small import NS, PAYLOAD

from netsim.errors import InputError
from netsim.model.relays import AT, RelayRule, relayed, striped
from netsim.model.workload import Workload

CASES, UNTIL_PS = 30, 100_000 * NS


def test_relayed_messages_match_the_reference() -> None:
    rejected = chunked = several = 0
    for seed in range(CASES):
        rng = random.Random(seed)
        one, rack, rail = racks(rng)
        if rng.random() < 0.5:
            one = with_tasks(one, rng)
        if rng.random() < 0.3:
            one = with_carrier(one, rng)
        at, chunk = rng.choice(AT), rng.choice((10**6, 2 * PAYLOAD, 1500))
        queue_pairs = rng.choice((1, 2, 4))
        load = Workload(flows_of(one), tasks_of(one))
        try:
            made, segments = relayed(load, RelayRule(rack, rail, at, chunk))
        except InputError:
            rejected += 1
            continue
        each = np.full(len(made.flows), queue_pairs)
        made, segments = striped(made, segments, each, PAYLOAD)
        by_text = stripe(relay(one, rack, rail, at, chunk), queue_pairs, PAYLOAD)
        by_text.until_ps = UNTIL_PS
        expected = simulate(by_text)
        engine = run(engine_for(by_text, load=made, jit=False), UNTIL_PS)
        for port in range(engine.network.n_ports):
            assert departures(engine, port) == [tuple(d)[1:] for d in expected.departures[port]]
        free = len(one.tasks) if segments is not None else None
        compare_totals(engine, expected, free)
        chunked += segments is not None and int(segments.chunk.max()) > 0
        several += segments is not None and int(segments.queue_pair.max()) > 0
    assert chunked > 5
    assert several > 5
    assert rejected < 15
