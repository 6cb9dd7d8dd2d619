"""wan_fec: admission, pacing and forward error correction across a wide area."""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
import pytest
from engine_runs import (
    NS,
    PACKET,
    acked_ps,
    assert_conserved,
    build,
    counter,
    fct_ps,
    flow_table,
    resolve,
    run,
)

from netsim import registry
from netsim.engine.engine import Engine
from netsim.engine.layout import INF, RUNNING
from netsim.fabric import Fabric
from netsim.network import Network

G = 10**9
MS = 10**9
PAYLOAD = 4096
ONE_WAY = 30 * MS + 20_000 * NS
"""Propagation of the dumbbell."""


def dumbbell(hosts: int, host_rate: str = "10Gbps", bottleneck_rate: str = "10Gbps") -> Network:
    plugin = registry.find("topology", "dumbbell")
    given = {"hosts": hosts, "host_rate": host_rate, "bottleneck_rate": bottleneck_rate}
    return plugin.module.build(resolve(plugin, given))


def wan(network: Network, flows: list[tuple[int, int, int, int]], **given: Any) -> Engine:
    """An engine with wan_fec; ``queue`` is the switches' buffer in packets."""
    fabric = Fabric(queue_bytes=given.pop("queue", 100) * PACKET)
    options = {name: given.pop(name) for name in ("faults", "seed") if name in given}
    return build(network, flow_table(flows), "wan_fec", fabric, params=given, **options)


def block_failure(k: int, m: int, p: float) -> float:
    """The docstring's formula: more than m of the k + m packets are lost."""
    return sum(comb(k + m, i) * p**i * (1 - p) ** (k + m - i) for i in range(m + 1, k + m + 1))


def test_design_loss() -> None:
    """The defaults and presets keep a block's failure below 1e-6 at their loss, with one packet
    fewer they would not; and the code fits into 255 symbols."""
    plugin = registry.find("transport", "wan_fec")
    default = {p.name: p.default for p in plugin.params}
    assert block_failure(default["k"], default["m"], 1e-3) == pytest.approx(8.1e-8, rel=0.01)
    for preset, loss in (("loss_0.1%", 1e-3), ("loss_1%", 1e-2)):
        k, m = (plugin.presets[preset][name] for name in ("k", "m"))
        assert block_failure(k, m, loss) < 1e-6 < block_failure(k, m - 1, loss)
        assert k + m <= 255


@pytest.mark.parametrize(("k", "m", "interleave"), [(200, 5, 1), (16, 3, 4), (7, 0, 2)])
def test_lone_flow(k: int, m: int, interleave: int) -> None:
    """Data is paced with the parity of all groups before the last in between."""
    n = 1000
    engine = run(
        wan(dumbbell(1), [(0, 1, n * PAYLOAD, 0)], rate="5Gbps", k=k, m=m, interleave=interleave)
    )
    groups_before = (n - 1) // (k * interleave)
    sent_before = n - 1 + groups_before * m * interleave
    gap, hop = PACKET * 8_000 // 5, PACKET * 800
    done = sent_before * gap + 3 * hop + ONE_WAY
    assert fct_ps(engine).tolist() == [done]
    assert acked_ps(engine).tolist() == [done + 3 * 64 * 800 + ONE_WAY]
    blocks = (
        -(-n // k)
        if interleave == 1
        else groups_before * interleave + min(interleave, n - groups_before * k * interleave)
    )
    assert engine.state.ends.tx["sent_packets"].tolist() == [n + m * blocks]
    assert_conserved(engine)


def test_flows_wait_for_their_rate() -> None:
    """Of six flows of 4 Gbps two fit into 10 Gbps; each later one starts when one is done."""
    n = 500
    flows = [(0, 2 + i % 2, n * PAYLOAD, 0) for i in range(6)]
    engine = wan(dumbbell(2), flows, rate="4Gbps")
    hosts = engine.state.ends.hosts
    most = 0
    while engine.advance(1, INF) == RUNNING:
        most = max(most, int(hosts["admitted_bps"].max()))
    assert most == 8 * G
    gap, n_parity = PACKET * 2_000, 5 * 3
    rounds = (n + n_parity) * gap
    first = fct_ps(engine)[0]
    for pair in range(3):
        for flow in (2 * pair, 2 * pair + 1):
            late = fct_ps(engine)[flow] - first - pair * rounds
            assert 0 <= late <= 2 * PACKET * 800
    assert int(hosts["admitted_bps"].sum()) == 0
    assert int(hosts["has_waiting"].sum()) == 0


def test_no_loss_where_the_rates_fit() -> None:
    """Eight hosts' capacities are the bottleneck's rate: its queue stays at two packets a flow."""
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 600 * PAYLOAD, 80)
    starts = rng.integers(0, 2 * MS, 80)
    flows = [
        (i % 8, 8 + i % 8, int(size), int(start))
        for i, (size, start) in enumerate(zip(sizes, starts, strict=True))
    ]
    network = dumbbell(8, "10Gbps", "10Gbps")
    engine = run(wan(network, flows, rate="625Mbps", capacity="1.25Gbps", queue=2 * 8 * 2))
    assert counter(engine, "drops") == 0
    assert (fct_ps(engine) > 0).all()
    sent = int(engine.state.ends.hosts["sent_bytes"][:8].sum())
    assert sent * 8 * 10**12 / (10 * G) > 0.5 * float(fct_ps(engine).max() - ONE_WAY)


@pytest.mark.parametrize("interleave", [1, 4])
@pytest.mark.parametrize(("bottleneck", "least_loss"), [("4Gbps", 0.15), ("1Gbps", 0.7)])
def test_completes_far_beyond_the_design_loss(
    bottleneck: str, least_loss: float, interleave: int
) -> None:
    """A bottleneck that is too small for the admitted rate loses a large part; all arrives."""
    n = 700
    network = dumbbell(1, bottleneck_rate=bottleneck)
    flows = [(0, 1, n * PAYLOAD, 0)]
    engine = run(wan(network, flows, rate="5Gbps", queue=4, interleave=interleave))
    sent = int(engine.state.ends.tx["sent_packets"][0])
    assert counter(engine, "drops") > least_loss * sent
    assert fct_ps(engine)[0] > 2 * ONE_WAY
    assert int(engine.state.ends.hosts["admitted_bps"].sum()) == 0
    assert_conserved(engine)
