"""The testbed of transports."""

import json
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from click.testing import CliRunner
from conformance_case import tried, variant
from raises_input import mentions, raises_input

from netsim.cli import app
from netsim.common.discovery import FOLDERS
from netsim.conformance import (
    CASES,
    Testbed,
    check,
    failures,
    handler_monitor,
    kind_of,
    load_testbed,
    templates,
)
from netsim.conformance.check import _chosen, _compiled_ahead
from netsim.conformance.finding import COMPILED, FAIL, METRIC, PASS, SKIP, WARN
from netsim.engine.engine import Engine
from netsim.errors import RunError
from netsim.model.flows import FlowTable
from netsim.plugins import registry

LIKE_OTHERS = ("planes", "planes in turn", "shuffled planes", "least loaded plane")
"""Cases that look to a transport like "permutation" and "uneven planes"."""
PLAIN = [
    case.name
    for case in CASES["transport"]
    if COMPILED not in case.needs and case.name not in LIKE_OTHERS
]
OTHERS = [case.name for case in CASES["transport"] if case.name not in PLAIN]
QUICK = ("ndp", "roce", "homa", "datagram")
"""Transports of each kind: pulls, PFC, grants, open loop; `variant` has a window."""


@pytest.mark.parametrize(
    "name",
    [
        name if name in QUICK else pytest.param(name, marks=pytest.mark.slow)
        for name in registry.names("transport")
    ],
)
def test_built_in_transports_pass(name: str) -> None:
    assert not failures(check(name, "transport", cases=PLAIN))


@pytest.mark.slow
@pytest.mark.parametrize("name", registry.names("transport"))
def test_built_in_transports_pass_compiled(name: str) -> None:
    findings = check(name, "transport", cases=OTHERS)
    assert not failures(findings)
    compiled = {finding.status for finding in findings if finding.case not in LIKE_OTHERS}
    assert len(compiled) <= 2


def test_correct_transport_passes(tmp_path: Path) -> None:
    findings = {finding.case: finding for finding in check(variant(tmp_path), cases=PLAIN)}
    assert list(findings) == PLAIN
    statuses = {name: finding.status for name, finding in findings.items()}
    assert FAIL not in statuses.values(), findings
    assert statuses["full queues"] == PASS
    assert statuses["trimming"] == SKIP
    assert findings["alone"].metrics["slowdown of 1 packet"] == 1


@pytest.mark.slow
def test_correct_transport_passes_compiled_cases(tmp_path: Path) -> None:
    path = variant(tmp_path)
    findings = {finding.case: finding for finding in check(path, cases=OTHERS)}
    assert list(findings) == OTHERS
    assert findings["compiled"].status == PASS
    assert findings["shared link"].status == METRIC
    assert findings["shared link"].metrics["share of the link"] == pytest.approx(1, abs=0.02)
    assert findings["shared link"].metrics["Jain index"] > 0.98
    (unfair,) = check(path, settings={"favor": 5}, cases=["shared link"])
    assert unfair.metrics["Jain index"] < 0.75


@pytest.mark.parametrize(
    ("cases", "ahead"),
    [(["sizes", "compiled"], True), (["sizes", "permutation"], False), (["compiled"], False)],
)
def test_later_cases_are_compiled_while_earlier_ones_run(monkeypatch, cases, ahead):
    begun: list[Callable[[], object]] = []

    def note(compile_code: Callable[[], object]) -> AbstractContextManager[None]:
        begun.append(compile_code)
        return nullcontext()

    monkeypatch.setattr(sys.modules["netsim.conformance.check"], "in_background", note)
    testbed = load_testbed("datagram", "transport")
    with _compiled_ahead(testbed, _chosen(CASES[testbed.KIND], cases)):
        assert len(begun) == int(ahead)
    if not ahead:
        return
    keys = []

    def stop(engine: Engine) -> None:
        keys.append(engine._code.keys)
        raise RunError("stop")

    monkeypatch.setattr(Engine, "_prepare", stop)
    with pytest.raises(RunError):
        begun[0]()
    assert check("datagram", "transport", cases=["compiled"])[0].failed
    assert keys[0] == keys[1]


