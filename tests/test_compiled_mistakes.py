"""What compiled handlers do wrong is an error that names them, as in plain Python.

One transport makes every mistake, which its parameter chooses: so it is compiled once.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from engine_runs import DROP_TAIL, build, fat_tree, flow_table, run

from netsim.engine.engine import Engine
from netsim.errors import RunError

CLASS, DIVISION, ASSERTION, LATE_ASSERTION, INDEX, LOOP = range(1, 7)

SOURCE = f'''
"""Sends every packet once, and makes a mistake."""

from netsim.params import Param
from netsim.transport import *

PARAMS = [Param("mistake", "count", 0, "which one")]
TX_STATE = ("next_seq", "n_acked")
RX_STATE = (("seen", 4), "next_seq")


def ready(env, now, tx):
    return now if tx.next_seq < tx.n_packets else BLOCKED


def fill(env, now, tx, pkt):
    pkt.seq = tx.next_seq
    tx.next_seq += 1


def on_start(env, now, tx):
    if env.par.mistake == {ASSERTION}:
        assert tx.next_seq > 0


def on_data(env, now, rx, pkt):
    if env.par.mistake == {INDEX}:
        rx.seen[int(pkt.seq)] = 1
    if env.par.mistake == {LATE_ASSERTION}:
        assert int(pkt.seq) < 400
    deliver(env, now, rx, int(pkt.size_bytes) - env.par.header_bytes)
    prio = 0
    if env.par.mistake == {CLASS}:
        prio = 255
    send(env, rx, ACK, int(pkt.seq), 0, prio)


def on_control(env, now, tx, pkt):
    if env.par.mistake == {DIVISION}:
        tx.next_seq += 7 // tx.n_acked
    while env.par.mistake == {LOOP} and tx.next_seq > 0:
        tx.n_acked += 1
    tx.n_acked += 1
    if tx.n_acked == tx.n_packets:
        finish(env, now, tx)
'''

EXPERIMENT = f"""
name = "hang"
seed = 1

[topology]
kind = "fat_tree"
hosts_per_leaf = 4
leaves = 2

[transport]
kind = "./mine.py"
mistake = {LOOP}

[traffic]
kind = "permutation"
size = "200KB"
"""

FLOWS = [(host, (host + 3) % 8, 4_000_000, 0) for host in range(8)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mistakes")
    (folder / "mine.py").write_text(SOURCE)
    (folder / "hang.toml").write_text(EXPERIMENT)
    return folder


def engine(folder: Path, mistake: int, *, threads: int = 1, checked: bool = False) -> Engine:
    return build(
        fat_tree(4, 2, "100Gbps"),
        flow_table(FLOWS),
        str(folder / "mine.py"),
        DROP_TAIL,
        params={"mistake": mistake},
        threads=threads,
        checked=checked,
    )


@pytest.mark.parametrize("threads", [1, 2])
def test_a_class_far_beyond_the_arrays(folder: Path, threads: int) -> None:
    with pytest.raises(RunError, match="on_data used traffic class 255"):
        run(engine(folder, CLASS, threads=threads))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_division_by_zero(folder: Path, threads: int) -> None:
    with pytest.raises(RunError, match=r"on_control on host .: (ZeroDivisionError|an error)"):
        run(engine(folder, DIVISION, threads=threads))


def test_where_an_error_was_raised(folder: Path) -> None:
    line = r"on_start on host .: AssertionError \(mine.py, line .*: assert tx.next_seq > 0\)"
    with pytest.raises(RunError, match=line):
        run(engine(folder, ASSERTION))


def test_an_error_in_a_worker_is_not_lost(folder: Path) -> None:
    """Which of two threads comes upon it is chance; the run ends in any case."""
    for _ in range(5):
        with pytest.raises(RunError, match=r"on_data on host .: (AssertionError|an error)"):
            run(engine(folder, LATE_ASSERTION, threads=2))


def test_an_index_beyond_an_array(folder: Path) -> None:
    with pytest.raises(RunError, match=r"on_data on host .: IndexError: "):
        run(engine(folder, INDEX, checked=True))


HANG = """
import os, sys
from netsim import watchdog
from netsim.experiment import Experiment
from netsim.simulate import simulate

watchdog.PATIENCE_S = 1.0

def end(message):
    print(message, flush=True)
    os._exit(7)

simulate(Experiment.load(sys.argv[1], []).points()[0], threads=2, on_hang=end)
"""


def test_an_endless_loop_is_named(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANG, "hang.toml"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 7, done.stderr
    assert "mine.py: on_control on host " in done.stdout
    assert "does not come back" in done.stdout
