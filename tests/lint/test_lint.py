"""A plugin that breaks a rule is rejected with the line when it is loaded for use."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from engine_runs import DROP_TAIL, build, fat_tree, flow_table, run
from lint_sources import SOUND, SOURCES
from raises_input import fails, mentions

from netsim.cli import app
from netsim.engine.compiling import lint
from netsim.engine.compiling.declarations import SETTABLE
from netsim.errors import InputError, RunError
from netsim.model.fabric import queue_spec
from netsim.params import resolve_params
from netsim.plugins import registry

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = ROOT / "netsim/conformance/templates"


def check(folder: Path, source: str, kind: str = "transport") -> list[InputError]:
    """Return the lint errors of a plugin with this source."""
    path = folder / "mine.py"
    path.write_text(source)
    plugin = registry.find(kind, str(path))
    params = resolve_params(plugin.params, plugin.presets, {}, None, file=None, key="")
    try:
        lint.check(plugin, params)
    except InputError as error:
        return list(error.errors)
    return []


def line_of(source: str, text: str) -> int:
    lines = [n for n, line in enumerate(source.splitlines(), start=1) if text in line]
    assert len(lines) == 1, text
    return lines[0]


def with_statement(kind: str, where: str, statement: str) -> tuple[str, int]:
    """Return a correct plugin with a statement put at a mark, and its line."""
    source = SOURCES[kind].replace(f"pass  # {where}\n", f"{statement}  # {where}\n")
    return source, line_of(source, f"# {where}")


def test_netsims_plugins_and_templates_have_no_errors(tmp_path):
    for name in registry.names("transport"):
        plugin = registry.find("transport", name)
        for preset in (None, *plugin.presets):
            lint.check(
                plugin, resolve_params(plugin.params, plugin.presets, {}, preset, file=None, key="")
            )
    for name in registry.names("queue"):
        lint.check(queue_spec(name).plugin, queue_spec(name).params)
    for name in registry.names("traffic"):
        plugin = registry.find("traffic", name)
        lint.check(plugin, {one.name: 0 for one in plugin.params})
    for kind in ("transport", "queue"):
        assert check(tmp_path, (TEMPLATES / f"my_{kind}.py").read_text(), kind) == []
    for kind, source in SOURCES.items():
        assert check(tmp_path, source, kind) == []


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
        assert check(tmp_path, with_statement("transport", where, statement)[0]) == []
    assert check(tmp_path, SOUND.replace("def setup(", "build_packet = 3\n\ndef setup(", 1)) == []


REPORTED_BY_THE_RUN = [
    ("tx.windw = 1", "windw"),
    ("a = pkt.stmp", "stmp"),
    ("a = undefined_name", "undefined_name"),
    ("selective.tak(env, tx)", ("netsim.blocks.selective", "tak")),
    ("helper(env, tx)", "helper()"),
    ("selective.take(env, tx)", "n_rtx"),
]


def test_other_mistakes_end_the_run_with_their_line(tmp_path):
    for statement, expected in REPORTED_BY_THE_RUN:
        source, line = with_statement("transport", "build_packet", statement)
        assert check(tmp_path, source) == []
        flows = flow_table([(0, 4, 3 * 4096, 0)])
        path = str(tmp_path / "mine.py")
        with pytest.raises(RunError) as caught:
            run(build(fat_tree(4, 2, "100Gbps"), flows, path, DROP_TAIL, jit=False))
        assert mentions(str(caught.value), "build_packet", f"line {line}", expected)


def test_error_in_an_imported_module_is_reported_there(tmp_path):
    (tmp_path / "beside.py").write_text("def count(one, tx):\n    one.port = 1\n    tx.acked = 1\n")
    source = SOUND.replace("pass  # build_packet", "beside.count(env.host, tx)")
    (error,) = check(
        tmp_path, source.replace("from netsim.blocks", "import beside\nfrom netsim.blocks")
    )
    assert error.file == f"{tmp_path}/beside.py:2"


def with_ready(body: str) -> str:
    """Return the transport with a different body of `ready`."""
    before, _, after = SOUND.partition("def ready(env, now, tx):\n")
    after = after[after.index("def build_packet") :]
    return f"{before}def ready(env, now, tx):\n    {body}\n\n\n{after}"


def test_ready_may_return_from_each_branch(tmp_path):
    for body in [
        "while True:\n        return now",
        "if now > 3:\n        return now\n    else:\n        return 3",
        "raise ValueError",
    ]:
        assert check(tmp_path, with_ready(body)) == []


def test_fields_may_be_named_like_attributes_of_records(tmp_path):
    """In plain Python a record is an object, which once had attributes `at` and `views`."""
    source = SOUND.replace('"next_seq"', '"next_seq", "at", "views"')
    source = source.replace("pass  # build_packet\n", "tx.at += 2\n    tx.views -= 1\n")
    assert check(tmp_path, source) == []
    flows = flow_table([(0, 4, 3 * 4096, 0)])
    path = str(tmp_path / "mine.py")
    engine = run(build(fat_tree(4, 2, "100Gbps"), flows, path, DROP_TAIL, jit=False))
    tx = engine.state.hosts.tx
    assert (int(tx["at"][0]), int(tx["views"][0])) == (6, -3)


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
    (tmp_path / "mine.py").write_text(SOUND.replace("pass  # on_forward", "port.delay_ps = 1"))
    (tmp_path / "mine.toml").write_text(EXPERIMENT)
    for command, argument in (("check", "mine.toml"), ("run", "mine.toml"), ("check", "mine.py")):
        done = CliRunner().invoke(app, [command, str(tmp_path / argument)])
        line = line_of((tmp_path / "mine.py").read_text(), "port.delay_ps")
        assert fails(done, 2, tmp_path, "mine.py", line, "port.delay_ps")


def test_guide_lists_the_settable_fields():
    page = (ROOT / "transports" / "README.md").read_text()
    table = page[page.index("| may be set |") :].partition("\n\n")[0]
    rows = [row.split("|")[2] for row in table.splitlines()[2:]]
    assert [tuple(re.findall("`([a-z_]+)`", row)) for row in rows] == list(SETTABLE.values())
