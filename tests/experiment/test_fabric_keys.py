"""Keys of [fabric]: the fields of the kernels' record, and the keys written back."""

from dataclasses import fields
from pathlib import Path

import pytest
from experiment_text import load, text

from netsim.engine.kernels.fields import FabricRecord
from netsim.engine.kernels.layout import fields_of
from netsim.experiment.resolve_fabric import describe_fabric, resolve_fabric, used_keys
from netsim.model.fabric import CircuitRules, Ecn, Fabric, Nic, PacketFormat
from netsim.params import keys_of
from netsim.plugins import registry

DISCIPLINES = {plugin.name: plugin for plugin in registry.plugins("queue")}


def test_kernel_fabric_fields_are_known_keys():
    known = {
        *(one.name for one in fields(Fabric)),
        *keys_of(Ecn),
        *keys_of(CircuitRules),
        *(one.name for one in (*fields(PacketFormat), *fields(Nic))),
        "seed",
    }
    known |= {param.name for plugin in DISCIPLINES.values() for param in plugin.params}
    assert set(fields_of(FabricRecord)) <= known


@pytest.mark.parametrize("model", DISCIPLINES)
@pytest.mark.parametrize("shared", ["none", "1MB"])
def test_described_fabric_resolves_to_the_same_fabric(model, shared):
    table = {"queue_discipline": model, "ecn": {"kmin_bytes": "10pkt", "pmax": 0.5}}
    table |= {"circuits": {"guard": "1us", "at_circuit_end": "drop", "indirect": "vlb"}}
    if any(param.name == "queue_bytes" for param in DISCIPLINES[model].params):
        table |= {"port_queue_bytes": {"a -> *": "1GB", "b:*": "2bdp+1pkt"}}
    table |= {"shared_buffer_bytes": shared} if model == "lossless" else {}
    fabric = resolve_fabric(table, PacketFormat())
    described = describe_fabric(fabric)
    assert described.keys() == used_keys(fabric)
    assert resolve_fabric(described, PacketFormat()) == fabric


def test_range_of_a_count_is_an_axis(tmp_path: Path) -> None:
    points = load(tmp_path, text(fabric='routing = "drill"\nsamples = "1..3"')).points()
    assert [point.fabric.routing.params["samples"] for point in points] == [1, 2, 3]
