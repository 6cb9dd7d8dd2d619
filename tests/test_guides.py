"""What the guides say of the code holds: signatures, names of fields, how to get what is needed."""

import ast
import inspect
import re
from pathlib import Path

import pytest
from raises_input import mentions

import netsim.network
import netsim.program
import netsim.queue
import netsim.transport
from netsim.engine.compiling.discipline import QUEUE_DECLARATIONS, QUEUE_SETTABLE
from netsim.engine.compiling.program import PROGRAM_DECLARATIONS
from netsim.engine.kernels import program_services, queue_services
from netsim.engine.kernels.layout import (
    PACKET,
    PORT,
    PROGRAM_HOST_FIELDS,
    PROGRAM_TASK_FIELDS,
    QUEUE,
)
from netsim.engine.kernels.program_handlers import PROGRAM_HANDLERS
from netsim.engine.kernels.queue_handlers import QUEUE_HANDLERS
from netsim.model.builder import MAX_NICS, MAX_SWITCH_PORTS
from netsim.plugins.declarations import QUEUE_FUNCTIONS
from netsim.plugins.params import UNITS

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "transports" / "README.md").read_text("utf-8")
QUEUES = (ROOT / "netsim" / "queues" / "README.md").read_text("utf-8")
PROGRAMS = (ROOT / "netsim" / "traffic" / "README.md").read_text("utf-8")
TOPOLOGIES = (ROOT / "topologies" / "README.md").read_text("utf-8")
BLOCKS = sorted(
    path.stem for path in (ROOT / "netsim" / "blocks").glob("*.py") if path.stem != "__init__"
)


@pytest.mark.parametrize("block", BLOCKS)
def test_the_guide_has_the_signatures_of_every_block(block):
    tree = ast.parse((ROOT / "netsim" / "blocks" / f"{block}.py").read_text("utf-8"))
    functions = [one for one in tree.body if isinstance(one, ast.FunctionDef)]
    expected = [
        f"{one.name}({', '.join(_arguments(one))})"
        for one in functions
        if not one.name.startswith("_")
    ]
    row = re.search(rf"^\| `{block}` \|.*\| (.*) \|$", GUIDE, re.MULTILINE)
    assert row
    assert re.findall(r"`(.*?)`", row[1]) == expected


def section(title, guide=GUIDE):
    return guide.partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_fields_that_on_forward_sees_are_there():
    text = section("Telemetry from switches")
    for record, dtype in (("queue", QUEUE), ("port", PORT), ("pkt", PACKET)):
        names = set(re.findall(rf"`{record}\.(\w+)`", text))
        assert names
        assert names <= set(dtype.names)


def test_functions_of_the_section_on_receivers_are_there():
    text = section("A receiver that schedules")
    called = set(re.findall(r"\b((?:send|set|host|serialization|full)_?\w*)\(", text))
    assert {"send", "set_host_timer", "set_timer", "host_timer_armed"} <= called
    assert called <= set(netsim.transport.__all__)


def test_every_kind_of_value_is_explained():
    text = (ROOT / "docs" / "experiment-file.md").read_text("utf-8")
    table = text.partition("<!-- kinds of values -->")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| (\w+) \|", table, re.MULTILINE)) - {"kind"} == set(UNITS)


def test_trace_is_explained_once():
    assert len(re.findall(r"TRACE = ", GUIDE)) == 1
    assert len(re.findall(r"netsim trace ", GUIDE)) == 1


def test_the_scaffold_says_how_to_get_pytest():
    scaffold = (ROOT / "netsim" / "scaffold" / "test_my_transport.py").read_text("utf-8")
    command = (ROOT / "netsim" / "cli" / "new_files.py").read_text("utf-8")
    for text in (GUIDE, QUEUES, TOPOLOGIES, scaffold, command):
        assert "pip install pytest" in text


def cells(title, guide=QUEUES):
    """The rows of the table in a section of a guide, of queue disciplines, as lists of cells."""
    rows = re.findall(r"^\| (.*) \|$", section(title, guide), re.MULTILINE)
    return [re.split(r" \| ", row) for row in rows[1:]]


KINDS = {
    "queues": (QUEUES, QUEUE_HANDLERS, netsim.queue, queue_services),
    "programs": (PROGRAMS, PROGRAM_HANDLERS, netsim.program, program_services),
}
"""The guides to what is compiled beside transports, and what each is compared with."""


@pytest.mark.parametrize("kind", KINDS)
def test_the_guide_has_every_handler(kind):
    guide, handlers, _, _ = KINDS[kind]
    told = cells("Handlers", guide)
    assert told == [[f"`{row.form}`", row.called] for row in handlers.values()]


