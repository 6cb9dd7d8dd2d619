"""The PFC watchdog: its reports of storms."""

import numpy as np
import polars as pl
import pytest
from engine_runs import PACKET, US, build, fabric_with, fat_tree, flow_table, run

import netsim
from netsim.engine.engine import Engine
from netsim.model.faults import LinkFault, combine
from netsim.reports.faults import storm_note, storm_table

POLL_PS = 5 * US


def stormy(watchdog: str) -> Engine:
    """Return a 500 us run in which two flows cross a spine. The flow to host 4 stops the spine: the
    link to that host has 100 Mbps from the start."""
    network = fat_tree(4, 2, "100Gbps")
    fabric = fabric_with(
        "pfc",
        xoff_bytes=4 * PACKET,
        xon_bytes=2 * PACKET,
        watchdog=watchdog,
        watchdog_poll=POLL_PS,
        watchdog_detect=2 * POLL_PS,
        watchdog_restore=100 * US,
    )
    slow = next(
        port
        for port in range(network.n_host_ports, network.n_ports)
        if network.port_peer[port] == 4
    )
    fault = LinkFault(np.array([slow]), rate_bps=100_000_000)
    flows = flow_table([(0, 4, 100 * 4096, 0), (1, 5, 100 * 4096, 0)])
    faults = combine([fault], network.n_ports)
    return run(build(network, flows, "roce", fabric, faults=faults, jit=False), 500 * US)


@pytest.mark.parametrize("watchdog", ["none", "alert", "drop", "forward"])
def test_storms_are_reported(watchdog: str) -> None:
    """The first storm begins at the first poll at which the class has been stuck for two."""
    engine = stormy(watchdog)
    table = storm_table(engine)
    if watchdog == "none":
        assert table is None
        assert storm_note(engine) == ""
        return
    assert table is not None
    assert (table["first_ps"] % POLL_PS == 0).all()
    assert (table["first_ps"] >= 3 * POLL_PS).all()
    assert (table["total_ps"] >= 100 * US - 4 * POLL_PS).all()  # the last pause came before
    drops = engine.link_counters().drops.sum()
    if watchdog == "alert":
        assert drops == 0 == table["dropped"].sum()
    if watchdog == "drop":
        assert drops == table["dropped"].sum() > 0
    assert set(table["port"][:1]) <= set(storm_note(engine).replace(",", "").split())


def test_why_tells_of_the_storm_that_a_flow_met(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow host pauses the spine; another flow waits there, and the spine's watchdog acts."""
    monkeypatch.setattr("netsim.engine.engine.jit_enabled", lambda: False)
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    experiment = {
        "topology": {"kind": "fat_tree", "hosts_per_leaf": 2, "leaves": 2, "spines": 1}
        | {"host_rate": "100Gbps"},
        "transport": "roce",
        "traffic": {"kind": "permutation", "size": "400kB"},
        "fabric": {
            "queue_discipline": "pfc",
            "xoff_bytes": "4pkt",
            "xon_bytes": "2pkt",
            "watchdog": "alert",
            "watchdog_poll": "5us",
            "watchdog_detect": "10us",
            "watchdog_restore": "50us",
        },
        "faults": {"slow": {"links": "* -> h3", "rate": "200Mbps"}},
    }
    results = netsim.run(experiment, threads=1, progress=False)
    ports = results.storms["port"].to_list()
    assert results.summary["storms"]["ports"] == ports
    assert "spine0:1" in ports
    (victim,) = results.flows.filter((pl.col("dst") == 2) & (pl.col("src") < 2))["flow"]
    text = results.why(flow=victim).text()
    assert "watchdog of spine0:1 noticed" in text
