"""Whatever a plugin's code does, a failure ends in one message that names the plugin."""

import sys

import pytest
from click.testing import CliRunner
from experiment_text import TRANSPORT, load, text
from raises_input import mentions, raises_input

from netsim.cli import app
from netsim.errors import InputError
from netsim.experiment.scenario import prepare
from netsim.plugins import registry

TOPOLOGY = '''
"""Two hosts."""

import sys

from netsim.model.builder import NetworkBuilder

PARAMS = []


def build(params):
    builder = NetworkBuilder()
    hosts, switch = builder.add_hosts(2), builder.add_switch()
    for host in hosts:
        builder.cable(host, switch, rate_bps=10**11, delay_ps=10**6)
    return builder.build("pair")
'''

TRAFFIC = '''
"""One flow."""

import sys

from netsim.model.flows import FlowTable

PARAMS = []


def flows(params, network, rng, context):
    return FlowTable([0], [1], [1000], [0])
'''

EXITS = ["sys.exit(0)", "raise SystemExit", "raise GeneratorExit", "1 / 0", "raise Odd"]
ODD = """
class Odd(BaseException):
    def __str__(self):
        raise ValueError
"""


@pytest.mark.parametrize("statement", EXITS)
@pytest.mark.parametrize("kind", ["transport", "topology", "traffic"])
def test_exception_at_import_is_reported_with_its_line(tmp_path, kind, statement):
    source = {"transport": TRANSPORT, "topology": TOPOLOGY, "traffic": TRAFFIC}[kind]
    path = tmp_path / "mine.py"
    path.write_text(f"{source}\nimport sys\n{ODD}\n{statement}\n")
    modules = {name for name in sys.modules if not name.startswith("netsim.")}
    with raises_input("mine.py") as caught:
        registry.find(kind, str(path))
    assert mentions(str(caught.value), len(path.read_text().splitlines()), path)
    assert {name for name in sys.modules if not name.startswith("netsim.")} == modules


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"x = 1\0", "null bytes"),
        (b"x = '\xff\xfe'", "SyntaxError: "),
        (b"def f():\n    return f()\nf()\n", "RecursionError: maximum recursion depth exceeded at"),
        (b"import nothing_of_this_name", "ModuleNotFoundError: No module named"),
        (b"from netsim.transport import sned", "ImportError: cannot import name 'sned'"),
        (b"x = (", "SyntaxError: '(' was never closed at line 1 of"),
        (b"raise SyntaxError", "SyntaxError: None at line 1 of"),
        (b"raise ValueError('a\\n\\nb')", "ValueError: a b at line 1 of"),
        (b"import sys\nsys.path.clear()\nPARAMS = 3", "3 must be a list of Param"),
        (b"import sys\ndel sys.modules[__name__]\n1 / 0", "ZeroDivisionError: division by zero at"),
        (b"__doc__ = 3\nPARAMS = 3", "3 must be a list of Param"),
        (b"x = " + b"(" * 5000 + b")" * 5000, "cannot load the plugin"),
    ],
)
def test_file_that_cannot_be_loaded_is_reported_in_one_line(
    tmp_path, monkeypatch, content, message
):
    path = tmp_path / "mine.py"
    path.write_bytes(content)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(InputError) as caught:
        registry.find("transport", str(path))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_expression_too_deep_for_lint_is_an_input_error(tmp_path):
    deep = TRANSPORT.replace("pkt.seq = 0", "pkt.seq = " + " + ".join(["1"] * 1500))
    (tmp_path / "mine.py").write_text(deep)
    content = text(top='transport = "./mine.py"')
    with raises_input():
        load(tmp_path, content).points()


@pytest.mark.parametrize("statement", EXITS)
@pytest.mark.parametrize(("name", "function"), [("pair", "build"), ("one", "flows")])
def test_exception_in_build_or_flows_is_reported_with_its_line(tmp_path, name, function, statement):
    (tmp_path / "pair.py").write_text(ODD + TOPOLOGY)
    (tmp_path / "one.py").write_text(ODD + TRAFFIC)
    path = tmp_path / f"{name}.py"
    source = path.read_text()
    before = f"def {function}("
    start = source.index("\n", source.index(before))
    path.write_text(f"{source[:start]}\n    {statement}{source[start:]}")
    content = text(topology='kind = "./pair.py"', traffic='kind = "./one.py"')
    (point,) = load(tmp_path, content).points()
    with pytest.raises(InputError) as caught:
        prepare(point)
    line = path.read_text().splitlines().index(f"    {statement}") + 1
    assert caught.value.file == f"{path}:{line}"
    assert caught.value.message.startswith(f"{function}() raised ")


def test_invalid_return_value_of_build_or_flows_is_rejected(tmp_path):
    for returned in ["None", "3", "params"]:
        (tmp_path / "pair.py").write_text(TOPOLOGY)
        (tmp_path / "one.py").write_text(TRAFFIC)
        content = text(topology='kind = "./pair.py"', traffic='kind = "./one.py"')
        for name, source, function, right in (
            ("one", TRAFFIC.replace("FlowTable([0]", f"{returned} or FlowTable([0]"), "flows", ""),
            ("pair", TOPOLOGY.replace('builder.build("pair")', returned), "build", "Network"),
        ):
            wrong = source.replace(f"{returned} or FlowTable([0], [1], [1000], [0])", returned)
            (tmp_path / f"{name}.py").write_text(wrong)
            (point,) = load(tmp_path, content).points()
            with raises_input(function, right):
                prepare(point)


def test_exception_in_netsim_itself_is_not_converted(tmp_path, monkeypatch):
    from netsim.transports import __name__ as package

    assert package == "netsim.transports"
    from netsim.topologies import fat_tree

    def build(_):
        raise ZeroDivisionError

    monkeypatch.setattr(fat_tree, "build", build)
    (point,) = load(tmp_path, text()).points()
    with pytest.raises(ZeroDivisionError):
        prepare(point)


def test_exception_in_a_plain_python_handler_ends_the_run(tmp_path, monkeypatch):
    """sys.exit(0) in a handler must not end the run silently with status 0."""
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    monkeypatch.chdir(tmp_path)
    for handler, statement in [
        ("build_packet", "sys.exit(0)"),
        ("build_packet", "now // (now - now)"),
        ("setup", "sys.exit(0)"),
    ]:
        source = TRANSPORT.replace("PARAMS = []", "import sys\n\nPARAMS = []")
        source += "def setup(env, tx, rx):\n    tx.prio = 0\n"
        last = {"build_packet": "    pkt.seq = 0\n", "setup": "    tx.prio = 0\n"}[handler]
        source = source.replace(last, f"{last}    {statement}\n")
        (tmp_path / "mine.py").write_text(source)
        (tmp_path / "mine.toml").write_text(text('name = "mine"', top='transport = "./mine.py"'))
        done = CliRunner().invoke(app, ["run", str(tmp_path / "mine.toml"), "--quiet"])
        assert done.exit_code == 1
        line = source.splitlines().index(f"    {statement}") + 1
        assert mentions(done.stderr, "mine.py", line, statement)
        assert "Traceback" not in done.stderr
