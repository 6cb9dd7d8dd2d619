"""What the guides say of the code holds: signatures, names of fields, how to get what is needed."""

import ast
import re
from pathlib import Path

import pytest

import netsim.transport
from netsim.engine.kernels.layout import PACKET, PORT, QUEUE

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "transports" / "README.md").read_text("utf-8")
BLOCKS = sorted(
    path.stem for path in (ROOT / "netsim" / "blocks").glob("*.py") if path.stem != "__init__"
)


@pytest.mark.parametrize("block", BLOCKS)
def test_the_guide_has_the_signatures_of_every_block(block):
    tree = ast.parse((ROOT / "netsim" / "blocks" / f"{block}.py").read_text("utf-8"))
    functions = [one for one in tree.body if isinstance(one, ast.FunctionDef)]
    expected = [
        f"{one.name}({', '.join(argument.arg for argument in one.args.args)})"
        for one in functions
        if not one.name.startswith("_")
    ]
    row = re.search(rf"^\| `{block}` \|.*\| (.*) \|$", GUIDE, re.MULTILINE)
    assert row
    assert re.findall(r"`(.*?)`", row[1]) == expected


def section(title):
    return GUIDE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_fields_that_on_forward_sees_are_there():
    text = section("Telemetry from switches")
    for record, dtype in (("queue", QUEUE), ("port", PORT), ("pkt", PACKET)):
        names = set(re.findall(rf"`{record}\.(\w+)`", text))
        assert names
        assert names <= set(dtype.names)


def test_functions_of_the_section_on_receivers_are_there():
    text = section("A receiver that schedules")
    called = set(re.findall(r"\b((?:send|set|host|serialisation|full)_?\w*)\(", text))
    assert {"send", "set_host_timer", "set_timer", "host_timer_armed"} <= called
    assert called <= set(netsim.transport.__all__)


def test_trace_is_explained_once():
    assert len(re.findall(r"TRACE = ", GUIDE)) == 1
    assert len(re.findall(r"netsim trace ", GUIDE)) == 1


def test_the_scaffold_says_how_to_get_pytest():
    scaffold = (ROOT / "netsim" / "scaffold" / "test_my_transport.py").read_text("utf-8")
    command = (ROOT / "netsim" / "cli" / "new_transport.py").read_text("utf-8")
    for text in (GUIDE, scaffold, command):
        assert "pip install pytest" in text
