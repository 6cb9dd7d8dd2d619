"""RoCE: a NIC that places packets in any order."""

from engine_runs import PACKET, US, build, fabric_with, fat_tree, fct_ps, flow_table, run

from netsim.model.fabric import routing_spec

PAYLOAD = 4096


def test_nic_that_places_packets_in_any_order_resends_none() -> None:
    """Hosts of a leaf spray 60 packets each over links of different loads. Without placement, they
    go back at each gap; with it, the last packet takes no longer than the fullest queue."""
    network = fat_tree(4, 2, "100Gbps")
    flows = flow_table([(k, 4 + k, 60 * PAYLOAD, 0) for k in range(4)])
    fabric = fabric_with(queue_bytes=10**12, routing=routing_spec("spray_random"))
    resent, last = {}, {}
    for n in (0, 1000):
        params = {"reorder_packets": n}
        engine = run(build(network, flows, "roce", fabric, params=params, jit=False))
        resent[n] = int(engine.flow_states().retransmits.sum())
        last[n] = int(fct_ps(engine).max())
        queued = int(engine.link_counters().max_queue_bytes.max())
    assert resent[0] > 30
    assert resent[1000] == 0
    alone = 63 * PACKET * 80 + 4 * US
    assert alone <= last[1000] <= alone + 2 * queued * 80 < last[0]


def test_gap_is_reported_once_it_is_long() -> None:
    """A short flow overflows a queue of 5 packets. A NIC that reports gaps after 2 packets recovers
    the long flow before the timeout, and one that reports none only then."""
    network = fat_tree(4, 2, "100Gbps")
    flows = flow_table([(0, 4, 60 * PAYLOAD, 0), (1, 4, 14 * PAYLOAD, 0)])
    fabric = fabric_with(queue_bytes=5 * PACKET)
    last = {}
    for n in (2, 10**6):
        params = {"reorder_packets": n, "rto": "500us"}
        engine = run(build(network, flows, "roce", fabric, params=params, jit=False))
        assert int(engine.link_counters().drops.sum()) > 0
        last[n] = int(fct_ps(engine)[0])
    assert last[2] < 500 * US < last[10**6]