class TestBroken:
    def test_missing_retransmission_fails(self, tmp_path: Path) -> None:
        found = tried(tmp_path, ["incast", "full queues"], ("    tx.next_seq = first\n", ""))
        assert found["incast"].status == PASS
        assert found["full queues"].failed
        assert "progress" in found["full queues"].detail
        assert "of 81920 bytes" in found["full queues"].detail

    def test_delivering_more_than_was_sent_fails(self, tmp_path: Path) -> None:
        found = tried(tmp_path, ["sizes"], ("header_bytes)", "header_bytes + 1)"))
        assert mentions(found["sizes"].detail, "65", "64")

    def test_lint_errors_stop_the_suite_before_any_case(self, tmp_path: Path) -> None:
        for change, message in (
            (("tx.next_seq += 1\n", "tx.last_bytes = 1\n"), "tx.last_bytes belongs to the engine"),
            (("def build_packet", "def filled"), "has no function build_packet"),
        ):
            with raises_input(message):
                tried(tmp_path, ["sizes"], change)

    def test_undeclared_field_fails_with_the_handler_and_line(self, tmp_path: Path) -> None:
        found = tried(tmp_path, ["sizes"], ('"acked"', '"ackd"'))
        assert mentions(found["sizes"].detail, "ready", "no field acked", "TX_STATE", "line")

    def test_timeout_too_short_for_three_tiers_fails(self, tmp_path: Path) -> None:
        found = tried(tmp_path, ["three tiers"], ("100_000_000", "12_000_000"))
        assert mentions(found["three tiers"].detail, "sent again")

    def test_case_that_conflicts_with_the_fabric_is_skipped(self) -> None:
        (found,) = check("expresspass", "transport", cases=["planes in turn"])
        assert found.status == SKIP
        assert mentions(found.detail, "ecmp_symmetric")

    def test_access_to_another_host_fails(self, tmp_path: Path) -> None:
        change = ("tx.acked += 1", "tx.acked = env.rx[tx.flow].received_bytes // 4096")
        found = tried(tmp_path, ["permutation"], change)
        assert mentions(found["permutation"].detail, "on_control", "host 3", "env.rx[3]")

    def test_hidden_write_to_an_engine_field_fails(self, tmp_path: Path) -> None:
        """Lint cannot see it, because the field's name is not spelled out in the source."""
        hidden = '    setattr(tx, "last_" + "bytes", 1)\n'
        found = tried(
            tmp_path, ["permutation"], ("    tx.next_seq += 1\n", f"    tx.next_seq += 1\n{hidden}")
        )
        assert mentions(found["permutation"].detail, "tx.last_bytes")

    def test_state_in_the_module_fails(self, tmp_path: Path) -> None:
        changes = (
            ("TX_TIMERS = 1", "TX_TIMERS = 1\nCALLS = [0]"),
            # In `setup`, so that the compiler fails early.
            ("def ready", "def setup(env, tx, rx):\n    CALLS[0] += 0\n\n\ndef ready"),
            ("    pkt.seq = tx", "    CALLS[0] += 1\n    pkt.entropy = CALLS[0]\n    pkt.seq = tx"),
        )
        found = tried(tmp_path, ["permutation", "windows", "compiled"], *changes)
        assert found["permutation"].status == PASS
        assert found["windows"].detail
        assert "compile" in found["compiled"].detail

    def test_random_numbers_not_from_the_seed_fail(self, tmp_path: Path) -> None:
        changes = (
            ("from netsim.params", "import random\n\nfrom netsim.params"),
            (
                "pkt.seq = tx.next_seq\n",
                "pkt.seq = tx.next_seq\n    pkt.entropy = random.getrandbits(9)\n",
            ),
        )
        assert "different results" in tried(tmp_path, ["windows"], *changes)["windows"].detail


