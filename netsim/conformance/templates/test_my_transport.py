"""Tests of my_transport: pytest test_my_transport.py

To install pytest: pip install pytest
"""

from pathlib import Path

from netsim.conformance import Testbed, check, failures
from netsim.flows import FlowTable

TRANSPORT = Path(__file__).with_name("my_transport.py")


def test_conformance() -> None:
    assert not failures(check(TRANSPORT))


def test_fct_of_a_flow_within_the_first_window() -> None:
    """Ten packets leave one after the other and cross four links of 100 Gbps and 1 us."""
    flow = FlowTable(src=[0], dst=[7], size_bytes=10 * 4096)
    run = Testbed.of(TRANSPORT, settings={"initial_window": 10}).run(flow)
    packet_ps = (4096 + 64) * 80  # 80 ps a byte
    assert run.fct_ps().tolist() == [10 * packet_ps + 3 * packet_ps + 4 * 1_000_000]
