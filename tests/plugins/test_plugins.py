"""A custom transport, topology and traffic pattern need one file each."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from netsim.results import load

TRANSPORT = '''
"""Send a packet when the last one is acknowledged."""

from netsim.params import Param
from netsim.transport import ACK, BLOCKED, deliver, finish, send

PARAMS = [Param("window", "count", 1, "packets sent ahead of the acknowledgments", minimum=1)]
FABRIC = {"queue_discipline": "drop_tail", "queue_bytes": "20pkt"}
TX_STATE = ("next_seq", "acked")


def ready(env, now, tx):
    if tx.next_seq < tx.n_packets and tx.next_seq - tx.acked < env.par.window:
        return now
    return BLOCKED


def build_packet(env, now, tx, pkt):
    pkt.seq = tx.next_seq
    tx.next_seq += 1


def on_data(env, now, rx, pkt):
    deliver(env, now, rx, int(pkt.size_bytes) - env.par.header_bytes)
    send(env, rx, ACK, int(pkt.seq), 0, 0)


def on_control(env, now, tx, pkt):
    tx.acked += 1
    if tx.acked == tx.n_packets:
        finish(env, now, tx)
'''

TOPOLOGY = '''
"""Switches in a row, with one host each."""

from netsim.model.builder import NetworkBuilder
from netsim.params import Param

PARAMS = [
    Param("switches", "count", 3, "switches in the row", minimum=1),
    Param("rate", "rate", "100Gbps", "rate of all links"),
    Param("latency", "time", "1us", "propagation of each cable"),
]


def build(params):
    builder = NetworkBuilder()
    n = params["switches"]
    hosts = builder.add_hosts(n)
    row = [builder.add_switch(f"s{i}") for i in range(n)]
    for i in range(n):
        builder.cable(hosts[i], row[i], rate_bps=params["rate"], delay_ps=params["latency"])
    for a, b in zip(row, row[1:]):
        builder.cable(a, b, rate_bps=params["rate"], delay_ps=params["latency"])
    return builder.build("row")
'''

TRAFFIC = '''
"""Every host sends to the last one, one after the other."""

import numpy as np

from netsim.model.flows import FlowTable
from netsim.params import Param

PARAMS = [
    Param("size", "bytes", "1MB", "size of each flow"),
    Param("every", "time", "1ms", "time between starts"),
]


def flows(params, network, rng, context):
    src = np.arange(network.n_hosts - 1)
    dst = np.full(src.size, network.n_hosts - 1)
    return FlowTable(src, dst, params["size"], src * params["every"])
'''

EXPERIMENT = """
name = "mine"

[transport]
kind = "./stop_and_wait.py"

[topology]
kind = "./row.py"
switches = 4

[traffic]
kind = "./in_turn.py"
size = "40960B"
every = "1ms"

[outputs]
directory = "out"
"""

FILES = {
    "stop_and_wait.py": TRANSPORT,
    "row.py": TOPOLOGY,
    "in_turn.py": TRAFFIC,
    "mine.toml": EXPERIMENT,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all files, shared by the tests."""
    path = tmp_path_factory.mktemp("plugins")
    for name, content in FILES.items():
        (path / name).write_text(content)
    return path


def netsim(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command as plain Python; tests of the code cache compile plugin files."""
    command = [sys.executable, "-m", "netsim", *arguments]
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    return subprocess.run(
        command, cwd=folder, capture_output=True, check=False, text=True, timeout=300, env=env
    )


def test_experiment_runs_with_three_plugin_files(folder: Path) -> None:
    """Each of ten packets takes a round trip over L links: 10 * L * (332.8 + 5.12 + 2000) ns."""
    done = netsim(folder, "run", "mine.toml")
    assert done.returncode == 0, done.stderr[-2000:]
    flows = load(folder / "out").flows
    assert flows["src"].to_list() == [0, 1, 2]
    links = [5, 4, 3]
    assert flows["acked_ps"].to_list() == [10 * n * 2_337_920 for n in links]


def test_show_describes_a_plugin_file(folder: Path) -> None:
    done = netsim(folder, "show", "transport", "stop_and_wait.py")
    assert done.returncode == 0, done.stderr
    assert "window" in done.stdout
