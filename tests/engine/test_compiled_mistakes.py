"""Compiled code on phase-driven circuits: it does the same as plain Python, and an error in a
handler names the handler.

One transport contains all errors and its parameter chooses one, so it is compiled once.
"""

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from cache_folders import no_compiler
from engine_runs import run
from raises_input import mentions, raises

from netsim.cli.interrupt import ANSWER
from netsim.engine.engine import Engine
from netsim.engine.simulation import Options
from netsim.errors import RunError
from netsim.experiment import Experiment
from netsim.experiment.scenario import prepare
from netsim.running.point import build_engine

CLASS, DIVISION, ASSERTION, LATE_ASSERTION, LOOP = range(1, 6)

SOURCE = f'''
"""Sends every packet once, and makes a mistake."""

from netsim.params import Param
from netsim.transport import *

PARAMS = [Param("mistake", "count", 0, "which one")]
TX_STATE = ("next_seq", "n_acked")


def ready(env, now, tx):
    return now if tx.next_seq < tx.n_packets else BLOCKED


def build_packet(env, now, tx, pkt):
    pkt.seq = tx.next_seq
    tx.next_seq += 1


def on_start(env, now, tx):
    if env.par.mistake == {ASSERTION}:
        assert tx.next_seq > 0


def on_data(env, now, rx, pkt):
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
kind = "ocs"
racks = 8
hosts_per_rack = 1
schedule = "demand_aware"
reconfigure = "per_phase"
reconfiguration_delay = "25us"
circuit_switches = 1

[transport]
kind = "./mine.py"
mistake = {LOOP}

[traffic]
kind = "halving_doubling"
size = "4MB"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mistakes")
    (folder / "mine.py").write_text(SOURCE)
    (folder / "hang.toml").write_text(EXPERIMENT)
    return folder


def engine(folder: Path, mistake: int, *changes: str, **options: Any) -> Engine:
    overrides = [f"transport.mistake={mistake}", *changes]
    (point,) = Experiment.load(folder / "hang.toml", overrides).points()
    return build_engine(point, prepare(point), Options(**options))


def test_compiled_and_threaded_runs_agree_with_plain(folder: Path) -> None:
    """Without a mistake, on circuits that follow the steps of a collective."""

    def ran(**options: Any) -> Engine:
        return run(engine(folder, 0, "traffic.size=400KB", **options))

    plain = ran(jit=False)
    begins = plain.slot_states().begin_ps.tolist()
    assert sum(begin > 0 for begin in begins) == 4
    shorter = {"threads": 2, "window_ps": plain.network.lookahead_ps // 3}
    for options in ({}, {"threads": 2}, {"threads": 4}, shorter):
        other = ran(**options)
        assert other.digest() == plain.digest()
        assert other.slot_states().begin_ps.tolist() == begins


@pytest.mark.parametrize("threads", [1, 2])
def test_class_out_of_range_ends_the_run(folder: Path, threads: int) -> None:
    with raises(RunError, "on_data", "class 255"):
        run(engine(folder, CLASS, threads=threads))


@pytest.mark.parametrize("threads", [1, 2])
def test_division_by_zero_ends_the_run(folder: Path, threads: int) -> None:
    with raises(RunError, "on_control"):
        run(engine(folder, DIVISION, threads=threads))


def test_error_is_reported_at_the_present_line_after_an_edit(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new comment moves the line but does not compile the handler again."""
    with raises(RunError, "on_start"):
        run(engine(folder, ASSERTION))
    (folder / "mine.py").write_text(SOURCE.replace("def on_start", "# A comment.\ndef on_start"))
    line = 1 + next(n for n, text in enumerate(SOURCE.splitlines(), 1) if "assert tx" in text)
    with no_compiler(monkeypatch), raises(RunError, "mine.py", line, "tx.next_seq", "0"):
        run(engine(folder, ASSERTION))


def test_error_in_any_worker_thread_ends_the_run(folder: Path) -> None:
    """Either of the two threads may raise it."""
    for _ in range(5):
        with raises(RunError, "on_data"):
            run(engine(folder, LATE_ASSERTION, threads=2))


HANG = """
import sys
from netsim.engine import engine
from netsim.engine.simulation import Options
from netsim.cli.interrupt import Interruption
from netsim.experiment import Experiment
from netsim.running.point import simulate

engine.HANG_TIMEOUT_S = 0.5
point = Experiment.load("hang.toml", []).points()[0]
with Interruption() as interruption:
    print("compiling", flush=True)
    progress = interruption.watching()
    on_hang = lambda text: print(text, flush=True)
    options = Options(on_hang=on_hang)
    simulate(point, threads=2, should_stop=interruption, progress=progress, options=options)
"""


def started(folder: Path) -> subprocess.Popen[str]:
    """Start a process that runs the experiment, and wait until it compiles."""
    process = subprocess.Popen(
        [sys.executable, "-c", HANG],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "compiling\n"
    return process


def interrupt(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """Send a signal twice: the first is answered at once, the second ends the process."""
    assert process.stderr is not None
    process.send_signal(number)
    began = time.monotonic()
    assert process.stderr.readline() == f"{ANSWER}\n"
    assert time.monotonic() - began < 8
    assert process.poll() is None
    process.send_signal(number)
    process.wait(timeout=8)


def test_endless_loop_is_reported_and_can_be_interrupted(folder: Path) -> None:
    with started(folder) as process:
        assert process.stdout is not None
        report = process.stdout.readline()
        assert mentions(report, "mine.py", "on_control")
        assert "does not return" in report
        interrupt(process, signal.SIGTERM)
        assert process.returncode == 128 + signal.SIGTERM
