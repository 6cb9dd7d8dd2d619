"""Deployments from files and tables, and rejected values."""

import pytest
from raises_input import raises_input

from netsim.workloads.inference import load_deployment
from netsim.workloads.inference.load import with_tp
from netsim.workloads.job.load import presets


def table(**parts):
    return {"model": "llama3_70b", "machine": "h100", **parts}


def test_deployment_presets_load():
    for name in presets("deployments"):
        assert load_deployment(name).tp > 0


@pytest.mark.parametrize("name", presets("overheads"))
def test_overhead_presets_load(name):
    assert load_deployment(table(overheads=name)).overheads.layer_overhead > 0


def test_deployment_file_is_loaded_and_checked(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('model = "llama3_70b"\nmachine = "lite"\n[options]\ntp = 16\n')
    found = load_deployment("mine.toml", tmp_path)
    assert (found.name, found.tp, found.machine.sms) == ("mine", 16, 33)
    file.write_text('model = "llama3_70b"\nmachine = "lite"\n[options]\ntp = 2\n')
    with raises_input("mine.toml", "GPU", "20GB", key="options.tp"):
        load_deployment("mine.toml", tmp_path)


def test_unspecified_tp_must_be_chosen():
    one = load_deployment(table())
    with raises_input(key="options.tp"):
        assert one.tp
    found = with_tp(one, 4)
    assert found is not None
    assert found.tp == 4
    assert with_tp(one, 16) is None


def test_kv_heads_are_shared_by_gpus_that_they_do_not_divide():
    odd = {"preset": "llama3_70b", "heads": 48, "kv_heads": 6, "head_size": 128}
    load_deployment(table(model=odd, options={"tp": 8, "kv_replicated": False}))
