"""RCCC: a single flow, incasts, oversubscription, and use together with NSCC's window.

The rules themselves are tested by the reference simulator (``tests/reference/rccc.py``).
"""

from dataclasses import replace

import pytest
from engine_runs import (
    US,
    acked_ps,
    assert_conserved,
    bdp_queues,
    build,
    counter,
    fat_tree,
    fct_ps,
    flow_table,
    run,
)

from netsim.engine.engine import Engine
from netsim.model.fabric import Fabric

PAYLOAD = 4096
PACKET_PS, HEADER_PS = 332_800, 5_120
PULL = 16_384


def no_marks_at_last_hop() -> Fabric:
    """A fabric whose ports to hosts do not mark."""
    fabric = bdp_queues()
    assert fabric.ecn is not None
    return replace(fabric, ecn=replace(fabric.ecn, last_hop=False))


def engine(flows: list[tuple[int, int, int, int]], leaves: int = 2, **params: object) -> Engine:
    network = fat_tree(8, leaves, "100Gbps")
    return build(network, flow_table(flows), "rccc", no_marks_at_last_hop(), params=params)


@pytest.mark.parametrize("packets", [1, 10, 45, 100])
def test_single_flow_takes_the_ideal_time(packets: int) -> None:
    """The first window lasts until the first pulls, which grant more than the link's rate."""
    one = run(engine([(0, 8, packets * PAYLOAD, 0)]))
    assert acked_ps(one)[0] == (packets + 3) * PACKET_PS + 8 * US + 4 * HEADER_PS
    assert one.control_counts()["nacks"] == 0


def test_receiver_sends_pulls_at_their_rate() -> None:
    """Each pull grants 16 KiB, so one goes per time of 16 KiB at 0.99 of the link rate."""
    one = engine([(0, 8, 4000 * PAYLOAD, 0)])
    run(one, 200 * US)
    before = one.control_counts()["pulls"]
    run(one, 600 * US)
    assert one.control_counts()["pulls"] - before == pytest.approx(400 * US / gap_ps(), abs=1)


def gap_ps() -> float:
    return PULL * 80 / 0.99


@pytest.mark.parametrize("n", [2, 7])
def test_incast_keeps_the_link_busy_and_shares_it(n: int) -> None:
    """All flows share the link equally, to within a pull and the trimmed packets."""
    size = 150 * PAYLOAD
    one = run(engine([(h, 8, size, 0) for h in range(n)]))
    assert_conserved(one)
    assert (
        one.control_counts()["nacks"]
        == counter(one, "trims")
        == one.flow_states().retransmits.sum()
    )
    paced = 150 - 28  # the first window is sent without pulls
    last = n * (28 + paced / 0.99) * PACKET_PS + 4 * US
    assert fct_ps(one).max() == pytest.approx(last, rel=0.02)
    assert fct_ps(one).min() > 0.95 * fct_ps(one).max()


@pytest.mark.slow
def test_pull_rate_adapts_to_oversubscription() -> None:
    """Two uplinks serve eight hosts that all send to the other leaf: a quarter of the rate."""
    network = fat_tree(8, 2, "100Gbps", spines=2)
    flows = flow_table([(h, 8 + h, 2000 * PAYLOAD, 0) for h in range(8)])
    runs = []
    for ratio in (1.0, 4.0):
        params = {"oversubscription": ratio, "paths": "oblivious"}
        one = build(network, flows, "rccc", no_marks_at_last_hop(), params=params)
        run(one, 1000 * US)
        runs.append(one)
    plain, adapted = (counter(one, "trims") for one in runs)
    assert adapted < plain / 4
    rate = 1 - runs[1].state.hosts.nics["withheld"][8:]
    assert rate.min() > 0.9 / 4 - 1e-9
    assert rate.mean() < 0.3
    received = runs[1].flow_states().received_bytes.sum() / PAYLOAD
    assert received == pytest.approx(1000 * US / PACKET_PS * 2, rel=0.1)


@pytest.mark.slow
def test_sender_window_does_not_delay_the_last_flow() -> None:
    """With ``sender_window`` NSCC's window shrinks, but the last flow ends at the same time."""
    flows = [(h, 8, 200 * PAYLOAD, 0) for h in range(7)]
    alone, both = run(engine(flows)), run(engine(flows, sender_window=True))
    assert (both.state.hosts.tx["cwnd_bytes"] < both.state.hosts.tx["largest_bytes"]).any()
    assert (alone.state.hosts.tx["cwnd_bytes"] == alone.state.hosts.tx["largest_bytes"]).all()
    assert fct_ps(both).max() == pytest.approx(fct_ps(alone).max(), rel=0.03)