class TestCommand:
    def test_command_prints_a_row_per_case(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        variant(tmp_path)
        arguments = ["check", "variant.py", "--case", "sizes", "--set", "window=3"]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        assert "pass" in result.stdout
        assert "43 packets" in result.stdout

    def test_failed_case_exits_with_status_1(self, tmp_path: Path) -> None:
        path = variant(tmp_path, ("        finish(env, now, tx)\n", ""))
        result = CliRunner().invoke(app, ["check", str(path), "--case", "sizes"])
        assert result.exit_code == 1
        assert "FAIL" in result.stdout
        assert "fails 1 of 1" in result.stderr

    def test_json_lists_the_findings(self) -> None:
        arguments = ["check", "ecmp", "--case", "tree", "--json"]
        found = json.loads(CliRunner().invoke(app, arguments).stdout)
        assert (found["kind"], found["findings"][0]["status"]) == ("routing", "pass")

    def test_kind_of_a_file_follows_from_its_functions(self, tmp_path: Path) -> None:
        for kind in FOLDERS:
            for name in registry.names(kind):
                assert kind_of(registry.find(kind, name).path) == kind, name
            assert kind_of(Path(templates.__path__[0], f"my_{kind}.py")) == kind
        for text, words in (("x = 3", "not a plugin"), ("def admit(): pass\ndef choose(): pass",
                            "queue and a routing")):  # fmt: skip
            (tmp_path / "odd.py").write_text(text)
            with raises_input(words):
                kind_of(tmp_path / "odd.py")


def test_testbed_runs_a_custom_flow_table(tmp_path: Path) -> None:
    """With a window of 1, each packet takes a round trip over four links."""
    testbed = Testbed.of(variant(tmp_path), settings={"window": 1})
    run = testbed.run(FlowTable([0], [7], 5 * 4096))
    round_trip = 4 * (4160 * 80 + 1_000_000) + 4 * (64 * 80 + 1_000_000)
    assert run.acked_ps().tolist() == [5 * round_trip]
    with raises_input("window", key="transport.windw", code="unknown_key"):
        Testbed.of(variant(tmp_path), settings={"windw": 1})


@pytest.mark.parametrize(
    ("name", "old", "new", "case", "status", "words"),
    [
        (
            "ndp",
            "rto.of_path(env.par.rto, RTO_PS, tx)",
            "rto.of_path(env.par.rto, RTO_PS, tx) // 4000",
            *("alone", FAIL, ("sent again", "timeout")),
        ),
        (
            "datagram",
            "tx.next_seq * tx.gap_ps",
            "tx.next_seq * 8 * serialization_ps(full_packet_bytes(env), tx.ps_per_byte_q20)",
            *("alone", WARN, ("slowdown of 100 packets: 7.0", "alone")),
        ),
        (
            "datagram",
            "tx.next_seq == tx.n_packets:\n        return BLOCKED",
            "tx.next_seq == 3:\n        return BLOCKED",
            *("permutation", FAIL, ("next_seq = 3", "timers armed: none")),
        ),
    ],
)
def test_wrong_units_windows_and_timeouts_are_found(
    tmp_path: Path, name: str, old: str, new: str, case: str, status: str, words: tuple[str, ...]
) -> None:
    """Bytes/s for bit/s, a timeout a thousand times too short, a sender that stops."""
    source = registry.find("transport", name).path.read_text()
    assert old in source
    file = tmp_path / "mine.py"
    file.write_text(source.replace(old, new))
    (finding,) = check(file, cases=[case])
    assert finding.status == status, finding
    assert all(word in finding.detail for word in words), finding.detail


NEXT = "    tx.next_seq += 1\n"


@pytest.mark.parametrize("case", ["sizes", "windows"])
def test_exception_is_reported_with_its_line(tmp_path: Path, case: str) -> None:
    (finding,) = tried(tmp_path, [case], (NEXT, NEXT + "    tx.next_seq //= tx.acked\n")).values()
    assert finding.failed
    assert mentions(finding.detail, "build_packet")
    assert mentions(finding.detail, "variant.py", "line 30", "tx.next_seq", "tx.acked")


def test_exit_in_a_handler_does_not_end_the_suite(tmp_path: Path) -> None:
    changes = (
        (NEXT, NEXT + "    sys.exit(0)\n"),
        ("from netsim.params", "import sys\nfrom netsim.params"),
    )
    found = tried(tmp_path, ["sizes", "windows"], *changes)
    assert mentions(found["sizes"].detail, "build_packet", "0", "variant.py")
    assert mentions(found["windows"].detail, "size")


def test_endless_loop_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler_monitor, "TIMEOUT_S", 0.3)
    change = ("    tx.next_seq = first\n", "    while first >= 0:\n        first += 1\n")
    found = tried(tmp_path, ["sizes", "full queues", "windows"], change)
    assert found["sizes"].status == found["windows"].status == PASS
    assert mentions(found["full queues"].detail, "on_timer", "variant.py", "line 5")
