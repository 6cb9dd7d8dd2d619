"""`netsim bench --against`, with fake programs that print htsim's output."""

import json
import stat
import sys

import pytest
from raises_input import fails, has

HONEST = """
flows = [line.split() for line in open(option("-tm")) if "->" in line]
assert "Nodes 8" in open(option("-topo")).read()
print("Starting simulation", flush=True)
for words in flows:
    src, _, dst = words[0].partition("->")
    print(f"Flow ndp_{src}_{dst} flow_id {words[2]} finished at 12.5 total bytes 4096")
print("Done")
"""
OPTION = "import sys\ndef option(name): return sys.argv[sys.argv.index(name) + 1]\n"
CASE = ("--hosts", "8", "--size", "8KB", "--threads", "1", "--repeats", "2")


@pytest.fixture(autouse=True)
def _plain_python(monkeypatch):
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")  # netsim's runs


@pytest.fixture
def peer(tmp_path):
    def write(code, name="htsim_ndp"):
        path = tmp_path / name
        path.write_text(f"#!{sys.executable}\n{OPTION}{code}")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    return write


def test_bench_runs_and_compares_both_programs(netsim, peer):
    result = netsim("bench", "--against", peer(HONEST), *CASE)
    assert result.exit_code == 0, result.output
    rows = {
        line.split()[0]: line.split()[1:] for line in result.stdout.splitlines() if line.split()
    }
    assert rows["peak"][0] == "memory"
    assert rows["max"][1] == rows["p50"][1] == "12.5us"
    programs = [line.partition(":")[0] for line in result.stderr.splitlines()]
    assert programs[1:] == ["netsim", "htsim_ndp"] * 2


def test_bench_json_compares_on_an_experiment(netsim, peer):
    experiment = ("--experiment", "sweep.toml", "--set", "seed=2", "--set", "traffic.size=8KB")
    options = ("--repeats", "1", "--threads", "1", "--json")
    result = netsim("bench", "--against", peer(HONEST), *experiment, *options)
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)
    assert {"version", "date", "commit", "machine", "numba"} < set(record)
    (found,) = record["comparisons"]
    subject = {"transport": "ndp", "hosts": 8, "flows": 8, "bytes": 8 * 8000, "threads": 1}
    assert subject.items() <= found.items()
    assert found["completion_us"]["p99"]["peer"] == 12.5
    times = [figures["netsim"] for figures in found["completion_us"].values()]
    assert 4.0 < times[0] <= times[3]
    assert times[1:] == sorted(times[1:])
    cost = found["costs"]["whole_s"]
    assert cost["ratio"] == pytest.approx(cost["peer"] / cost["netsim"])
    assert [len(runs) for runs in found["runs"].values()] == [1, 1]


def test_htsim_without_enough_ports_names_the_file_and_what_to_change(netsim, peer):
    line = "a.cpp:853: void init(): Assertion `switch->{}(queue) < 96' failed."
    for function, told in (("addPort", True), ("other", False)):
        code = f"import os\nprint({line.format(function)!r}, flush=True)\nos.abort()"
        result = netsim("bench", "--against", peer(code), *CASE)
        assert fails(result, 2, "htsim_ndp", "signal 6", "a.cpp:853")
        assert has(result.stderr, "fat_tree_topology.cpp", "96 and 64 to 256") is told


def test_unsuitable_experiments_are_rejected(netsim, peer):
    program = peer(HONEST)
    result = netsim("bench", "--against", program, "--experiment", "sweep.toml")
    assert fails(result, 2, "sweep.toml", "2 points", "--set seed")
    result = netsim("bench", "--against", program, "--transport", "roce")
    assert fails(result, 2, "transport.kind", "roce", "ndp")
