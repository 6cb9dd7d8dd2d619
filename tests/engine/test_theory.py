"""Incasts, PFC, large networks and steps against theory."""

from itertools import permutations

import numpy as np
import pytest
from engine_runs import (
    DROP_TAIL,
    LOSSLESS,
    NS,
    PACKET,
    TRIM,
    US,
    acked_ps,
    assert_conserved,
    build,
    counter,
    fat_tree,
    fct_ps,
    flow_table,
    keep_sent,
    packets_sent,
    run,
)
from small_job import small_job
from small_networks import rails
from task_times import Times
from task_times import operations_of as table_of

from netsim.model.builder import NetworkBuilder
from netsim.model.fabric import Fabric, PacketFormat
from netsim.model.flows import FlowTable
from netsim.model.ideal import ideal_times
from netsim.model.network import Network
from netsim.workloads.job.job import Job
from netsim.workloads.job.schedules import SCHEDULES, bubble_ps
from netsim.workloads.job.work import stage_times
from netsim.workloads.operations import CollectiveOptions
from netsim.workloads.training.sample import KINDS, JobSample, sample_job
from netsim.workloads.training.step import operations_of

PAYLOAD = 4096
G = 10**9


def send_ps(n_bytes: int, rate_bps: int) -> int:
    """Return the serialization time, which is exact at the rates used here."""
    return n_bytes * 8 * 10**12 // rate_bps


