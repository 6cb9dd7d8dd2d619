"""Batch server: closed forms, queueing theory, and exactly one reply per request."""

from typing import Any

import numpy as np
import pytest
from engine_runs import DROP_TAIL, build, run
from traffic_cases import made, star

from netsim.engine.engine import Engine

US = 10**6
SER = 4160 * 80  # serialization time of a full packet at 100 Gbps, in ps
WIRE = 2 * SER + 2 * US
"""Latency of a single packet through one switch, in ps: sent twice over two links."""


def served(n_hosts: int, jit: bool = False, **given: Any) -> Engine:
    """Run the pattern with datagrams around one switch; `given` is what a user writes."""
    load = made("batch_server", n_hosts, **given)
    simulated = {"tasks": load.tasks, "program": load.program, "jit": jit}
    network = star(n_hosts)
    engine = build(network, load.flows, transport="datagram", fabric=DROP_TAIL, **simulated)
    return run(engine)


def times(engine: Engine, n: int, servers: int = 1) -> dict[str, np.ndarray]:
    """Return, for n requests, the arrival at the server and the start and arrival of the reply."""
    states = engine.task_states()
    assert (states.end_ps >= 0).all()
    return {
        "arrived": states.end_ps[:n],
        "replied": states.start_ps[n : 2 * n],
        "back": states.end_ps[2 * n + servers :],
    }


def test_single_request_and_its_reply_take_their_closed_form() -> None:
    engine = served(2, requests=1, arrivals="even", request="4096B", reply="4096B", base="7us")
    found = times(engine, 1)
    assert found["arrived"] == WIRE
    assert found["replied"] == WIRE + 12 * US
    assert found["back"] == 2 * WIRE + 12 * US


def test_batch_contains_the_requests_that_have_arrived() -> None:
    # One client sends a request every 2 us. The first is processed alone for 11 us. Five more
    # arrive meanwhile; at most four of them form the next batch.
    engine = served(
        2,
        requests=7,
        arrivals="even",
        interval="2us",
        request="4096B",
        reply="4096B",
        max_batch=4,
        base="10us",
        per_item="1us",
    )
    found = times(engine, 7)
    first = WIRE + 11 * US
    second = first + 14 * US
    assert found["arrived"].tolist() == [WIRE + 2 * US * k for k in range(7)]
    assert found["replied"].tolist() == [first] + [second] * 4 + [second + 12 * US] * 2
    states = engine.task_states()
    assert states.runs[14] == 3
    assert states.busy_ps[14] == (11 + 14 + 12) * US


def queue_wait(arrived: np.ndarray, service_ps: int) -> np.ndarray:
    """Return the waiting time of each arrival at a single server, by Lindley's recursion."""
    waits = np.zeros(arrived.size, np.int64)
    for k in range(1, arrived.size):
        gap = arrived[k] - arrived[k - 1]
        waits[k] = max(0, waits[k - 1] + service_ps - gap)
    return waits


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.3, 0.6])
def test_batch_size_of_one_gives_an_m_d_1_queue(load: float) -> None:
    n, service = 300_000, 100 * US
    engine = served(
        65,
        jit=True,
        requests=n,
        interval=f"{round(100_000 / load)}ns",
        request="64B",
        reply="64B",
        max_batch=1,
        base="100us",
        per_item="0us",
    )
    found = times(engine, n)
    order = np.argsort(found["arrived"], kind="stable")
    waited = (found["replied"] - found["arrived"] - service)[order]
    assert (waited == queue_wait(found["arrived"][order], service)).all()
    assert waited.mean() == pytest.approx(load / (1 - load) / 2 * service, rel=0.03)
