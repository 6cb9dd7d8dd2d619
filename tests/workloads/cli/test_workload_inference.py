"""`netsim workload` for inference: deployments and the comparison of Lite-GPUs with H100."""

import json

import pytest
from cli_outcome import fails
from raises_input import has, mentions

from netsim.units import parse_time_ps
from netsim.workloads.cli.workload_inference import iteration_table
from netsim.workloads.inference import load_deployment


def test_deployment_preset_is_shown(lines):
    found = lines("workload", "show", "llama3_70b_lite")
    assert mentions(found, "855.6", "80")
    assert mentions(found, "32")
    assert any(has(line, "32", "2.265GB", "865,970", "577", "732") for line in found)


def test_set_option_changes_deployment_values(netsim):
    changes = ("options.tp=0", "options.overlap=true", "limits.prompt=500", "overheads=h100_vllm")
    overrides = [one for change in changes for one in ("--set", change)]
    output = json.loads(netsim("workload", "show", "llama3_70b_lite", "--json", *overrides).stdout)
    assert [one["tp"] for one in output["sizes"]] == [4, 8, 16, 32]
    assert output["limits"]["prompt"] == 500
    assert output["overheads"]["layer_overhead"] > 0
    best = output["sizes"][0]["decode"]
    assert best["memory_batch"] == best["kv_capacity_tokens"] // 500


@pytest.mark.parametrize("roofline", ["parts", "layer"])
def test_iteration_parts_combine_to_the_whole(roofline):
    options = {"tp": 8, "embeddings": True, "roofline": roofline}
    table = {"model": "llama3_70b", "machine": "h100", "options": options}
    measured = {**table, "overheads": "h100_vllm", "limits": {"prompt": 3000}}
    made = iteration_table(load_deployment(measured), 8)
    value = {
        one.name: [float(parse_time_ps(cell)) for cell in one.cells] for one in made.columns[1:]
    }
    names = "matrix compute", "weight read", "attention compute", "KV read"
    names += "head compute", "head read"
    for row, whole in enumerate(value["without all-reduces"]):
        rows, weights, scores, kv, head, read = (value[name][row] for name in names)
        device = max(rows, weights) + max(scores, kv) + max(head, read)
        if roofline == "layer":
            device = max(rows + scores + head, weights + kv + read)
        own = device + value["activations"][row] + value["software"][row]
        assert whole == pytest.approx(max(own, value["floor"][row]), rel=1e-3)
    bare = iteration_table(load_deployment(table), 8)
    assert not {"activations", "software", "floor"} & {one.name for one in bare.columns}


def test_deployment_file_is_read_and_checked(netsim, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(
        'model = "mixtral_8x7b"\nmachine = "h100"\n[options]\ntp = 2\n[limits]\nttft = "2s"\n'
    )
    output = json.loads(netsim("workload", "show", "mine.toml", "--json").stdout)
    assert (output["name"], output["limits"]["ttft"]) == ("mine", 2 * 10**12)
    wrong = netsim("workload", "show", "mine.toml", "--set", "options.tp=3")
    assert fails(wrong, 2, "mine.toml", "options.tp", "3", "32")


@pytest.mark.parametrize("what", ["named", "preset", "table"])
def test_deployment_of_an_experiment_is_shown(netsim, tmp_path, monkeypatch, what):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "run.toml"
    inside = '[traffic.deployment]\nmodel = "llama3_70b"\nmachine = "h100"\noptions = { tp = 4 }\n'
    named = '[traffic]\nkind = "serving"\ndeployment = "llama3_70b_h100"\n'
    file.write_text(inside if what == "table" else named)
    name = "serving_small" if what == "named" else "run.toml"
    output = json.loads(netsim("workload", "show", name, "--json").stdout)
    assert [one["tp"] for one in output["sizes"]] == [4 if what == "table" else 8]


def test_invalid_deployment_of_an_experiment_is_reported(netsim, tmp_path):
    file = tmp_path / "run.toml"
    file.write_text("[traffic]\ndeployment = 3\n")
    assert fails(netsim("workload", "show", str(file)), 2, "traffic.deployment", "3")
    file.write_text('[traffic.deployment]\nmodel = "llama3_70b"\noptions = { tp = 4 }\n')
    wrong = netsim("workload", "show", str(file))
    assert fails(wrong, 2, "run.toml", "traffic.deployment.machine")


def test_lite_gpu_prints_the_comparison(lines):
    found = lines("workload", "lite-gpu")
    assert any(line.startswith("llama3_405b 126 3,187,671,040 9,636.741 6.474") for line in found)
    assert any(has(line, "llama3_405b", "h100", "lite_netbw") for line in found)
    assert mentions(found, "KV", "lite_netbw", "lite_membw_netbw", "lite_netbw_flops")
    assert any(line.startswith("llama3_405b lite 32") for line in found)


def test_lite_gpu_reports_a_model_that_does_not_fit(lines):
    (output,) = lines("workload", "lite-gpu", "--set", "model=deepseek_v3")
    assert mentions(output, "8", "675.6GB", "fp8", "h100", "640GB")
    changes = ("model=deepseek_v3", "formats.weights=fp4")
    found = lines("workload", "lite-gpu", changes=changes)
    assert any(line.startswith("deepseek_v3 lite 32") for line in found)


def test_lite_gpu_rejects_invalid_changes(netsim):
    def lite_gpu(*changes):
        overrides = [one for change in changes for one in ("--set", change)]
        return netsim("workload", "lite-gpu", *overrides)

    assert fails(lite_gpu("model=gpt5"), 2, "gpt5")
    assert fails(lite_gpu("options.tp=8"), 2, "options.tp")
    assert fails(lite_gpu("machine=h100"), 2, "machine")
    assert fails(lite_gpu("limits.ttft=fast"), 2, "limits.ttft")
    assert fails(lite_gpu("overheads.x=1"), 2, "overheads.x")