@pytest.mark.parametrize("kind", KINDS)
def test_the_guide_has_every_service(kind):
    guide, _, front, services = KINDS[kind]
    rows = cells("What handlers may ask for", guide)
    told = {form for row in rows for form in re.findall(r"`(\w+\([^)]*\))`", row[0])}
    tree = ast.parse(Path(services.__file__).read_text("utf-8"))
    offered = {
        f"{one.name}({', '.join(_arguments(one))})"
        for one in tree.body
        if isinstance(one, ast.FunctionDef) and one.name in front.__all__
    }
    assert told == offered
    text = section("What handlers may ask for", guide)
    others = set(re.findall(r"`(\w+)`", text)) - {"choose_class", "admit", "k"}
    assert others <= set(front.__all__)


def _arguments(function):
    rest = function.args.vararg
    return [*(one.arg for one in function.args.args), *([f"*{rest.arg}"] if rest else [])]


def test_the_guide_has_what_programs_declare_and_may_read():
    text = section("State, and who may touch it", PROGRAMS)
    declared = set(PROGRAM_DECLARATIONS) - {"PARAMS", "PRESETS"}
    assert all(re.search(rf"^    {name} = ", text, re.M) for name in declared)
    rows = cells("State, and who may touch it", PROGRAMS)
    host, task = (set(re.findall(r"`(\w+)`", row[1])) for row in rows)
    assert host <= set(PROGRAM_HOST_FIELDS)
    assert task <= set(PROGRAM_TASK_FIELDS)


def test_the_example_of_the_guide_to_programs_is_one_that_comes_with_netsim():
    code = re.findall(r"^    ((?:def |    ).*)$", PROGRAMS, re.M)
    program = (ROOT / "netsim" / "traffic" / "batch_server.py").read_text("utf-8")
    known = {*program.splitlines(), "    ..."}
    assert len(code) > 10
    assert [line for line in code if line not in known] == []


def test_the_guide_has_what_queue_disciplines_declare_and_may_set():
    text = section("State, and who may touch it", QUEUES) + section("Parameters", QUEUES)
    assert all(re.search(rf"\b{name}\b", text) for name in QUEUE_DECLARATIONS)
    assert [row[0].partition("(")[0] for row in cells("Parameters")] == [
        f"`{name}" for name in QUEUE_FUNCTIONS
    ]
    told = [set(re.findall(r"`(\w+)`", row[1])) for row in cells("State, and who may touch it")]
    assert told == [set(names) for names in QUEUE_SETTABLE.values()]
    named = re.search(r"To be read are(.*?)A file", text, re.S)[1]
    assert set(re.findall(r"`(\w+)`", named)) - {"queue", "port"} <= {*QUEUE.names, *PORT.names}


EXAMPLES = {
    "my_queue": ("An example: deficit round robin", QUEUES, 20),
    "my_topology": ("An example: a ring", TOPOLOGIES, 12),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_of_the_guide_is_the_scaffold(name):
    title, guide, least = EXAMPLES[name]
    text = section(title, guide)
    code = [line.removeprefix("    ") for line in text.splitlines() if line.startswith("    ")]
    scaffold = (ROOT / "netsim" / "scaffold" / f"{name}.py").read_text("utf-8")
    lines = {line.partition("  #")[0] for line in scaffold.splitlines()}
    assert len(code) > least
    assert [line for line in code if line not in lines] == []


def test_the_guide_has_every_call_of_the_builder():
    builder = netsim.network.NetworkBuilder
    methods = {name: method for name, method in vars(builder).items() if name[0] != "_"}
    forms = [
        f"`{name}({', '.join(list(inspect.signature(method).parameters)[1:])})`"
        for name, method in methods.items()
    ]
    assert sorted(row[0] for row in cells("What NetworkBuilder does", TOPOLOGIES)) == sorted(forms)


def test_the_guide_has_all_that_topologies_import():
    rows = cells("What netsim.network has besides", TOPOLOGIES)
    told = {name for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    assert told | {"NetworkBuilder"} == set(netsim.network.__all__)
    named = re.search(
        r"flat arrays, (.*?) \|", section("What netsim.network has besides", TOPOLOGIES)
    )
    assert all(hasattr(netsim.network.Network, one) for one in re.findall(r"`(\w+)`", named[1]))


def test_the_guide_has_the_limits_of_networks():
    text = section("Limits", TOPOLOGIES)
    assert mentions(text, f"{MAX_SWITCH_PORTS:,}")
    assert mentions(text, MAX_NICS)
