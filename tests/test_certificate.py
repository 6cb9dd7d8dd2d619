"""The engine against the slow reference simulator, packet by packet and picosecond by picosecond.

Random small networks in which queues overflow, packets are trimmed and links are paused
often. Most cases run the engine's code as plain Python, since every fabric would otherwise
be compiled; some of every transport are compiled.
"""

from __future__ import annotations

import pytest
from engine_case import departures, engine_for
from reference.cases import COMBINATIONS, LOAD_BALANCING, random_case
from reference.model import Case
from reference.simulator import simulate

from netsim.engine.layout import RUNNING

CASES = 8
"""Random cases for each combination of transport, model and load balancing."""


def compare(case: Case, **options: object) -> None:
    expected = simulate(case)
    engine = engine_for(case, **options)
    assert case.until_ps is not None
    while engine.advance(1000, case.until_ps) == RUNNING:
        pass
    for port in range(engine.network.n_ports):
        assert departures(engine, port) == [tuple(d) for d in expected.departures.get(port, [])]
    ends = engine.state.ends
    for f, flow in enumerate(expected.flows):
        start = int(ends.tx["start_ps"][f])
        done, acked = int(ends.rx["done_ps"][f]), int(ends.tx["acked_ps"][f])
        assert flow.fct_ps == (done - start if done >= 0 else -1)
        if case.transport != "datagram":
            assert flow.acked_ps == (acked - start if acked >= 0 else -1)
        assert flow.retransmits == ends.tx["retransmits"][f]
        assert flow.packets_sent == ends.tx["sent_packets"][f]
    compare_counters(engine, expected)


def compare_counters(engine, expected) -> None:
    queues = engine.state.wires.queues
    classes = engine.fabric.n_classes
    names = {
        "bytes": "sent_bytes",
        "packets": "sent_packets",
        "drops": "drops",
        "drop_bytes": "drop_bytes",
        "trims": "trims",
        "marks": "marks",
        "max_queue_bytes": "max_bytes",
        "pauses_sent": "pauses",
    }
    for (port, c), counters in expected.counters.items():
        ours = queues[port * classes + c]
        got = {name: int(ours[field]) for name, field in names.items()}
        assert got == {name: getattr(counters, name) for name in names}, (port, c)


@pytest.mark.parametrize("load_balancing", LOAD_BALANCING)
@pytest.mark.parametrize(("transport", "model"), COMBINATIONS)
def test_plain_python_engine(transport: str, model: str, load_balancing: str) -> None:
    for seed in range(CASES):
        compare(random_case(seed, transport, model, load_balancing), jit=False)
