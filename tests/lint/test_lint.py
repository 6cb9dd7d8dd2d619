"""A transport that breaks a rule is rejected with the line when it is loaded for use."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from lint_case import SOUND, check, check_rows, line_of
from raises_input import mentions

from netsim.engine.compiling import lint
from netsim.engine.compiling.declarations import SETTABLE
from netsim.plugins import registry
from netsim.plugins.params import resolve_params

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = ROOT / "netsim/conformance/templates"


def test_built_in_transports_have_no_errors():
    for name in registry.names("transport"):
        plugin = registry.find("transport", name)
        for preset in (None, *plugin.presets):
            lint.check(
                plugin, resolve_params(plugin.params, plugin.presets, {}, preset, file=None, key="")
            )


def test_scaffold_has_no_errors(tmp_path):
    assert check(tmp_path, (TEMPLATES / "my_transport.py").read_text()) == []


SETS = [
    ("setup", "tx.start_ps = 0", "tx.start_ps"),
    ("build_packet", "pkt.size_bytes = 1", "pkt.size_bytes"),
    ("build_packet", "env.host.rule_broken = 3", "env.host.rule_broken"),
    ("build_packet", "host = env.host; host.port = 3", "env.host.port"),
    ("build_packet", "other = env.tx[0]; other.finished = 1", "tx.finished"),
    ("build_packet", "for one in env.tx: one.host = 1", "tx.host"),
    ("build_packet", "(tx if now > 3 else env.tx[1]).host = 1", "tx.host"),
    ("build_packet", "(a := tx).host = 1", "tx.host"),
    ("build_packet", "tx['host'] = 1", "tx.host"),
    ("build_packet", "setattr(tx, 'host', 1)", "tx.host"),
    ("build_packet", "par = env.par; par.rto += 3", "env.par.rto"),
    ("build_packet", "env.tx[3] = tx", "env.tx"),
    ("build_packet", "bits = env.bits; bits[3] |= 1", "env.bits"),
    ("build_packet", "env.host = tx", "env.host"),
    ("on_data", "pkt.flow = 3", "pkt.flow"),
    ("on_data", "ack.dst = 3", "pkt.dst"),
    ("on_forward", "port.delay_ps = 1", "port.delay_ps"),
    ("on_forward", "pkt.dst = 0", "pkt.dst"),
    ("helper", "other.done_head = 0", "env.host.done_head"),
]
READS = [
    ("build_packet", "tx.windw = 1", ("tx", "windw")),
    ("build_packet", "a = tx.next_sq", ("tx", "next_sq")),
    ("build_packet", "a = pkt.stmp", ("pkt", "stmp")),
    ("build_packet", "a = env.hosts", ("env", "hosts")),
    ("helper", "other.credits = 3", "credits"),
    ("build_packet", "a = undefined_name", "undefined_name"),
    ("build_packet", "selective.tak(env, tx)", ("netsim.blocks.selective", "tak")),
    ("build_packet", "helper(env, tx)", "helper()"),
    ("build_packet", "armed(env, tx, RTO, 3)", "armed()"),
    ("build_packet", "helper(env, tx, what=3)", "helper()"),
    ("build_packet", "selective.take(env, tx)", ("selective.take", "tx")),
]


def test_broken_rule_is_reported_with_its_line(tmp_path):
    check_rows(tmp_path, SOUND, "transport", SETS + READS)


FINE = [
    ("setup", "tx.prio = 1; rx.prio = 1; tx.entropy = 3; rx.n = 3; env.host.credit = 1"),
    ("build_packet", "pkt.aux = 1; pkt.prio = 1; pkt.entropy = 1; pkt.kind = 2; pkt.stamp = now"),
    ("build_packet", "pkt.notes[1] = 3; tx.sent[0] = 1; env.host.active[0] = 2; tx.rate = 0.5"),
    ("build_packet", "sent = tx.sent; sent[1] = 3"),
    ("build_packet", "for i in range(3): env.tx[i].acked = 3"),
    ("build_packet", "tx.retransmits += 1"),
    ("build_packet", "other = env.rx[0] if now > 3 else env.rx[1]; other.n = 1"),
    ("on_data", "ack.ecn = 2; ack.entropy = 3; ack.aux = 3; ack.stamp = 1; ack.notes[0] = 1"),
    ("on_data", "pkt = send(env, rx, ACK, 0, 0, 0); pkt.ecn = 2"),
    ("on_forward", "pkt.stamp = queue.bytes; pkt.notes[int(pkt.hops)] = port.ps_per_byte_q20"),
    ("helper", "other.credit = [1, 2][0]; x = (lambda y: y.what)(3)"),
    ("build_packet", "x = 3 if now else 4; x += abs(x); print(x)"),
]


def test_allowed_statements_have_no_errors(tmp_path):
    for where, statement in FINE:
        assert check(tmp_path, SOUND.replace(f"pass  # {where}\n", f"{statement}\n")) == []


def test_all_errors_are_reported_at_once(tmp_path):
    source = SOUND.replace("pass  # build_packet", "pkt.flow = 1; tx.host = 2").replace(
        "pass  # on_forward", "port.tail = 1"
    )
    assert len(check(tmp_path, source)) == 3


def test_error_in_an_imported_module_is_reported_there(tmp_path):
    (tmp_path / "beside.py").write_text("def count(host, tx):\n    host.n = 1\n    tx.acked = 1\n")
    source = SOUND.replace("pass  # build_packet", "beside.count(env.host, tx)")
    (error,) = check(
        tmp_path, source.replace("from netsim.blocks", "import beside\nfrom netsim.blocks")
    )
    assert error.file == f"{tmp_path}/beside.py:2"
    assert mentions(error.message, "env.host")


def test_ready_must_return_a_time_on_every_path(tmp_path):
    for body, line in [
        ("if now > 3:\n        return now", 0),
        ("if now > 3:\n        return now\n    return", 3),
        ("return None", 1),
        ("for i in range(3):\n        return now", 0),
        ("while True:\n        if now > 3:\n            break", 0),
        ("tx.acked = 0", 0),
    ]:
        before, _, after = SOUND.partition("def ready(env, now, tx):\n")
        after = after[after.index("def build_packet") :]
        source = f"{before}def ready(env, now, tx):\n    {body}\n\n\n{after}"
        (error,) = check(tmp_path, source)
        assert "ready" in error.message
        assert error.file == f"{tmp_path}/mine.py:{line_of(source, 'def ready') + line}"
        assert "BLOCKED" in str(error)


def test_ready_that_always_returns_has_no_errors(tmp_path):
    for body in [
        "while True:\n        return now",
        "if now > 3:\n        return now\n    else:\n        return 3",
        "raise ValueError",
    ]:
        before, _, after = SOUND.partition("def ready(env, now, tx):\n")
        after = after[after.index("def build_packet") :]
        assert check(tmp_path, f"{before}def ready(env, now, tx):\n    {body}\n\n\n{after}") == []


def test_misspelled_handlers_and_declarations_are_reported(tmp_path):
    for added, message, hint in [
        ("def on_ack(env, now, tx, pkt):\n    pass", "on_ack is not a handler", "on_"),
        ("def on_nack(env, now, tx, pkt):\n    pass", "on_nack is not a handler", "on_"),
        ("def onData(env, now, rx, pkt):\n    pass", "onData is not a handler", '"on_data"'),
        ("def on_start_(env, now, tx):\n    pass", "on_start_ is not a handler", '"on_start"'),
        ("def Rank(env, tx):\n    return 0", "Rank is not a handler", '"rank"'),
        ("def setups(env, tx, rx):\n    pass", "setups is not a handler", '"setup"'),
        ("TX_STATES = ()", "TX_STATES is not a declaration", '"TX_STATE"'),
        ("RX_TIMER = 1", "RX_TIMER is not a declaration", '"RX_TIMERS"'),
        ("a, FABRICS = 1, {}", "FABRICS is not a declaration", '"FABRIC"'),
        ("PRESET: dict = {}", "PRESET is not a declaration", '"PRESETS"'),
        ("reliable = False", "reliable is not a declaration", '"RELIABLE"'),
    ]:
        source = f"{SOUND}\n\n{added}\n"
        (error,) = check(tmp_path, source)
        assert mentions(error.message, message)
        assert hint in str(error.hint)
        assert error.file == f"{tmp_path}/mine.py:{line_of(source, added.splitlines()[0])}"


def test_unrelated_names_have_no_errors(tmp_path):
    for added in [
        "def on_ack(env):\n    pass\n\n\nHANDLERS = (on_ack,)",
        "def _on_ack(env):\n    pass",
        "def unused(env):\n    pass",
        "TX_TIMER = 0\nPACE = TX_TIMER",
        "LARGEST = 3",
    ]:
        assert check(tmp_path, f"{SOUND}\n\n{added}\n") == []


EXPERIMENT = """
name = "mine"
[topology]
kind = "fat_tree"
hosts_per_leaf = 4
leaves = 2
[traffic]
kind = "permutation"
size = "10KB"
[transport]
kind = "./mine.py"
"""


def test_every_command_rejects_a_broken_transport(tmp_path):
    for command, argument in (("check", "mine.toml"), ("run", "mine.toml"), ("check", "mine.py")):
        (tmp_path / "mine.py").write_text(SOUND.replace("pass  # on_forward", "port.delay_ps = 1"))
        (tmp_path / "mine.toml").write_text(EXPERIMENT)
        done = subprocess.run(
            [sys.executable, "-m", "netsim", command, argument],
            cwd=tmp_path,
            capture_output=True,
            check=False,
            text=True,
            timeout=60,
        )
        assert done.returncode == 2
        line = line_of((tmp_path / "mine.py").read_text(), "port.delay_ps")
        assert mentions(done.stderr, tmp_path, "mine.py", line, "port.delay_ps")


def test_guide_lists_the_settable_fields():
    page = (ROOT / "transports" / "README.md").read_text()
    table = page[page.index("| may be set |") :].partition("\n\n")[0]
    rows = [row.split("|")[2] for row in table.splitlines()[2:]]
    assert [tuple(re.findall("`([a-z_]+)`", row)) for row in rows] == list(SETTABLE.values())
