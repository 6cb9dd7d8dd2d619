"""Tests of my_traffic: pytest test_my_traffic.py

To install pytest: pip install pytest
"""

from pathlib import Path

import numpy as np
import pytest

from netsim.conformance import Testbed, TrafficTestbed, check, failures
from netsim.conformance.networks import star
from netsim.flows import FlowTable

TRAFFIC = Path(__file__).with_name("my_traffic.py")


def flows(n_hosts: int, **params: object) -> FlowTable:
    return TrafficTestbed.of(TRAFFIC, settings=params).flows(star(n_hosts))


def test_conformance() -> None:
    assert not failures(check(TRAFFIC))


def test_share_of_flows_to_the_partner() -> None:
    """A flow that leaves its pair goes to any of the seven other hosts, the partner included."""
    table = flows(8, away=0.7, duration="10ms")
    partners = float(np.mean(table.dst == table.src ^ 1))
    assert partners == pytest.approx(0.3 + 0.7 / 7, abs=0.02)
    assert set(table.dst[table.src == 3].tolist()) == {0, 1, 2, 4, 5, 6, 7}


def test_single_packets_do_not_wait_at_low_load() -> None:
    """One packet at 100 Gbps, on two links of 1 us each."""
    table = flows(2, size="4096B", load=0.001, duration="1ms")
    run = Testbed.of("datagram").run(table, star(2))
    assert np.median(run.fct_ps()) == 2 * (4160 * 80 + 1_000_000)
