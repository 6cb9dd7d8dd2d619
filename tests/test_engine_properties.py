"""Properties of every network, traffic and fabric, with the engine as plain Python."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from engine_runs import (
    US,
    acked_ps,
    assert_conserved,
    build,
    changed,
    counter,
    fabric_with,
    fat_tree,
    fct_ps,
    flow_table,
    run,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim.engine.engine import Engine
from netsim.engine.kernels.layout import INF
from netsim.engine.state_views import Status
from netsim.model.fabric import Ecn, Fabric, PacketFormat, routing_spec
from netsim.model.flows import FlowTable
from netsim.model.ideal import ideal_times
from netsim.model.network import Network
from netsim.plugins import registry

RATES = ("10Gbps", "40Gbps", "100Gbps", "400Gbps")
EXAMPLES = 25


@dataclass(frozen=True)
class Setting:
    """Everything that defines a run."""

    network: Network
    flows: FlowTable
    transport: str
    fabric: Fabric
    packets: PacketFormat
    params: dict[str, Any]
    seed: int

    def engine(self, **options: Any) -> Engine:
        """Return an engine at time 0."""
        options = {"seed": self.seed, "params": self.params, "packets": self.packets, **options}
        return build(self.network, self.flows, self.transport, self.fabric, jit=False, **options)


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """Small fat trees of any rates and latencies; all shortest paths of a pair are equivalent."""
    return fat_tree(
        draw(st.integers(2, 4)),
        draw(st.integers(1, 3)),
        draw(st.sampled_from(RATES)),
        spines=draw(st.integers(1, 3)),
        fabric_rate=draw(st.sampled_from(RATES)),
        oversubscription=None,
        link_latency=f"{draw(st.integers(1, 3000))}ns",
        switch_latency=f"{draw(st.integers(0, 500))}ns",
    )


@st.composite
def settings_of_runs(draw: st.DrawFn, *, lossy: bool) -> Setting:
    """Lossy settings may lose packets permanently; in all others every flow must arrive."""
    network = draw(networks())
    packets = PacketFormat(payload_bytes=draw(st.sampled_from((512, 1500, 4096))))
    full = packets.data_bytes
    hosts = st.integers(0, network.n_hosts - 1)
    size = st.integers(1, 30 * packets.payload_bytes)
    pairs = st.tuples(hosts, hosts, size, st.integers(0, 20 * US)).filter(lambda f: f[0] != f[1])
    flows = flow_table(draw(st.lists(pairs, min_size=1, max_size=8)))
    transport = draw(st.sampled_from(("datagram", "roce", "ndp")))
    models = {"datagram": ("drop_tail", "lossless"), "roce": ("lossless",), "ndp": ("trim",)}
    model = draw(st.sampled_from(("drop_tail",) if lossy else models[transport]))
    xoff = draw(st.integers(0, 10)) * full
    ecn = Ecn(full, 4 * full, 0.5, draw(st.sampled_from(("enqueue", "dequeue"))))
    # Go-back-N treats reordered packets as lost and sends them repeatedly.
    spread = ("ecmp",) if transport == "roce" else registry.names("routing")
    routing = routing_spec(draw(st.sampled_from(spread)))
    if "publish_delay" in routing.params:  # longer than any cable drawn above
        routing = replace(routing, params={**routing.params, "publish_delay": 4 * US})
    buffers = {
        "queue_bytes": draw(st.integers(1, 10)) * full if transport == "ndp" or lossy else 10**9,
        "header_queue_bytes": 10**9,
        "xoff_bytes": xoff,
        "xon_bytes": max(1, xoff // 2),
        "shared_buffer_bytes": draw(st.sampled_from((None, 50 * full))),
    }
    fabric = fabric_with(
        model,
        routing=routing,
        n_traffic_classes=2 if transport == "ndp" else draw(st.integers(1, 3)),
        ecn=draw(st.sampled_from((None, ecn))),
    )
    fabric = changed(fabric, **buffers)
    params: dict[str, Any] = {"rto": "200us"} if transport != "datagram" else {}
    if transport == "roce":
        params["ack_every"] = draw(st.integers(1, 3))
    return Setting(network, flows, transport, fabric, packets, params, draw(st.integers(0, 2**31)))


@given(settings_of_runs(lossy=False))
@settings(max_examples=EXAMPLES)
def test_every_flow_arrives_no_earlier_than_ideal(setting: Setting) -> None:
    engine = run(setting.engine())
    assert_conserved(engine)
    assert counter(engine, "drops") == 0
    sprayed = not setting.fabric.one_path or setting.transport == "ndp"
    ideal = ideal_times(setting.network, setting.flows, setting.packets, multipath=sprayed)
    assert (fct_ps(engine) >= ideal.fct_ps).all()
    if setting.transport != "datagram":
        assert (acked_ps(engine) >= fct_ps(engine)).all()
        assert (acked_ps(engine) >= ideal.acked_ps).all()
    got = engine.flow_states().received_bytes
    assert np.array_equal(got, setting.flows.size_bytes)


@given(settings_of_runs(lossy=True), st.integers(0, 300 * US))
@settings(max_examples=EXAMPLES)
def test_packets_are_conserved_at_any_time(setting: Setting, until_ps: int) -> None:
    """Every sent packet is accounted for, with drops and when stopped at any time."""
    engine = run(setting.engine(), until_ps)
    assert_conserved(engine)
    run(engine, 2000 * US)
    assert_conserved(engine)
    # A port sends at most what its rate allows.
    links, network = engine.state.links, setting.network
    sent = np.array(links.queues["sent_bytes"]).reshape(network.n_ports, -1).sum(axis=1)
    busy_until = np.array(links.ports["free_at"]) / 1e12
    assert (sent * 8 <= network.port_rate_bps * busy_until * (1 + 1e-9)).all()


@given(settings_of_runs(lossy=False), st.integers(2, 50))
@settings(max_examples=EXAMPLES // 2)
def test_window_length_does_not_change_results(setting: Setting, parts: int) -> None:
    """Shorter windows give the same events and the same end: one lookahead after the last flow."""
    shorter = setting.network.lookahead_ps // parts + 1
    whole, other = setting.engine(), setting.engine(window_ps=shorter)
    for stop_when_done in (True, False):
        for engine in (whole, other):
            while engine.advance(20, INF, stop_when_done=stop_when_done) is Status.RUNNING:
                pass
        assert other.now_ps == whole.now_ps
        assert other.digest() == whole.digest()
        links = vars(other.link_counters()), vars(whole.link_counters())
        assert all(np.array_equal(links[0][name], links[1][name]) for name in links[0])
        if stop_when_done:
            flows = whole.flow_states()
            done_ps = max(flows.done_ps.max(), flows.acked_ps.max())
            assert whole.now_ps == done_ps + setting.network.lookahead_ps
