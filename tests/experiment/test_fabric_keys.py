"""The table of the keys of [fabric]: the page, the kernels' record, and what is written back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from netsim.engine.kernels.fields import FabricRecord
from netsim.engine.kernels.layout import fields_of
from netsim.experiment.resolve_fabric import describe_fabric, resolve_fabric, used_keys
from netsim.model.fabric import REQUIRED, CircuitRules, Ecn, Fabric, PacketFormat, keys_of
from netsim.plugins import registry

PAGE = Path(__file__).parents[2] / "experiments" / "README.md"
KEYS = keys_of(Fabric)
DISCIPLINES = {plugin.name: plugin for plugin in registry.all("queue")}


def lines_of(section: str) -> dict[str, tuple[str, str]]:
    """The keys of a section of the documented file, each with its value and what is said of it."""
    text = PAGE.read_text("utf-8").partition(f"[{section}]")[2].partition("\n\n")[0]
    rows = re.findall(r"(?m)^#?(\w+) = (\S+) *# (.+)$", text)
    return {key: (value, said) for key, value, said in rows}


TABLES = [("fabric", Fabric), ("fabric.ecn", Ecn), ("fabric.circuits", CircuitRules)]


@pytest.mark.parametrize(("section", "table"), TABLES)
def test_the_page_has_the_table(section, table):
    keys = {name: key for name, key in keys_of(table).items() if key.unit != "table"}
    lines = lines_of(section)
    assert {name: said for name, (_, said) in lines.items()} == {
        name: key.doc for name, key in keys.items()
    }
    for name, key in keys.items():
        # Of what is off or has to be written the page shows an example.
        if key.default not in (REQUIRED, None, "none"):
            written = f'"{key.default}"' if isinstance(key.default, str) else str(key.default)
            assert lines[name][0] == written


def test_the_page_has_the_keys_of_every_discipline():
    text = (
        PAGE.read_text("utf-8")
        .partition("## Queue disciplines")[2]
        .partition("\n\n`queue_discipline")[0]
    )
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in text.splitlines()[-1:0:-1]]
    told, pending = {}, []
    for name, *row in [row for row in rows if len(row) == 4 and "`" in row[1]]:
        pending.insert(0, tuple(row))
        if name:
            told[name.split("`")[1]], pending = pending, []
    assert told == {
        name: [(f"`{param.name}`", f"`{as_written(param)}`", param.doc) for param in plugin.params]
        for name, plugin in DISCIPLINES.items()
    }


def as_written(param):
    value = param.none if param.default is None else param.default
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else value


def test_kernels_are_given_no_key_that_there_is_not():
    known = {*KEYS, *keys_of(Ecn), *keys_of(CircuitRules), "seed", "control_bytes"}
    known |= {param.name for plugin in DISCIPLINES.values() for param in plugin.params}
    assert set(fields_of(FabricRecord)) <= known


@pytest.mark.parametrize("model", DISCIPLINES)
@pytest.mark.parametrize("shared", ["none", "1MB"])
def test_what_is_written_back_is_the_same_fabric(model, shared):
    table = {"queue_discipline": model, "ecn": {"kmin_bytes": "10pkt", "pmax": 0.5}}
    table |= {"circuits": {"guard": "1us", "in_flight": "lost", "indirect": "valiant"}}
    table |= {"shared_buffer_bytes": shared} if model == "lossless" else {}
    fabric = resolve_fabric(table, PacketFormat())
    described = describe_fabric(fabric)
    assert described.keys() == used_keys(fabric)
    assert resolve_fabric(described, PacketFormat()) == fabric


def test_a_fabric_of_nothing_written_is_the_default():
    assert resolve_fabric({}, PacketFormat()) == Fabric()
