"""How runs end: the stop reason, and when a run counts as complete."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from raises_input import mentions

from netsim.cli import app
from netsim.experiment import Experiment
from netsim.plugins import registry
from netsim.results import load
from netsim.running.point import simulate

EXPERIMENT = """
name = "e"
transport = "{transport}"
[topology]
kind = "fat_tree"
hosts_per_leaf = 2
leaves = 2
host_rate = "100Gbps"
[traffic]
kind = "incast"
fan_in = 3
size = "40KB"
[fabric]
queue_bytes = "{queue}"
[stop]
{stop}
"""


pytestmark = pytest.mark.usefixtures("plain_python")


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Return a function that writes e.toml and mine.py, the datagram transport with changes."""
    monkeypatch.chdir(tmp_path)

    def write(*changes: tuple[str, str], queue: str = "1000pkt", stop: str = "") -> Path:
        source = registry.find("transport", "datagram").path.read_text()
        for old, new in changes:
            assert old in source
            source = source.replace(old, new)
        Path("mine.py").write_text(source)
        text = EXPERIMENT.format(transport="./mine.py", queue=queue, stop=stop)
        Path("e.toml").write_text(text)
        return Path("e.toml")

    return write


RELIABLE = ("RELIABLE = False", "RELIABLE = True")
NEVER_FINISHES = ("finish(env, now, tx)\n", "pass\n")
KEEPS_TRYING = (
    ("import BLOCKED", "import set_timer, BLOCKED"),
    ('TX_STATE = ("next_seq', 'TX_TIMERS = 1\nTX_STATE = ("next_seq'),
    ("def on_data", "def on_timer(env, now, tx, k):\n    again(env, now, tx)\n\n\ndef on_data"),
    (
        "def ready(",
        "def again(env, now, tx):\n    set_timer(env, now, tx, 0, now + 10**10)\n\n\ndef ready(",
    ),
    ("    if env.par.rate > 0:", "    again(env, 0, tx)\n    if env.par.rate > 0:"),
)


def run(file: Path):
    (point,) = Experiment.load(file).points()
    result = simulate(point, threads=1)
    return result.stop_reason, result.complete, result.reason or ""


def test_reliable_transport_with_a_lost_flow_is_incomplete(write):
    status, complete, reason = run(write(RELIABLE, queue="2pkt"))
    assert (status, complete) == ("undelivered", False)
    assert mentions(reason, "3")
    assert "of 40000 bytes)" in reason


def test_unreliable_transport_with_losses_is_complete(write):
    assert run(write(queue="2pkt")) == ("undelivered", True, "")
    assert run(write()) == ("finished", True, "")


def test_unreliable_transport_with_unsent_packets_is_incomplete(write):
    change = (
        "if tx.next_seq == tx.n_packets:\n        return",
        "if tx.next_seq == 5:\n        return",
    )
    status, complete, reason = run(write(change))
    assert (status, complete) == ("undelivered", False)
    assert "3 of 3 flows" in reason


def test_time_limit_reports_unfinished_flows(write):
    status, complete, reason = run(write(stop='max_time = "7us"'))
    assert (status, complete) == ("time_limit", False)
    assert "stop.max_time" in reason
    assert "of 3 flows" in reason
    assert run(write(stop='max_time = "1ms"'))[:2] == ("finished", True)


@pytest.mark.parametrize("timers", [(), KEEPS_TRYING], ids=["idle", "busy"])
def test_senders_that_never_finish_stall_the_run(write, timers):
    """The "busy" sender sets a timer again forever, so the engine never runs out of events."""
    status, complete, reason = run(write(NEVER_FINISHES, *timers))
    assert (status, complete) == ("stalled", False)
    assert mentions(reason, "flow")
    assert "40000 of 40000 bytes" in reason


@pytest.mark.parametrize(
    ("change", "queue", "stop", "text", "status"),
    [
        (RELIABLE, "2pkt", "", "3 of 3 flows", 1),
        (RELIABLE, "1000pkt", 'max_time = "7us"', "stop.max_time", 0),  # a limit of the experiment
    ],
)
def test_command_reports_why_a_run_is_incomplete(write, change, queue, stop, text, status):
    write(change, queue=queue, stop=stop)
    result = CliRunner().invoke(app, ["run", "e.toml", "--out", "r"])
    assert result.exit_code == status, result.output
    assert text in result.stderr
    assert mentions(result.stderr, "3")
    loaded = load("r")
    assert not loaded.complete
    assert text in loaded.summary["reason"]
