"""In-network reduction: sends to and from the reduction unit of a switch, and their time."""

import numpy as np
import pytest
from engine_runs import DROP_TAIL, build, run
from part_of_load import operations_of
from raises_input import raises_input
from topology_of import topology_of

from netsim.model.workload import Workload
from netsim.network import Network
from netsim.workloads.collectives import ALGORITHMS, closed_form_ps, schedule
from netsim.workloads.collectives.steps import CollectiveOptions, Wire
from netsim.workloads.operations import Operations

US = 10**6
PAYLOAD, HEADER, RATE = 4096, 64, 100 * 10**9
PACKET_PS = (PAYLOAD + HEADER) * 80


def leaf(n: int, **given: object) -> Network:
    """Return one switch with n hosts and a reduction unit; each link has 1 us."""
    table = {"kind": "fat_tree", "hosts_per_leaf": n, "leaves": 1, "host_rate": "100Gbps"}
    return topology_of(
        {**table, "uplinks": 1, "fabric_rate": "1bps", "reduction_delay": "1us", **given}
    )


def lowered(
    what: str, size_bytes: int, how: CollectiveOptions, network: Network, hosts: list[int]
) -> Workload:
    ops = Operations(len(hosts))
    ops.collective(what, np.arange(len(hosts)), size_bytes, how)
    return ops.lower(hosts, reduction=network.reduction)


def simulated_ps(
    what: str, n: int, size_bytes: int, how: CollectiveOptions, network: Network
) -> int:
    load, units = lowered(what, size_bytes, how, network, list(range(n))), network.reduction
    assert units is not None
    load.validate(units.network.n_hosts)
    engine = build(units.network, load.flows, "datagram", DROP_TAIL, tasks=load.tasks, jit=False)
    return int(run(engine).task_states().end_ps.max())


def expected_ps(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> int:
    last_ps = PACKET_PS if size_bytes else (1 + HEADER) * 80
    return closed_form_ps(what, n, size_bytes, Wire(RATE, last_ps + 2 * US, PAYLOAD, HEADER), how)


@pytest.mark.parametrize("what", ALGORITHMS["in_network"].whats)
@pytest.mark.parametrize("n", [2, 5])
@pytest.mark.parametrize(("chunk_bytes", "latency_ps"), [(None, 0), (PAYLOAD, 300_000)])
def test_in_network_collective_matches_closed_form(
    what: str, n: int, chunk_bytes: int | None, latency_ps: int
) -> None:
    how = CollectiveOptions("in_network", chunk_bytes=chunk_bytes, latency_ps=latency_ps)
    size = 0 if what == "barrier" else 4 * n * PAYLOAD
    expected = expected_ps(what, n, size, how)
    found = simulated_ps(what, n, size, how, leaf(n))
    if what in ("all_reduce", "barrier"):
        assert found == expected
    else:
        assert expected - 2 * PACKET_PS <= found <= expected


def test_each_host_sends_and_receives_its_data_once() -> None:
    n, size = 6, 6 * 10_000
    once = {"all_reduce": (1, 1), "reduce_scatter": (1, 1 / n), "all_gather": (1 / n, 1 - 1 / n)}
    for what, (sent, received) in once.items():
        steps = schedule(what, n, size, CollectiveOptions("in_network", chunk_bytes=1000))
        assert (steps.n, steps.units) == (n + 1, 1)
        for side, share in ((steps.src, sent), (steps.dst, received)):
            by_position = np.bincount(side, steps.size_bytes, n + 1)[:n]
            assert by_position == pytest.approx(np.full(n, share * size)), what


def test_groups_use_the_unit_of_their_switch() -> None:
    network = leaf(4, leaves=2)
    ops = Operations(8)
    made = ops.collective(
        "all_reduce",
        np.arange(8).reshape(4, 2),
        8000,
        "in_network",
        stream=np.zeros((4, 2), int),
        label=[f"of {k}" for k in range(8)],
    )
    last = ops.compute(np.arange(8), US)
    ops.after(made.reshape(-1), last)
    load = ops.lower(np.arange(8)[::-1], reduction=network.reduction)
    collective = operations_of(load).group >= 0
    assert operations_of(load).host[collective].tolist() == list(range(8))[::-1]
    assert operations_of(load).label is not None
    assert [operations_of(load).label[k] for k in range(8)] == [f"of {k}" for k in range(8)]
    up = load.flows.dst >= 8
    assert (load.flows.dst[up] == 8 + load.flows.src[up] // 4).all()


def test_hosts_without_common_unit_are_rejected() -> None:
    network = leaf(2, leaves=2)
    with raises_input("0", "2"):
        lowered("all_reduce", 8000, CollectiveOptions("in_network"), network, [0, 1, 2])
    with raises_input():
        lowered(
            "all_reduce", 8000, CollectiveOptions("in_network"), leaf(2, reduction="none"), [0, 1]
        )
    with raises_input("in_network", "all_to_all"):
        lowered("all_to_all", 8000, CollectiveOptions("in_network"), network, [0, 1])
    # A group of one rank needs no unit.
    assert not len(lowered("all_reduce", 8000, CollectiveOptions("in_network"), network, [3]).flows)
