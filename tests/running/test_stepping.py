"""Runs that Python advances, and controllers of traffic patterns."""

from pathlib import Path

import pytest
from raises_input import raises_input

import netsim

PACED = '''"""Datagrams at a rate that a controller sets."""

from netsim.params import Param
from netsim.transport import deliver, finish, serialization_ps, wire_bytes
from netsim.transport import BLOCKED

PARAMS = [Param("gap", "time", "1us", "between two packets")]
TX_STATE = ("next_seq", "next_ps", "extra_ps")
RELIABLE = False


def ready(env, now, tx):
    return tx.next_ps if tx.next_seq < tx.n_packets else BLOCKED


def build_packet(env, now, tx, pkt):
    pkt.seq = tx.next_seq
    tx.next_seq += 1
    tx.next_ps = now + env.par.gap + tx.extra_ps
    if tx.next_seq == tx.n_packets:
        finish(env, now, tx)


def on_data(env, now, rx, pkt):
    deliver(env, now, rx, int(pkt.size_bytes) - env.par.header_bytes)
'''

CONTROL = '''"""An incast whose senders slow down while the queue is long."""

from netsim.params import Param
from netsim.flows import FlowTable

PARAMS = [Param("control_period", "time", "5us", "between two looks at the queue")]


def flows(network, params, load, rng):
    return FlowTable([1, 2, 3], [0, 0, 0], [200_000] * 3)


def control(run, params):
    (port,) = run.links("leaf0 -> h0")
    held = run.counters().queue_bytes[port]
    run.set("extra_ps", 2_000_000 if held > 20_000 else 0)
'''


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    monkeypatch.setattr("netsim.engine.engine.jit_enabled", lambda: False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "paced.py").write_text(PACED, "utf-8")
    (tmp_path / "control.py").write_text(CONTROL, "utf-8")
    return {
        "topology": {"kind": "fat_tree", "hosts_per_leaf": 4, "leaves": 2, "host_rate": "100Gbps"},
        "transport": "./paced.py",
        "fabric": {"queue_bytes": "10MB"},
        "traffic": {"kind": "incast", "fan_in": 3, "size": "200kB"},
    }


def test_steps_alone_do_not_change_a_run(experiment: dict[str, object]) -> None:
    whole = netsim.run(experiment, threads=1, progress=False)
    run = netsim.steps(experiment)
    times = []
    while run.step(run.now_ps + 7_000_001):
        times.append(run.now_ps)
    assert times == [7_000_001 * k for k in range(1, len(times) + 1)]
    assert len(times) > 5
    result = run.finish()
    assert result.summary["hash"] == whole.summary["hash"]
    assert result.summary["simulated_ps"] == whole.summary["simulated_ps"]
    assert run.reason == "finished"
    assert not run.step("1s")


def test_a_loop_changes_the_rate_by_the_queue(experiment: dict[str, object]) -> None:
    """Senders at 3 x 33 Gbps fill the queue; slowed by 2 us per packet, they send 32 Gbps."""
    free, held = netsim.steps(experiment), netsim.steps(experiment)
    free.set("gap", 0)
    held.set("gap", 0)
    peaks = {free: 0, held: 0}
    for run in (free, held):
        for at in range(1, 10):
            run.step(f"{5 * at}us")
            queue = int(run.counters().queue_bytes.max())
            peaks[run] = max(peaks[run], queue)
            if run is held:
                run.set("extra_ps", 2_000_000 if queue > 20_000 else 0)
    assert 20_000 < peaks[held] < peaks[free] / 2
    assert (held.field("extra_ps") >= 0).all()
    with raises_input("unknown field", "rate"):
        held.set("rate", 1)


def test_a_traffic_pattern_controls_its_senders(experiment: dict[str, object]) -> None:
    """The function `control` does what the loop above does."""
    given = {**experiment, "transport": {"kind": "./paced.py", "gap": "0s"}}
    given["traffic"] = {"kind": "./control.py"}
    controlled = netsim.run(given, threads=1, progress=False)
    given["traffic"] = {"kind": "./control.py", "control_period": "1ms"}
    late = netsim.run(given, threads=1, progress=False)
    port = controlled.links.filter(controlled.links["to_name"] == "h0")
    same = late.links.filter(late.links["to_name"] == "h0")
    assert port["max_queue_bytes"].max() < same["max_queue_bytes"].max() / 2
