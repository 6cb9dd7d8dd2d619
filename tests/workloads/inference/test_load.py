"""Deployments from files and tables, and rejected values."""

import pytest
from raises_input import mentions, raises_input

from netsim.errors import InputError
from netsim.workloads.inference import load_deployment
from netsim.workloads.inference.load import with_tp
from netsim.workloads.job.load import presets


def error_of(table):
    with pytest.raises(InputError) as caught:
        load_deployment(table)
    return str(caught.value)


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


def test_invalid_deployments_are_rejected():
    assert mentions(error_of({"machine": "h100"}), "model")
    assert "option" in error_of(table(option={}))
    assert mentions(error_of(table(options={"overlaps": True})), "options.overlaps")
    assert mentions(error_of(table(options={"tp": 16})), "options.tp", "16")
    assert mentions(error_of(table(options={"tp": 5})), "options.tp", "5", "64")
    assert mentions(error_of(table(formats={"compute": "fp4"})), "formats.compute", "fp4")
    assert mentions(
        error_of({"model": "llama3_70b", "machine": "paper_gpu", "formats": {"compute": "fp4"}}),
        "machine.memory_rate",
    )
    assert mentions(
        error_of(table(overheads={"memory_efficiency": 2})), "overheads.memory_efficiency", "2"
    )
    assert "overheads" in error_of(table(overheads="fast"))
    assert mentions(
        error_of(table(model={"preset": "llama3_70b", "heads": 7, "kv_heads": 7})),
        "model.heads",
        "7",
    )
    assert "overheads" in error_of(table(overheads={"prefill_efficiency": 1e-9}, options={"tp": 8}))
    odd = {"preset": "llama3_70b", "heads": 48, "kv_heads": 6, "head_size": 128}
    assert mentions(error_of(table(model=odd, options={"tp": 8})), "6")
    load_deployment(table(model=odd, options={"tp": 8, "kv_replicated": False}))


def test_unspecified_tp_must_be_chosen():
    one = load_deployment(table())
    with raises_input(key="options.tp"):
        assert one.tp
    found = with_tp(one, 4)
    assert found is not None
    assert found.tp == 4
    assert with_tp(one, 16) is None
