"""NDP: pulls and retransmissions that must not be lost."""

from types import SimpleNamespace

import numpy as np
from engine_runs import PACKET, TRIM, US, build, fabric_with, fat_tree, flow_table, run

from netsim.engine.compiling.bindings import Bindings
from netsim.engine.compiling.specialize import Specializer
from netsim.engine.kernels.handlers import env_of
from netsim.model.faults import LinkFault, combine
from netsim.transport import ACK, BLOCKED, NACK, PULL


def test_pull_that_overtakes_its_nack_is_not_lost():
    """All packets are sent and one is trimmed; its pull arrives first, over a shorter path."""
    flows = flow_table([(0, 4, 3 * 4096, 0)])
    engine = run(build(fat_tree(4, 2, "100Gbps"), flows, "ndp", TRIM, jit=False), 3 * US)
    hosts, links = engine.state.hosts, engine.state.links
    tx = hosts.tx[0]
    env = env_of(hosts.nics[0], hosts.pars[0].transport0, hosts, links)
    assert (tx.next_seq, tx.credit, tx.n_acked) == (3, 0, 0)
    # The handlers as the engine compiles them without tracing.
    plain = Specializer(Bindings({"TRACE": False}, engine.protocol.modules), "plain", jit=False)
    on_control = plain.copy(engine.protocol.handlers["on_control"])
    ready = plain.copy(engine.protocol.handlers["ready"])

    def control(kind: int, seq: int, pull_no: int = 0) -> None:
        """Deliver a control packet; the `seq` of a pull counts the trimmed packets it covers."""
        packet = SimpleNamespace(kind=kind, seq=seq, aux=pull_no)
        on_control(env, 3 * US, tx, packet)

    control(ACK, 0)
    control(PULL, 0, 1)
    control(ACK, 2)
    assert tx.credit == 0
    control(PULL, 1, 3)
    assert ready(env, 3 * US, tx) == BLOCKED
    assert tx.credit == 1  # one packet has neither ACK nor NACK yet
    control(NACK, 1)
    assert ready(env, 3 * US, tx) == 3 * US


def test_timeout_resends_the_lost_window_at_line_rate():
    """No packet of the first window arrives; all are sent again back to back."""
    network = fat_tree(4, 2, "100Gbps")
    down = LinkFault(np.array([0]), outages_ps=((0, 5 * US),))
    flows = flow_table([(0, 4, 10 * 4096, 0)])
    engine = run(
        build(network, flows, "ndp", TRIM, faults=combine([down], network.n_ports), jit=False)
    )
    states = engine.flow_states()
    rto_ps, last_ps = 4000 * US, 10 * 332_800
    assert states.retransmits.tolist() == [10]
    assert rto_ps + last_ps < states.done_ps[0] < rto_ps + last_ps + 10 * US


def test_returned_headers_are_sent_again_without_a_timeout() -> None:
    """The queue of headers has room for one, so most of an incast comes back; nothing is lost."""
    fabric = fabric_with(
        "trim_return", n_traffic_classes=2, queue_bytes=2 * PACKET, header_queue_bytes=64
    )
    flows = flow_table([(src, 7, 5 * 4096, 0) for src in range(4, 7)])
    engine = run(build(fat_tree(4, 2, "100Gbps"), flows, "ndp", fabric, jit=False))
    states = engine.flow_states()
    nics = np.asarray(engine.state.hosts.nics)
    counters = engine.link_counters()
    assert states.retransmits.sum() > 3
    assert nics["received_nacks"][4:7].sum() >= counters.trims.sum() > 3
    assert states.done_ps.max() < 15 * 332_800 + 60 * US
