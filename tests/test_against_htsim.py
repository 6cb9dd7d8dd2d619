"""Completion times of htsim on the same networks, with the same traffic and conventions.

The figures were measured with csg-htsim (release build): two-tier fat trees without
oversubscription, 1 us per link and no switch latency, 4096 bytes of payload in packets of
4160 bytes, control packets of 64 bytes, one acknowledgment per packet. All flows start at 0.
A flow is complete when the acknowledgment that covers it is back at its sender; 2 MB are 489
whole packets. ``data/permutation_<n>.txt`` holds to whom each host sends.

htsim's NDP has one outcome, so values are compared. Its RoCE draws its hash anew in each run, so
the means over several of our seeds are held against the range of its runs. Of single-path NDP
there is one draw of the hash: ours are compared where the busiest link has as many flows.
"""

from __future__ import annotations

import numpy as np
import pytest
from engine_runs import (
    LOSSLESS,
    PACKET,
    TRIM,
    US,
    acked_ps,
    assert_conserved,
    build,
    counter,
    fabric_with,
    fat_tree,
    flow_table,
    run,
)
from htsim_permutation import FLOW_BYTES, TREES, flows_by_link, permutation

from netsim.engine.engine import Engine
from netsim.model.fabric import Fabric


def trim(packets: int, load_balancing: str = "spray_permutation") -> Fabric:
    """NDP's fabric with queues for ``packets`` data packets."""
    return fabric_with(
        "trim",
        load_balancing=load_balancing,
        n_traffic_classes=2,
        queue_bytes=packets * PACKET,
        header_queue_bytes=TRIM.queue.params["header_queue_bytes"],
    )


def lossless(xoff: int, xon: int) -> Fabric:
    """PFC with thresholds in packets."""
    return fabric_with("lossless", xoff_bytes=xoff * PACKET, xon_bytes=xon * PACKET)


def run_permutation(
    n_hosts: int, transport: str, fabric: Fabric, seed: int, window: int | None = None
) -> tuple[Engine, np.ndarray]:
    """The finished engine, and acknowledged times in us, sorted."""
    network = fat_tree(*TREES[n_hosts])
    flows = flow_table([(s, d, FLOW_BYTES, 0) for s, d in enumerate(permutation(n_hosts))])
    params = {"initial_window": window} if window else {}
    engine = run(build(network, flows, transport, fabric, seed=seed, params=params))
    assert_conserved(engine)
    times = acked_ps(engine)
    assert (times > 0).all()
    return engine, np.sort(times) / US


INCAST = [
    122,
    35,
    60,
    105,
    20,
    75,
    98,
    27,
    6,
    50,
    22,
    52,
    40,
    54,
    44,
    99,
    51,
    8,
    66,
    65,
    59,
    21,
    67,
    7,
    12,
    43,
    120,
    61,
    31,
    14,
    64,
    95,
]
"""Who sends 1 MB to host 0, in the order of the flows."""


@pytest.mark.parametrize(
    ("n_hosts", "queue", "window", "median_us", "max_us"),
    [(128, 35, 50, 177.574, 178.348), (1024, 200, 300, 29.339, 29.688)],
)
def test_ndp(n_hosts: int, queue: int, window: int, median_us: float, max_us: float) -> None:
    """Each packet by itself on a random permutation of the paths."""
    for seed in (1, 2):
        engine, times = run_permutation(n_hosts, "ndp", trim(queue), seed, window)
        assert np.median(times) == pytest.approx(median_us, rel=0.03)
        assert times[-1] == pytest.approx(max_us, rel=0.03)
        assert counter(engine, "trims") == 0


def test_ndp_on_single_paths() -> None:
    """One draw of htsim's: median 343.547 us (two flows on a link), maximum 686.39 us (four).

    Compared with draws of ours in which four flows at most are on a link, and that only down from
    the spines. Where four meet on the first link that they share, the median is the same, but
    the maximum is about 9 % higher on average: the headers of trimmed packets, three for each
    packet that gets through, take 4 to 6 % of that link, and some of what gets through is
    trimmed further on.
    """
    medians, longest = [], []
    for seed in range(1, 60):
        up, down = flows_by_link(128, seed)
        if max(down.values()) == 4 and max(up.values()) < 4:
            _, times = run_permutation(128, "ndp", trim(35, "ecmp"), seed, 50)
            medians.append(np.median(times))
            longest.append(times[-1])
    assert len(longest) == 10
    assert np.mean(medians) == pytest.approx(343.547, rel=0.03)
    assert np.mean(longest) == pytest.approx(686.39, rel=0.03)


@pytest.mark.parametrize(
    ("n_hosts", "xoff", "xon", "medians_us", "max_us"),
    [
        (128, 15, 12, (342.5, 352.8), (669.0, 764.0)),
        (1024, 120, 96, (55.01, 56.63), (110.8, 150.8)),
    ],
)
def test_roce(
    n_hosts: int,
    xoff: int,
    xon: int,
    medians_us: tuple[float, float],
    max_us: tuple[float, float],
) -> None:
    """One path per flow, PFC, no congestion control; ranges over the runs of htsim."""
    medians, longest = [], []
    for seed in range(1, 11):
        engine, times = run_permutation(n_hosts, "roce", lossless(xoff, xon), seed)
        medians.append(np.median(times))
        longest.append(times[-1])
        assert counter(engine, "drops") == 0
    for ours, (low, high) in ((medians, medians_us), (longest, max_us)):
        assert 0.9 * low <= np.mean(ours) <= 1.1 * high


def test_roce_incast() -> None:
    """32 to 1 with PFC: htsim's last flow ends at 2615.51 us, half of them by 2358.

    Our last one too is bound by the receiver's link. Which flows end early is decided by how PFC
    shares the link among them, and by the draw of the hash.
    """
    network = fat_tree(*TREES[128])
    flows = flow_table([(host, 0, 245 * 4096, 0) for host in INCAST])
    engine = run(build(network, flows, "roce", LOSSLESS))
    times = acked_ps(engine) / US
    assert times.max() == pytest.approx(2615.51, rel=0.01)
    assert np.median(times) == pytest.approx(2358, rel=0.1)
    assert counter(engine, "drops") == 0
