"""Jobs from files, presets and tables, and what is wrong with them."""

import pytest
from raises_input import raises_input

from netsim.errors import InputError
from netsim.workloads.job import load_job, presets

SMALL = {
    "model": {"layers": 4, "hidden": 512, "heads": 8, "sequence": 1024, "vocabulary": 1000},
    "machine": "a100_80gb",
    "layout": {"global_batch": 8},
}


def with_changes(**changes):
    """The small job with keys changed: `model__layers=3`."""
    job = {name: dict(part) if isinstance(part, dict) else part for name, part in SMALL.items()}
    for path, value in changes.items():
        part, _, key = path.partition("__")
        if key:
            job.setdefault(part, {})
            if isinstance(job[part], str):
                job[part] = {"preset": job[part]}
            job[part][key] = value
        else:
            job[part] = value
    return job


def told(job):
    with pytest.raises(InputError) as caught:
        load_job(job)
    return [(one.key, one.message) for one in caught.value.errors]


def test_presets_are_right():
    for name in presets():
        job = load_job(name)
        assert (job.name, job.layout.micro_batches > 0) == (name, True)


def test_a_file_may_begin_with_presets(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(
        'model = "gpt3_175b"\n[machine]\npreset = "a100_80gb"\n[machine.scale_out]\n'
        'rate = "100Gbps"\n[layout]\ntp = 8\npp = 16\nglobal_batch = 32\nrecompute = "full"\n'
    )
    job = load_job("mine.toml", tmp_path)
    assert job == load_job(str(file))
    assert job.machine.scale_out.rate == 100 * 10**9
    assert job.machine.scale_out.launch == 20 * 10**6  # as in the preset
    assert job.layout.gpus == 128


WRONG = {
    "an unknown key": ({"layout__tpp": 2}, "layout.tpp"),
    "a missing key": ({"layout": {}}, "layout.global_batch"),
    "no such preset": ({"machine": "a200"}, "machine"),
    "a bool for a count": ({"layout__tp": True}, "layout.tp"),
    "a size without a unit": ({"machine__memory": 80}, "machine.memory"),
    "no share": (
        {"machine__scale_up": {"rate": "1Gbps", "efficiency": 1.5}},
        "machine.scale_up.efficiency",
    ),
    "steps that fall": (
        {"machine__memory_efficiency": [[0, 0.5], ["2MB", 0.6], ["1MB", 0.7]]},
        "machine.memory_efficiency",
    ),
    "a schedule": ({"layout__schedule": "2f2b"}, "layout.schedule"),
    "heads": ({"model__heads": 7}, "model.heads"),
    "too many experts": (
        {"model__experts": 4, "model__active_experts": 5},
        "model.active_experts",
    ),
    "experts of a dense model": ({"model__shared_experts": 1}, "model.shared_experts"),
    "half a latent attention": ({"model__kv_rank": 64}, "model.kv_rank"),
    "tp beyond domains": ({"layout__tp": 16}, "layout.tp"),
    "pp and layers": ({"layout__pp": 3}, "layout.pp"),
    "batch": ({"layout__dp": 3}, "layout.global_batch"),
    "interleaving": ({"layout__virtual_stages": 2}, "layout.virtual_stages"),
    "two counts of replicas": (
        {"layout__dp": 4, "layout__dp_levels": [2, 2, 2]},
        "layout.dp",
    ),
    "replicas beyond a rack": (
        {"layout__tp": 4, "layout__dp_levels": [4, 2, 1]},
        "layout.dp_levels",
    ),
    "experts that are not there": ({"layout__ep": 2}, "layout.ep"),
    "domains of experts": ({"layout__ep_domains": 4}, "layout.ep_domains"),
    "nobody to share with": ({"layout__sp": True}, "layout.sp"),
    "nothing to compute again": (
        {"layout__recompute": "selective", "model__fused_attention": True},
        "layout.recompute",
    ),
    "a format without a peak": ({"precision__compute": "fp4"}, "precision.compute"),
    "memory": ({"machine__memory": "100MB"}, "machine.memory"),
}


@pytest.mark.parametrize(("changes", "key"), WRONG.values(), ids=WRONG)
def test_each_mistake_is_told_once_with_its_key(changes, key):
    assert [where for where, _ in told(with_changes(**changes))].count(key) == 1


def test_the_small_job_itself_is_right():
    assert load_job(with_changes()).layout.micro_batches == 8


def test_everything_wrong_is_told_at_once(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('model = "gpt4"\nmachine = "a100_80gb"\n[layout]\ntp = "8"\nx = 1\n')
    with pytest.raises(InputError) as caught:
        load_job(file)
    lines = str(caught.value).splitlines()
    assert len(lines) == 4
    assert all(line.startswith(str(file)) for line in lines)


def test_files_that_are_no_toml(tmp_path):
    for text in ["layers = ", "a = " + "[" * 2000, "\x00"]:
        file = tmp_path / "mine.toml"
        file.write_text(text)
        with raises_input("TOML", code="unreadable"):
            load_job(file)


def test_names_that_stand_for_nothing(tmp_path):
    with raises_input("gpt3_175b"):
        load_job("gpt3_175", tmp_path)
