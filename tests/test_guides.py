"""Plugin guides match the code: signatures, field names, examples and installation."""

import re
from pathlib import Path

import pytest
from marked import blocks, cells, marked, values

import netsim.network
import netsim.program
import netsim.queue
import netsim.routing
import netsim.transport
from netsim.engine.compiling.declarations import (
    PROGRAM_DECLARATIONS,
    QUEUE_DECLARATIONS,
    QUEUE_SETTABLE,
    ROUTING_DECLARATIONS,
)
from netsim.engine.kernels.fields import (
    ProgramHostRecord,
    ProgramTaskRecord,
    RouterRecord,
    RoutingPortRecord,
)
from netsim.engine.kernels.layout import PACKET, PORT, QUEUE, fields_of
from netsim.model.builder import MAX_NICS, MAX_SWITCH_PORTS
from netsim.params import UNITS
from netsim.plugins.declarations import QUEUE_FUNCTIONS

ROOT = Path(__file__).parent.parent
TEMPLATES = ROOT / "netsim/conformance/templates"
GUIDE = (ROOT / "transports" / "README.md").read_text("utf-8")
QUEUES = (ROOT / "netsim" / "queues" / "README.md").read_text("utf-8")
ROUTING = (ROOT / "netsim" / "routing_algorithms" / "README.md").read_text("utf-8")
PROGRAMS = (ROOT / "netsim" / "traffic" / "README.md").read_text("utf-8")
TOPOLOGIES = (ROOT / "topologies" / "README.md").read_text("utf-8")


def test_documented_on_forward_fields_exist():
    text = marked(GUIDE, "telemetry")
    for record, dtype in (("queue", QUEUE), ("port", PORT), ("pkt", PACKET)):
        names = set(re.findall(rf"`{record}\.(\w+)`", text))
        assert names
        assert names <= set(dtype.names)


def test_documented_receiver_functions_exist():
    text = marked(GUIDE, "receiver")
    called = set(re.findall(r"\b((?:send|set|host|serialization|full)_?\w*)\(", text))
    assert {"send", "set_host_timer", "set_timer", "host_timer_armed"} <= called
    assert called <= set(netsim.transport.__all__)


def test_every_parameter_kind_is_documented():
    page = (ROOT / "docs" / "experiment-file.md").read_text("utf-8")
    assert {row[0] for row in cells(page, "kinds")} == set(UNITS)


@pytest.mark.parametrize(
    ("guide", "front"),
    [(QUEUES, netsim.queue), (ROUTING, netsim.routing), (PROGRAMS, netsim.program)],
)
def test_exports_in_guides_exist(guide, front):
    assert set(re.findall(r"`(\w+)`", marked(guide, "exports"))) <= set(front.__all__)


def test_program_guide_lists_declarations_and_fields():
    declared = set(PROGRAM_DECLARATIONS) - {"PARAMS", "PRESETS"}
    assert all(re.search(rf"^{name} = ", PROGRAMS, re.M) for name in declared)
    rows = cells(PROGRAMS, "readable")
    host, task = (set(re.findall(r"`(\w+)`", row[1])) for row in rows)
    assert host <= set(fields_of(ProgramHostRecord))
    assert task <= set(fields_of(ProgramTaskRecord))


def test_program_guide_example_matches_batch_server():
    of_server = PROGRAMS.partition("## Messages with contents")[0]
    code = re.findall(r"^((?:def |    ).*)$", "".join(blocks(of_server, "python")), re.M)
    program = (ROOT / "netsim" / "traffic" / "batch_server.py").read_text("utf-8")
    known = {*program.splitlines(), "    ..."}
    assert len(code) > 10
    assert [line for line in code if line not in known] == []


def test_queue_guide_lists_declarations_and_fields():
    assert all(re.search(rf"\b{name}\b", QUEUES) for name in QUEUE_DECLARATIONS)
    assert [row[0].partition("(")[0] for row in cells(QUEUES, "functions")] == [
        f"`{name}" for name in QUEUE_FUNCTIONS
    ]
    settable = [set(re.findall(r"`(\w+)`", row[1])) for row in cells(QUEUES, "settable")]
    assert settable == [set(names) for names in QUEUE_SETTABLE.values()]
    named = set(re.findall(r"`(\w+)`", marked(QUEUES, "readable"))) - {"queue", "port"}
    assert named <= {*QUEUE.names, *PORT.names}


def test_routing_guide_lists_declarations_and_fields():
    assert [name for name in ROUTING_DECLARATIONS if not re.search(rf"\b{name}\b", ROUTING)] == []
    named = set(re.findall(r"`(\w+)`", marked(ROUTING, "readable")))
    assert named <= {*fields_of(RouterRecord), *fields_of(RoutingPortRecord)}


def test_topology_guide_states_the_network_limits():
    limits = {"switch-ports": f"{MAX_SWITCH_PORTS:,}", "host-nics": f"{MAX_NICS}"}
    assert values(TOPOLOGIES) == limits
