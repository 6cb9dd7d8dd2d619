"""Former names: each is an error that states the new name, and none is still declared."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from inspect import signature

import pytest
from click import Context
from click.testing import CliRunner

from netsim.cli.app import app, commands
from netsim.cli.plot import KINDS
from netsim.cli.trace import EVENTS
from netsim.engine.kernels import fields
from netsim.engine.kernels.handlers import HANDLERS
from netsim.engine.kernels.queue_handlers import QUEUE_HANDLERS
from netsim.errors import did_you_mean
from netsim.experiment import schema
from netsim.model import fabric
from netsim.model.builder import NetworkBuilder
from netsim.model.network import Network
from netsim.model.routing_policy import RoutingPolicy
from netsim.model.tasks import TaskTable
from netsim.plugins import registry
from netsim.plugins.files import describe
from netsim.renames import RENAMED
from netsim.results import COLUMNS, files
from netsim.workloads.cli.workload import command as workload

SECTIONS = {
    "": schema.FileSection,
    "fabric": schema.FabricSection,
    "fabric.ecn": schema.EcnSection,
    "fabric.circuits": schema.CircuitsSection,
    "faults": schema.FaultSection,
    "routing": schema.RoutingSection,
    "stop": schema.StopSection,
    "measure": schema.MeasureSection,
    "outputs": schema.OutputsSection,
}
CALLED = (TaskTable, NetworkBuilder, RoutingPolicy, Network)
NAMES = {
    "command": commands(),
    "workload": workload.commands,
    "plot": KINDS,
    "fabric.routing": registry.names("routing"),
    "fabric.plane_balancing": fabric.PLANE_BALANCING,
    "fabric.circuits.at_circuit_end": fabric.AT_CIRCUIT_END,
    "fabric.circuits.indirect": fabric.INDIRECT,
    "column": set().union(*COLUMNS.values()),
    "file": files.tables(),
    "event": EVENTS,
    "field": {
        name for one in vars(fields).values() for name in getattr(one, "__annotations__", ())
    },
    "handler": [*HANDLERS, *QUEUE_HANDLERS],
    "attribute": {name for kind in CALLED for name in (*dir(kind), *signature(kind).parameters)},
}
ELSEWHERE = {"option", "subcommand", "site", "prices", "deployment", "deployment overheads", "job"}


def declared(kind: str) -> Iterable[str]:
    """Return the current names of a kind."""
    if kind in NAMES:
        return NAMES[kind]
    if kind in SECTIONS:
        return SECTIONS[kind].model_fields
    if kind in RENAMED and kind.startswith("netsim."):
        return vars(import_module(kind))
    what, _, name = kind.partition(" ")
    plugin, _, key = name.partition(".")
    found = registry.find(what, plugin)
    if not key:
        return [param.name for param in found.params]
    param = found.param(key)
    assert param is not None
    return param.choices


def test_former_names_are_rejected_with_the_new_name() -> None:
    for kind in RENAMED.keys() - ELSEWHERE:
        names = declared(kind)
        for old, new in RENAMED[kind].items():
            assert old not in names, (kind, old)
            assert new in names, (kind, new)
            assert f'"{new}"' in did_you_mean(old, names)
            if kind == "attribute":
                assert f"write {new}" in describe(TypeError(f"unexpected keyword argument '{old}'"))
            if kind.startswith("netsim."):
                with pytest.raises(ImportError, match=new):
                    getattr(import_module(kind), old)


def test_former_options_are_rejected_with_the_new_name() -> None:
    found = {name: app.get_command(Context(app), name) for name in commands()}
    options = {name: [o for p in one.params for o in p.opts] for name, one in found.items() if one}
    for old, new in RENAMED["option"].items():
        having = [name for name, there in options.items() if new in there and old not in there]
        assert having, new
        for name in having:
            outcome = CliRunner().invoke(app, [name, old])
            assert (outcome.exit_code, f"write {new}" in outcome.output) == (2, True)