def uneven_tree() -> Network:
    """Return three leaves with two hosts each and three spines; all cables differ."""
    builder = NetworkBuilder()
    hosts = builder.add_hosts(6)
    leaves = [builder.add_switch(f"leaf{i}", tier=0, latency_ps=300 * NS) for i in range(3)]
    spines = [builder.add_switch(f"spine{i}", tier=1, latency_ps=700 * NS) for i in range(3)]
    for h in hosts:
        builder.cable(h, leaves[h // 2], rate_bps=100 * G, delay_ps=(100 + h) * NS)
    for i, leaf in enumerate(leaves):
        for j, spine in enumerate(spines):
            rate = (100, 200, 400)[(i + j) % 3] * G
            builder.cable(leaf, spine, rate_bps=rate, delay_ps=(500 + 10 * i + j) * NS)
    return builder.build("uneven")


def all_paths(network: Network, src: int, dst: int) -> set[tuple[int, ...]]:
    """Return every path that the routing tables allow, as global ports."""
    paths = {(int(network.node_first_port[src]),)}
    while True:
        longer = set()
        for path in paths:
            node = int(network.port_node[network.port_peer[path[-1]]])
            if node == dst:
                return paths
            switch, group = node - network.n_hosts, int(network.host_group[dst])
            locals_ = network.candidates(switch, group)
            if not locals_.size:
                locals_ = network.host_port[[dst]]
            start = int(network.node_first_port[node])
            longer |= {(*path, start + int(port)) for port in locals_}
        paths = longer


def test_single_packet_takes_the_delay_of_its_path() -> None:
    """Exactly the serialization, propagation and switch latency of its links, on every path."""
    network = uneven_tree()
    pairs = list(permutations(range(6), 2))
    flows = flow_table(
        [(*pairs[i % 30], 1 + 37 * i % PAYLOAD, i * 100 * US) for i in range(30 * 20)]
    )
    engine = run(keep_sent(build(network, flows, "datagram", DROP_TAIL, jit=False)))
    links_of: dict[int, list[tuple[int, int]]] = {f: [] for f in range(len(flows))}
    for p in range(network.n_ports):
        for pkt in packets_sent(engine, p):
            links_of[int(pkt["flow"])].append((int(pkt["time"]), p))
    times = fct_ps(engine)
    seen: dict[tuple[int, int], set[tuple[int, ...]]] = {pair: set() for pair in pairs}
    for f, links in links_of.items():
        path = tuple(port for _, port in sorted(links))
        seen[int(flows.src[f]), int(flows.dst[f])].add(path)
        size = int(flows.size_bytes[f]) + 64
        closed_form = sum(
            send_ps(size, int(network.port_rate_bps[p])) + int(network.port_delay_ps[p])
            for p in path
        )
        assert times[f] == closed_form
    for (src, dst), paths in seen.items():
        assert paths == all_paths(network, src, dst)


@pytest.mark.parametrize(("n_senders", "rate", "gbps"), [(8, "100Gbps", 100), (32, "800Gbps", 800)])
@pytest.mark.parametrize(
    ("transport", "fabric", "within"), [("roce", LOSSLESS, 0.01), ("ndp", TRIM, 0.03)]
)
def test_incast_takes_the_time_of_the_receiver_link(
    transport: str, fabric: Fabric, within: float, n_senders: int, rate: str, gbps: int
) -> None:
    """N senders to one host finish after N * size / rate + RTT, without drops."""
    network = fat_tree(8, 8, rate)
    n = 250
    flows = flow_table([(63 - i, 0, n * PAYLOAD, 0) for i in range(n_senders)])
    engine = run(build(network, flows, transport, fabric))
    rtt = 4 * (send_ps(PACKET, gbps * G) + send_ps(64, gbps * G) + 2 * US)
    ideal = n_senders * n * send_ps(PACKET, gbps * G) + rtt
    assert acked_ps(engine).max() == pytest.approx(ideal, rel=within)
    assert counter(engine, "drops") == 0
    assert (counter(engine, "trims") == 0) == (transport == "roce")
    assert_conserved(engine)


def victim_fct(congested: bool) -> int:
    """Return the completion time of a flow that shares one link, fast enough for all, with others.
    Hosts 0 to 3 are on one switch, 4 and 5 on the other; the three other flows all go to host 4."""
    builder = NetworkBuilder()
    hosts = builder.add_hosts(6)
    left, right = builder.add_switch(), builder.add_switch()
    for h in hosts:
        builder.cable(h, left if h < 4 else right, rate_bps=100 * G, delay_ps=US)
    builder.cable(left, right, rate_bps=400 * G, delay_ps=US)
    network = builder.build("victim")
    size = 500 * PAYLOAD
    others = [(h, 4, size, 0) for h in range(3)] if congested else []
    flows = flow_table([(3, 5, size, 0), *others])
    engine = run(build(network, flows, "roce", LOSSLESS))
    assert counter(engine, "drops") == 0
    return int(fct_ps(engine)[0])


def test_pfc_pauses_delay_a_victim_flow() -> None:
    """Pauses for other flows block it; without these flows it takes its ideal time."""
    alone = 500 * send_ps(PACKET, 100 * G) + send_ps(PACKET, 400 * G) + send_ps(PACKET, 100 * G)
    assert victim_fct(congested=False) == alone + 3 * US
    assert victim_fct(congested=True) > 2 * alone


PORTS = 64
HALF = PORTS // 2
HOSTS = PORTS * HALF * HALF
RATE_BPS, DELAY_PS = 100 * 10**9, 500_000


def three_tiers() -> Network:
    """Return pods of 32 edge and 32 middle switches; each middle switch has 32 core switches."""
    builder = NetworkBuilder()
    builder.reserve(hosts=HOSTS, switches=2 * PORTS * HALF + HALF * HALF, cables=3 * HOSTS)
    builder.add_hosts(HOSTS)
    edge, middle, core = (
        np.array([builder.add_switch() for _ in range(n)])
        for n in (PORTS * HALF, PORTS * HALF, HALF * HALF)
    )
    pod, i, j = (index.ravel() for index in np.indices((PORTS, HALF, HALF)))
    first = pod * HALF
    builder.cables(np.arange(HOSTS), np.repeat(edge, HALF), RATE_BPS, DELAY_PS)
    builder.cables(edge[first + i], middle[first + j], RATE_BPS, DELAY_PS)
    builder.cables(middle[first + i], core[i * HALF + j], RATE_BPS, DELAY_PS)
    return builder.build("three tiers")


@pytest.mark.slow
def test_eight_flows_among_65536_hosts_take_the_ideal_time() -> None:
    network = three_tiers()
    assert (network.n_hosts, network.n_switches) == (65_536, 5120)
    src = np.arange(8, dtype=np.int32) * (HOSTS // 8)
    flows = FlowTable(src, (src + HOSTS // 2 + 1) % HOSTS, np.full(8, 400_000))
    engine = build(network, flows, "datagram", DROP_TAIL)
    engine.advance(20, 10**12)
    half = engine.snapshot()
    assert sum(stored.raw.size for stored in half.values()) < 400_000_000
    run(engine)
    assert engine.conservation().packets.missing == 0
    # No two flows share a link, so each takes its ideal time.
    assert np.array_equal(fct_ps(engine), ideal_times(network, flows, PacketFormat()).fct_ps)
    packets = -(-400_000 // PacketFormat().payload_bytes)
    assert engine.counts.hops == 8 * 6 * packets


GBPS = 10**9
LINKS = {"scale_up": {"rate": "100Gbps"}, "scale_out": {"rate": "100Gbps"}}
FAST = LINKS | {"wan_rate": "100Gbps", "wan_delay": "0ms"}
LARGE = ("layer", "dense_layer", "moe_layer", "virtual_stage")
"""Parts of the job large enough for their formula; embedding and head are too small here."""
RINGS = {kind: CollectiveOptions("direct" if kind in ("ep", "dp_s3") else "ring") for kind in KINDS}


def simulated(part: JobSample) -> Times:
    """Simulate one step with packets of 32 KiB and the datagram transport."""
    n = len(part.ranks)
    load = operations_of(part).lower(np.arange(n))
    load.validate(n)
    given = {"tasks": load.tasks, "packets": PacketFormat(32768, 64, 64), "jit": False}
    engine = build(rails(n, [100], 100 * NS), load.flows, "datagram", DROP_TAIL, **given)
    states = run(engine).task_states()
    assert (states.end_ps >= 0).all()
    return Times(load, states.start_ps, states.end_ps)


def against_formula(job: Job, kinds: tuple[str, ...], **how: int) -> None:
    """Check that messages of some kinds take the time of the job's model, or up to 2 % more."""
    part = sample_job(job, {}, how=RINGS, **how)
    found = simulated(part)
    table = table_of(found.load)
    for kind in kinds:
        rows = found.rows(kind=kind)
        begin, end = found.span(rows)
        took, size = (end - begin).astype(float), table.size_bytes[rows]
        for message in (m for m in part.messages if (m.kind == kind and m.per in LARGE)):
            exchange = message.n if message.what == "send" and kind != "pp" else 1
            of_size = took[size == message.size_bytes * exchange]
            assert of_size.size
            # A rank may start before its peers and wait for them, so the longest time counts.
            assert of_size.max() == pytest.approx(message.time_ps(job), rel=0.02)
            assert of_size.max() >= message.time_ps(job)


def test_tensor_parallel_ring_matches_formula() -> None:
    layout = {"tp": 4, "sp": True, "regather": False, "global_batch": 1}
    job = small_job(layout, machine=FAST, layers=1, hidden=2560, sequence=2048)
    against_formula(job, ("tp",))


def test_context_parallel_ring_matches_formula() -> None:
    layout = {"cp": 3, "global_batch": 1}
    job = small_job(layout, machine=FAST, layers=1, hidden=640, sequence=3072)
    against_formula(job, ("cp",))


def test_expert_exchange_matches_formula() -> None:
    model = {"experts": 4, "active_experts": 2, "layers": 1, "hidden": 512, "sequence": 2048}
    job = small_job({"dp": 4, "ep": 4, "global_batch": 4}, machine=FAST, **model)
    against_formula(job, ("ep",))


def test_pipeline_transfer_matches_formula() -> None:
    job = small_job({"pp": 2, "global_batch": 2}, machine=FAST, hidden=1280, sequence=2048)
    against_formula(job, ("pp",))


@pytest.mark.parametrize(
    "accounting", ["hierarchical", pytest.param("paper", marks=pytest.mark.slow)]
)
def test_data_parallel_stages_match_formulas(accounting: str) -> None:
    layout = {"dp_levels": [2, 3, 2], "accounting": accounting, "global_batch": 12}
    job = small_job(layout, machine=FAST, layers=1, hidden=608, vocabulary=8)
    against_formula(job, ("dp_s1", "dp_s2", "dp_s3", "dp_s4", "dp_s5"))


def test_bubble_of_each_schedule_matches_formula() -> None:
    for name in SCHEDULES:
        # Transfers are one small packet, whose time is negligible.
        chunks = 2 if name == "interleaved" else 1
        layout = {"pp": 5, "schedule": name, "virtual_stages": chunks, "global_batch": 20}
        machine = FAST | {"matrix": {"peak": {"bf16": "10GFLOP/s"}}}
        job = small_job(layout, machine=machine, layers=20, hidden=64, sequence=64)
        m = 8
        part = sample_job(job, {"stages": 4, "micro_batches": m}, scale=1.0)
        found = simulated(part)
        layer = stage_times(job).layer
        f, b, w = (
            4 * one for one in (layer.forward_ps, layer.backward_input_ps, layer.backward_weight_ps)
        )
        bubble = bubble_ps(name, 4, f, b, w, chunks)
        if name.startswith("zb_"):  # the last stage of a single step begins 3 F after the first
            bubble = max(bubble, 3 * f)
        assert found.makespan - m * (f + b + w) == pytest.approx(bubble, rel=0.01)
