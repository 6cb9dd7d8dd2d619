"""Tests of my_queue: pytest test_my_queue.py

To install pytest: pip install pytest
"""

from pathlib import Path

from netsim.conformance import QueueTestbed, check, failures
from netsim.conformance.networks import star
from netsim.flows import FlowTable

QUEUE = Path(__file__).with_name("my_queue.py")
PACKET_PS = (4096 + 64) * 80  # at 100 Gbps, 80 ps a byte


def test_conformance() -> None:
    assert not failures(check(QUEUE))


def test_two_classes_share_a_link_equally() -> None:
    """Two hosts send ten packets each to a third through one switch, in two classes.

    The first packets reach the switch after one packet time and 1 us. Then the link to the third
    host alternates between the classes, until it has sent twenty packets.
    """
    flows = FlowTable(src=[0, 1], dst=[2, 2], size_bytes=10 * 4096, cls=[0, 1])
    run = QueueTestbed.of(QUEUE, settings={"n_traffic_classes": 2}).run(flows, star(3))
    last_ps = 21 * PACKET_PS + 2 * 1_000_000
    assert sorted(run.fct_ps().tolist()) == [last_ps - PACKET_PS, last_ps]
