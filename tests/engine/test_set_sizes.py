"""Flow sizes set by a program act as if the flow table had contained them."""

from pathlib import Path
from typing import Any

import numpy as np
from engine_runs import PACKET, fat_tree
from raises_input import raises, raises_input

from netsim.conformance.testbed import Testbed
from netsim.engine.compiling.declarations import check_setups, program_of
from netsim.engine.engine import Engine
from netsim.engine.kernels.layout import DONE, INF, RUNNING
from netsim.engine.simulation import Options, Simulation
from netsim.errors import RunError
from netsim.flows import RECEIVE, SEND, FlowTable, TaskTable, Workload
from netsim.model.fabric import PacketFormat, settle_sizes
from netsim.model.relays import RelayRule, relayed
from netsim.plugins import registry
from netsim.plugins.registry import PluginSpec

PROGRAM = '''
"""Send flows of the sizes in `wanted`, half of them later."""

from netsim.program import RECEIVE, SEND, log_row, set_size, set_timer, flow_bytes, start, task_at

PARAMS = []
TASK_STATE = ("wanted",)
TIMERS = 1
LOG = ("flow", "size", "known")


def flows(params, network, rng, context):
    raise NotImplementedError


def on_begin(env, now):
    send(env, now, 0)
    set_timer(env, now, 0, 3_000_000)


def on_timer(env, now, k):
    send(env, now, 1)


def send(env, now, parity):
    for index in range(env.host.n_tasks):
        task = task_at(env, index)
        if task.kind == SEND and task.flow % 2 == parity:
            set_size(env, task, 1)
            set_size(env, task, task.wanted)
            start(env, now, task)


def on_task(env, now, task):
    log_row(env, now, task.flow, flow_bytes(env, task), task.wanted)
'''

TRANSPORTS = [
    name
    for name in registry.names("transport")
    if not getattr(registry.find("transport", name).module, "CLOSED_FORM", False)
]

N_HOSTS = 4


def sizes(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return flow sizes to set, and larger ones for the flow table."""
    wanted = rng.integers(1, 6 * PACKET, 3 * N_HOSTS)
    wanted[:3] = 1, 4096, 4097
    return wanted, wanted * rng.integers(1, 6, wanted.size)


def load_of(folder: Path, wanted: np.ndarray, listed: np.ndarray) -> Workload:
    """Return flows between all pairs of hosts, whose sizes a program sets."""
    (folder / "sized.py").write_text(PROGRAM, "utf-8")
    plugin = registry.find("traffic", "sized.py", relative_to=folder)
    pairs = np.array([(a, b) for a in range(N_HOSTS) for b in range(N_HOSTS) if a != b])
    src, dst = pairs.T
    flow, n = np.arange(src.size), src.size
    given = {"flow": np.concatenate([flow, flow]), "deferred": np.repeat([True, False], n)}
    tasks = TaskTable(np.repeat([SEND, RECEIVE], n), np.concatenate([src, dst]), **given)
    state = {"wanted": np.concatenate([wanted, wanted])}
    load = Workload(FlowTable(src, dst, listed), tasks, state, log_rows=100)
    load = load.with_program(PluginSpec(plugin, {}), N_HOSTS)
    load.validate(N_HOSTS)
    return load


def done(transport: str | Path, load: Workload, **options: Any) -> Engine:
    """Run to the end, with the fabric that the transport requests."""
    testbed, packets = Testbed.of(transport), PacketFormat()
    network = fat_tree(2, 2, "100Gbps")
    fabric, of_ports = settle_sizes(testbed.fabric({}, network), network, packets)
    uses = (PluginSpec(testbed.plugin, testbed.params),)
    given = {"tasks": load.tasks, "program": load.program, "sizes": of_ports}
    simulation = Simulation(network, load.flows, fabric, packets, uses, seed=1, **given)
    engine = Engine(simulation, Options(**options))
    while (status := engine.advance(1000, INF, stop_when_done=True)) == RUNNING:
        pass
    assert status == DONE
    return engine


def test_set_sizes_equal_sizes_of_the_flow_table(tmp_path: Path) -> None:
    """State, counters and times of every transport agree."""
    for transport in TRANSPORTS:
        wanted, listed = sizes(np.random.default_rng(5))
        one = done(transport, load_of(tmp_path, wanted, listed), jit=False)
        other = done(transport, load_of(tmp_path, wanted, wanted), jit=False)
        assert one.digest() == other.digest()
        assert one.flow_states().size_bytes.tolist() == wanted.tolist()
        assert one.flow_states().received_bytes.tolist() == wanted.tolist()
        log = one.program_log()
        assert log is not None
        assert log["size"].size == 2 * wanted.size
        assert log["size"].tolist() == log["known"].tolist()


def test_setting_the_size_of_a_relayed_flow_is_an_error(tmp_path: Path) -> None:
    """Two racks with two rails: 0 to 3 is relayed by 1, 0 to 2 goes directly."""
    wanted, listed = sizes(np.random.default_rng(5))
    load, _ = relayed(load_of(tmp_path, wanted, listed), RelayRule(2))
    assert load.program is not None
    assert load.program.relayed.tolist() == [2, 4, 7, 9]
    with raises(RunError, "size"):
        done("datagram", load, jit=False)


SETUP = '''
"""Use the size of a flow before it starts."""

from netsim.transport import *
from helpers import longest

PARAMS = []
TX_STATE = ("next_seq", "most")


def setup(env, tx, rx):
    tx.most = {value}


def ready(env, now, tx):
    return now if tx.next_seq < tx.most else BLOCKED


def build_packet(env, now, tx, pkt):
    pkt.seq = tx.next_seq
    tx.next_seq += 1
'''


def test_transport_whose_setup_reads_sizes_is_rejected(tmp_path: Path) -> None:
    for value in "tx.n_packets", "rx.size_bytes", "longest(rx)", "packet_payload_bytes(env, tx, 0)":
        (tmp_path / "helpers.py").write_text("def longest(side):\n    return side.n_packets\n")
        file = tmp_path / "early.py"
        file.write_text(SETUP.format(value=value))
        load = load_of(tmp_path, *sizes(np.random.default_rng(5)))
        with raises_input("early.py:11", "sized.py"):
            done(file, load, jit=False)


def test_transport_whose_setup_reads_no_sizes_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "helpers.py").write_text("def longest(side):\n    return side.bdp_bytes\n")
    file = tmp_path / "early.py"
    file.write_text(SETUP.format(value="full_packet_bytes(env) + longest(tx)"))
    program = load_of(tmp_path, *sizes(np.random.default_rng(5))).program
    assert program is not None
    read = program_of(program.use)
    assert read.resizes
    check_setups(read, [PluginSpec(Testbed.of(file).plugin, {})])
    # With a program that sets no sizes, setup may read them.
    (tmp_path / "helpers.py").write_text("def longest(side):\n    return side.n_packets\n")
    server = PluginSpec(registry.find("traffic", "batch_server"), {})
    assert not program_of(server).resizes
    check_setups(program_of(server), [PluginSpec(Testbed.of(file).plugin, {})])
