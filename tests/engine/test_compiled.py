"""The compiled engine gives the results of plain Python, with any number of threads."""

from dataclasses import replace

import numpy as np
import pytest
from engine_runs import (
    DROP_TAIL,
    LOSSLESS,
    NARROW,
    PACKET,
    TRIM,
    US,
    assert_conserved,
    build,
    changed,
    fabric_with,
    fat_tree,
    flow_table,
    run,
)

from netsim.engine.kernels.layout import INF
from netsim.model.fabric import Ecn, Fabric, routing_spec
from netsim.model.flows import FlowTable
from netsim.model.network import Network

# Few combinations, because each is compiled; other tests use the same ones and share the code.
KINDS = {"datagram": ("datagram", DROP_TAIL), "roce": ("roce", LOSSLESS), "ndp": ("ndp", TRIM)}
# One more with many features that those leave out; `test_tasks.py` has another.
FEATURES = {
    "roce, dynamic thresholds": (
        "roce",
        replace(
            changed(LOSSLESS, shared_buffer_bytes=40 * PACKET, alpha=0.5),
            n_traffic_classes=3,
            routing=routing_spec("least_loaded"),
            ecn=Ecn(PACKET, 5 * PACKET, 0.7, at="dequeue"),
        ),
    ),
    "roce, late pauses": ("roce", fabric_with("pfc")),
}

QUICK = ("roce", "ndp")
LONG = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("datagram", *FEATURES)]


def random_flows(network: Network, rng: np.random.Generator, n: int, most_bytes: int) -> FlowTable:
    """Return random flows among all hosts, a quarter of them to host 0."""
    src = rng.integers(0, network.n_hosts, n)
    dst = np.where(rng.random(n) < 0.25, 0, rng.integers(0, network.n_hosts, n))
    dst = np.where(dst == src, (dst + 1) % network.n_hosts, dst)
    size, start = rng.integers(1, most_bytes, n), rng.integers(0, 20 * US, n)
    return flow_table(list(zip(*(x.tolist() for x in (src, dst, size, start)), strict=True)))


def tight(fabric: Fabric, rng: np.random.Generator) -> Fabric:
    """Return the fabric with small buffers of random size, which share its compiled code."""
    packets = int(rng.integers(2, 9)) * PACKET
    queues = {"queue_bytes": packets, "header_queue_bytes": int(rng.integers(1, 50)) * 64}
    pauses = {"xoff_bytes": packets, "xon_bytes": packets // 2}
    return changed(fabric, **queues, **pauses, headroom_bytes=int(rng.choice((PACKET, 10**6))))


@pytest.mark.parametrize("kind", [*QUICK, *LONG])
def test_compiled_and_plain_runs_agree(kind: str) -> None:
    """Array bounds are checked where no other test shares the code."""
    transport, fabric = (KINDS | FEATURES)[kind]
    for seed in range(4):
        rng = np.random.Generator(np.random.Philox(seed))
        network = fat_tree(3, 3, "100Gbps", spines=2, fabric_rate="150Gbps")
        flows = random_flows(network, rng, 12, 30 * 4096)
        params = {} if transport == "datagram" else {"rto": "100us"}
        until = 2000 * US
        given = {"fabric": tight(fabric, rng), "seed": seed, "params": params}
        given["checked"] = kind in FEATURES
        engines = [
            build(network, flows, transport, jit=jit, sizes=sizes, **given)
            for jit, sizes in ((False, None), (True, None), (True, NARROW))
        ]
        digests = {run(engine, until).digest() for engine in engines}
        assert len(digests) == 1
        assert_conserved(engines[0])
        assert_conserved(engines[1])


@pytest.mark.parametrize("kind", QUICK)
def test_threads_and_repetition_do_not_change_results(kind: str) -> None:
    transport, fabric = KINDS[kind]
    rng = np.random.Generator(np.random.Philox(7))
    network = fat_tree(8, 8, "400Gbps", switch_latency="200ns")
    flows = random_flows(network, rng, 150, 20 * 4096)
    fabric = tight(fabric, rng)
    digests = [
        run(build(network, flows, transport, fabric, seed=seed, threads=threads)).digest()
        for seed, threads in ((1, 1), (1, 1), (1, 2), (1, 4), (2, 2))
    ]
    assert len(set(digests[:4])) == 1
    assert digests[4] != digests[0]


@pytest.mark.parametrize("kind", QUICK)
def test_resuming_in_another_engine_does_not_change_results(kind: str) -> None:
    """Move a run from compiled code to plain Python and back, with 2, 1 and 4 threads."""
    transport, fabric = KINDS[kind]
    rng = np.random.Generator(np.random.Philox(11))
    network = fat_tree(4, 4, "400Gbps", switch_latency="200ns")
    flows = random_flows(network, rng, 40, 20 * 4096)
    given = {"fabric": tight(fabric, rng), "sizes": NARROW}
    whole = run(build(network, flows, transport, **given))
    engine = build(network, flows, transport, threads=2, **given)
    for more in ({"jit": False}, {"threads": 1}, {"threads": 4}):
        engine.advance(3, INF)
        before, engine = engine, build(network, flows, transport, **given, **more)
        engine.restore(before.snapshot())
        assert engine.digest() == before.digest()
    assert run(engine).digest() == whole.digest()
