"""Loading jobs from files, presets and tables, and errors in them."""

from raises_input import raises_input

from netsim.workloads.job import load_job, presets

SMALL = {
    "model": {"layers": 4, "hidden": 512, "heads": 8, "sequence": 1024, "vocabulary": 1000},
    "machine": "a100_80gb",
    "layout": {"global_batch": 8},
}


def test_preset_jobs_load():
    for name in presets():
        job = load_job(name)
        assert (job.name, job.layout.micro_batches > 0) == (name, True)


def test_job_extends_a_preset_key_by_key(tmp_path):
    changes = {"layout": {"dp": 16}, "machine": {"scale_out": {"rate": "800Gbps"}}}
    job, base = load_job({"preset": "llama3_8b", **changes}), load_job("llama3_8b")
    assert (job.name, job.layout.dp, job.layout.global_batch) == ("llama3_8b", 16, 512)
    assert job.machine.scale_out.rate == 800_000_000_000 != base.machine.scale_out.rate
    assert job.machine.scale_up == base.machine.scale_up
    assert job.model == base.model
    (tmp_path / "loop.toml").write_text('preset = "loop.toml"')
    with raises_input("extends itself"):
        load_job({"preset": "loop.toml"}, tmp_path)
    with raises_input("preset", "3 is not a name"):
        load_job({"preset": 3})


def test_job_file_overrides_presets(tmp_path):
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


def test_invalid_toml_is_rejected(tmp_path):
    for text in ["layers = ", "a = " + "[" * 2000, "\x00", "a = " + "9" * 5000]:
        file = tmp_path / "mine.toml"
        file.write_text(text)
        with raises_input(code="unreadable", file="mine.toml"):
            load_job(file)
    file.write_text("[layout]\ntp = 0x" + "f" * 5000)
    with raises_input(code="out_of_range", file="mine.toml", key="layout.tp"):
        load_job(file)


def test_unknown_preset_is_rejected_with_suggestion(tmp_path):
    with raises_input("gpt3_175b"):
        load_job("gpt3_175", tmp_path)
