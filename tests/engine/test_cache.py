"""Compiled code on the disk is used again, and never after an edit that could change it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SIMULATE = """
import sys
from pathlib import Path
from netsim.plugins import registry
from netsim.engine.engine import Engine
from netsim.engine.kernels.layout import INF
from netsim.engine.simulation import Options, Simulation
from netsim.plugins.registry import PluginSpec
from netsim.model.fabric import Fabric, PacketFormat
from netsim.model.flows import FlowTable
from netsim.model.builder import NetworkBuilder
import numpy as np

builder = NetworkBuilder()
builder.add_hosts(2)
switch = builder.add_switch()
for host in (0, 1):
    builder.cable(host, switch, rate_bps=10**11, delay_ps=10**6)
flows = FlowTable(np.array([0]), np.array([1]), np.array([2 * 4096]), np.array([0]))
plugin = registry.find("transport", "mine.py", relative_to=Path(sys.argv[1]))
params = {p.name: p.convert(p.default) for p in plugin.params}
uses = (PluginSpec(plugin, params),)
network = builder.build("pair")
simulation = Simulation(network, flows, Fabric(), PacketFormat(), uses, seed=1)
engine = Engine(simulation, Options(jit=True))
engine.advance(10**6, INF)
print(int(engine.flow_states().done_ps[0]))
"""

ALONE_PS = 3 * 332_800 + 2 * 10**6
"""Two packets over two links of 100 Gbps and 1 us."""

TRANSPORT = '''
"""Open loop, with a pause between packets that another file decides."""

from middle import pause_ps

from netsim.transport import BLOCKED, deliver, finish

PARAMS = []
TX_STATE = ("next_seq",)


def ready(env, now, tx):
    if tx.next_seq == tx.n_packets:
        return BLOCKED
    return tx.next_seq * pause_ps(tx.next_seq)


def build_packet(env, now, tx, pkt):
    pkt.seq = tx.next_seq
    tx.next_seq += 1
    if tx.next_seq == tx.n_packets:
        finish(env, now, tx)


def on_data(env, now, rx, pkt):
    deliver(env, now, rx, int(pkt.size_bytes) - env.par.header_bytes)
'''

MIDDLE = """
from deep import microseconds


def pause_ps(seq):
    return microseconds(seq) * 1_000_000
"""

DEEP = """
UNIT = {unit}


def microseconds(seq):
    return UNIT
"""


def simulate(folder: Path) -> int:
    """In a process of its own: when the flow was complete, in ps."""
    env = {**os.environ, "NETSIM_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, "-c", SIMULATE, str(folder)]
    done = subprocess.run(
        command, env=env, capture_output=True, check=False, text=True, timeout=300, cwd=folder
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return int(done.stdout)


def compiled_files(folder: Path) -> dict[str, int]:
    """The files of compiled code and when each was written."""
    found = (folder / "cache").rglob("*.code")
    return {str(path): path.stat().st_mtime_ns for path in found}


def test_an_edit_two_files_away_from_a_plugin(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TRANSPORT)
    (tmp_path / "middle.py").write_text(MIDDLE)
    (tmp_path / "deep.py").write_text(DEEP.format(unit=5))
    assert simulate(tmp_path) == 5 * 10**6 + ALONE_PS - 332_800
    files = compiled_files(tmp_path)
    assert files

    assert simulate(tmp_path) == 5 * 10**6 + ALONE_PS - 332_800
    assert compiled_files(tmp_path) == files, "the second process compiled again"

    (tmp_path / "deep.py").write_text(DEEP.format(unit=7))
    assert simulate(tmp_path) == 7 * 10**6 + ALONE_PS - 332_800
    assert len(compiled_files(tmp_path)) > len(files)
