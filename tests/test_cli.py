"""The command line: what is printed, what is written, and the exit status."""

import os
import re
import resource
import subprocess
import sys
from importlib import import_module

import pytest
from click.testing import CliRunner
from fake_simulate import FakeSimulate

from netsim import load, load_sweep
from netsim.cli import app
from netsim.cli.app import COMMANDS
from netsim.cli.bench import format_count

EXPERIMENT = """
name = "small"
{extra}
[topology]
kind = "fat_tree"
hosts_per_leaf = 2
leaves = 4

[transport]
kind = "ndp"

[traffic]
kind = "permutation"
size = {size}

[outputs]
directory = "here/small"
"""
HEAVY = ("numba", "numpy", "pyarrow", "pydantic", "networkx", "matplotlib", "polars", "rich")


@pytest.fixture
def fake(monkeypatch):
    import_module("netsim.tracing")  # needs the true netsim.running.point
    fake = FakeSimulate()
    for name, module in fake.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    return fake


@pytest.fixture
def netsim(tmp_path, monkeypatch):
    """Runs `netsim …` in a directory with the experiments small.toml and sweep.toml."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(EXPERIMENT.format(extra="", size='"1MB"'))
    sweep = EXPERIMENT.format(extra="seed = [1, 2]", size='"1MB"')
    (tmp_path / "sweep.toml").write_text(sweep)
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


def fails(result, status, *texts):
    """Whether a command ended with `status` and one message, without a traceback."""
    assert result.exit_code == status, result.output
    assert "Traceback" not in result.output
    for text in texts:
        assert text in result.stderr
    return True


class TestStart:
    def test_help_imports_nothing_slow(self):
        code = "import sys; from netsim.cli import app; app(['--help'], standalone_mode=False); "
        code += f"print([name for name in {HEAVY} if name in sys.modules])"
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert run.stdout.splitlines()[-1] == "[]", run.stderr

    def test_help_answers_at_once(self):
        """In processor time: what others do on the machine is not its fault."""
        times = []
        for _ in range(5):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, "-m", "netsim", "--help"], check=True, stdout=-3)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        assert min(times) < 0.3

    @pytest.mark.parametrize("command", COMMANDS)
    def test_every_command_explains_itself(self, netsim, command):
        result = netsim(command, "--help")
        assert result.exit_code == 0
        assert "Usage" in result.output

    def test_wrong_usage(self, netsim):
        assert fails(netsim("fly"), 2, "No such command")
        assert fails(netsim("run"), 2, "Missing argument")

    def test_the_console_script_gives_the_exit_status(self, tmp_path):
        arguments = [sys.executable, "-m", "netsim", "run", "nothing.toml"]
        run = subprocess.run(arguments, capture_output=True, text=True, cwd=tmp_path)
        assert run.returncode == 2
        assert run.stderr.startswith("error: ")
        assert run.stderr.count("\n") == 1


class TestRun:
    def test_one_point(self, netsim, fake):
        result = netsim("run", "small.toml", "--threads", "2")
        assert result.exit_code == 0, result.output
        assert "FCT p99" in result.stdout
        assert "here/small" in result.stdout
        assert "compiling" in result.stderr
        assert fake.threads == [2]
        assert len(load("here/small").flows) == 8

    def test_a_sweep(self, netsim, fake):
        result = netsim("run", "sweep.toml", "--out", "there")
        assert result.exit_code == 0, result.output
        assert "slowdown" in result.stdout
        sweep = load_sweep("there")
        assert sweep.table["seed"].to_list() == [1, 2]
        assert [one.experiment["seed"] for one in sweep.points] == [1, 2]

    def test_values_from_the_command_line(self, netsim, fake):
        result = netsim("run", "small.toml", "--set", 'traffic.size="3MB"', "--seed", "1..3")
        assert result.exit_code == 0, result.output
        assert [point.seed for point in fake.seen] == [1, 2, 3]
        assert {point.traffic.params["size"] for point in fake.seen} == {3_000_000}

    def test_quiet(self, netsim, fake):
        result = netsim("run", "small.toml", "--quiet")
        assert result.exit_code == 0
        assert result.output == ""

    @pytest.mark.parametrize("name", ["small", "sweep"])
    def test_a_picture(self, netsim, fake, name):
        assert netsim("run", f"{name}.toml", "--plot").exit_code == 0
        assert os.path.getsize("here/small/fct.png") > 1000
        assert netsim("run", f"{name}.toml", "--again").exit_code == 0  # the picture is no obstacle

    def test_no_number_is_cut_off(self, netsim, fake):
        table = netsim("run", "sweep.toml").stdout
        assert "…" not in table
        row = next(line for line in table.splitlines() if line.split()[:1] == ["1"])
        assert len(row.split()) >= 12

    def test_what_needs_too_much_memory_is_refused_before_it_starts(self, netsim, fake):
        fake.memory_bytes = 10**18
        assert fails(netsim("run", "small.toml"), 2, "memory", "are available", "small.toml")
        assert not fake.seen
        assert not os.path.exists("here")

    def test_results_of_others_are_safe(self, netsim, fake):
        os.makedirs("here/small/thesis")
        assert fails(netsim("run", "small.toml"), 2, "thesis", "--out")

    def test_what_cannot_be_is_refused_before_the_run(self, netsim, fake):
        long = ("--out", "x" * 300)
        assert fails(netsim("run", "small.toml", *long), 2, "longer than 225 bytes")
        assert fails(netsim("run", "small.toml", "--out", "small.toml/x"), 2, "is a file")
        assert fails(netsim("run", "small.toml", "--threads", "100000"), 2, "1<=x<=1024")
        assert fails(netsim("run", "x" * 300), 2, "longer than 255 bytes")
        assert fails(netsim("run", "small.toml", "--set", "seed=\udcff"), 2, "\\udcff")
        assert fake.threads == []
        assert not fake.seen


class TestMistakes:
    @pytest.mark.parametrize(
        ("change", "texts"),
        [
            ("topology.kind='torus_of_doom'", ["topology", "torus_of_doom"]),
            ("transport.kind='npd'", ["transport", "npd", '"ndp"']),
            ("topology.leafs=3", ["topology.leafs", '"leaves"']),
            ("traffic.size=5", ["traffic.size", "unit"]),
            ("topology.host_rate='0Gbps'", ["topology.host_rate", "zero"]),
            ("nonsense", ["nonsense"]),
        ],
    )
    def test_are_named_with_file_and_key(self, netsim, fake, change, texts):
        assert fails(netsim("run", "small.toml", "--set", change), 2, *texts)
        assert not fake.seen

    def test_bad_toml(self, netsim, fake, tmp_path):
        (tmp_path / "bad.toml").write_text("name = ")
        for command in ("run", "check"):
            assert fails(netsim(command, "bad.toml"), 2, "bad.toml")

    def test_an_experiment_that_does_not_exist(self, netsim):
        assert fails(netsim("run", "nothing.toml"), 2, "nothing")

    def test_several_are_told_at_once(self, netsim, fake):
        result = netsim(
            "run", "small.toml", "--set", "traffic.size=5", "--set", "topology.leaves=-1"
        )
        assert fails(result, 2, "traffic.size", "topology.leaves")
        assert all(line.startswith("error: ") for line in result.stderr.splitlines())


class TestFailures:
    def test_a_stall_leaves_a_partial_result(self, netsim, fake):
        fake.fate["small"] = "stalled"
        assert fails(netsim("run", "small.toml"), 1, "flow 7", "no progress")
        assert not load("here/small").complete

    def test_a_failed_run(self, netsim, fake):
        fake.fate["small"] = "failed"
        assert fails(netsim("run", "small.toml", "--plot"), 1, "link 3")

    def test_the_other_points_of_a_sweep_are_run(self, netsim, fake):
        fake.fate["seed=1"] = "failed"
        result = netsim("run", "sweep.toml", "--plot")
        assert fails(result, 1, "seed=1", "link 3")
        sweep = load_sweep("here/small")
        assert sweep.table["status"].to_list() == ["failed", "finished"]
        assert len(sweep.points) == 1

    def test_code_that_does_not_come_back(self, netsim, fake, monkeypatch):
        monkeypatch.setattr("netsim.cli.run.end_now", sys.exit)
        fake.fate["seed=2"] = "hung"
        assert fails(netsim("run", "sweep.toml"), 1, "seed=2: fill does not come back")
        assert load_sweep("here/small").table["status"].to_list() == ["finished", "failed"]

    def test_a_checked_run_is_one_that_is_done_again(self, netsim, fake):
        for checked in (False, True, True):
            assert netsim("run", "small.toml", *["--checked"] * checked).exit_code == 0
        assert fake.checked == [False, True, True]


class TestInterruption:
    @pytest.mark.parametrize(("number", "status"), [("SIGINT", 130), ("SIGTERM", 143)])
    def test_keeps_what_is_finished(self, netsim, fake, number, status):
        fake.fate["seed=1"] = number
        assert fails(netsim("run", "sweep.toml"), status, "0 of 2 points")
        sweep = load_sweep("here/small")
        assert sweep.table["status"].to_list() == ["interrupted"]
        assert not sweep.points[0].complete
        assert len(fake.seen) == 1

    def test_twice_stops_at_once(self, netsim, fake):
        fake.fate["small"] = "impatient"
        assert fails(netsim("run", "small.toml"), 130, "interrupted")
        assert not os.path.exists("here/small")


class TestLooking:
    def test_check(self, netsim, fake):
        result = netsim("check", "sweep.toml", "--set", "traffic.size=['1MB', '2MB']")
        assert result.exit_code == 0, result.output
        for text in ('"size": "1MB"', "first of 4", "seed = 1, 2", "packet-hops", "8,000", "1.5 s"):
            assert text in result.stdout
        assert not fake.seen

    def test_check_says_what_compiling_takes(self, netsim, fake):
        assert (
            "1 of 3 kinds of transport and fabric to compile"
            in netsim("check", "small.toml").stdout
        )
        fake.missing = 0
        text = netsim("check", "small.toml").stdout
        assert "3 kinds of transport and fabric to load" in text
        # 1.5 s of simulation, 3 x 0.4 s to load, 1 s to start and 0.1 s around the point.
        assert "Altogether some 3.8 s" in text

    def test_check_says_for_which_points_something_is_assumed(self, netsim, fake):
        result = netsim("check", "sweep.toml")
        assert "Assumed: a machine that does not exist" in result.stdout
        fake.assumptions = {"seed=2": "much"}
        result = netsim("check", "sweep.toml", "--set", "seed='1..4'")
        assert "Assumed for seed=2: much" in result.stdout
        assert "Assumed for seed=1; seed=3 and 1 more: a machine" in result.stdout

    def test_check_says_what_does_not_fit(self, netsim, fake):
        fake.memory_bytes = 10**18
        result = netsim("check", "small.toml")
        assert fails(result, 2, "memory")
        assert "Prediction" in result.stdout

    def test_list(self, netsim):
        result = netsim("list")
        assert result.exit_code == 0
        for text in ("transports:", "fat_tree ", "permutation ", "experiments:"):
            assert text in result.stdout
        assert netsim("list", "topologies").stdout.startswith("topologies:\n  dumbbell")

    def test_show(self, netsim):
        result = netsim("show", "topology", "fat_tree")
        assert result.exit_code == 0
        assert 'host_rate = "800Gbps"  [rate]' in result.stdout
        assert netsim("show", "transports", "ndp").exit_code == 0
        assert netsim("show", "experiment", "small.toml").stdout.startswith('\nname = "small"')

    def test_show_a_preset(self, netsim):
        text = netsim("show", "transport", "ndp:paper").stdout
        assert text.startswith("transport ndp:paper (")
        assert 'queue_bytes = "72KB"' in text
        assert 'model = "trim"' in text
        text = netsim("show", "transport", "dcqcn:paper-40g").stdout
        assert "(default " in text
        assert 'preset "dcqcn' not in text
        assert fails(netsim("show", "transport", "ndp:papr"), 2, '"papr"', '"paper"')

    def test_show_is_made_of_sentences(self, netsim):
        text = " ".join(netsim("show", "transport", "ndp").stdout.split())
        assert 'preset "ndp:paper": the defaults' in text
        assert "bandwidth-delay product. Source: SIGCOMM 2017" in text
        for name in ("dcqcn", "homa", "roce"):
            text = " ".join(netsim("show", "transport", name).stdout.split())
            assert not re.search(r"[a-z)] Source:", text)
            assert ".." not in text.replace("...", "")

    def test_show_what_is_not_there(self, netsim):
        assert fails(netsim("show", "transport", "npd"), 2, "npd", '"ndp"')

    @pytest.mark.parametrize("kind", ["fct", "slowdown", "links"])
    @pytest.mark.parametrize("name", ["small", "sweep"])
    def test_plot(self, netsim, fake, kind, name):
        netsim("run", f"{name}.toml")
        result = netsim("plot", "here/small", "--kind", kind)
        assert result.exit_code == 0, result.output
        assert os.path.getsize(f"here/small/{kind}.png") > 1000

    def test_plot_of_a_sweep_over_load_and_transport(self, netsim, fake):
        transports = 'transport=["ndp", "roce"]'
        netsim("run", "small.toml", "--set", transports, "--set", "traffic.load=[0.5, 1.0]")
        result = netsim("plot", "here/small", "--kind", "load")
        assert result.exit_code == 0, result.output
        assert [line.split()[:2] for line in result.stdout.splitlines() if " 0.5 " in line] == [
            ["ndp", "0.5"],
            ["roce", "0.5"],
        ]
        assert result.stdout.splitlines()[-2].startswith("fair shares: each flow on one")
        assert os.path.getsize("here/small/load.png") > 1000
        assert fails(netsim("plot", "here/small", "--kind", "transports"), 2, "one value of")

    def test_plot_of_transports_from_several_directories(self, netsim, fake):
        for name in ("ndp", "roce"):
            netsim("run", "sweep.toml", "--set", f"transport={name}", "--out", name)
        result = netsim("plot", "ndp", "roce", "--kind", "transports")
        assert result.exit_code == 0, result.output
        rows = [line.split()[:2] for line in result.stdout.splitlines()]
        assert ["ndp", "2"] in rows
        assert ["roce", "2"] in rows
        assert os.path.getsize("ndp/transports.png") > 1000

    def test_plot_against_any_axis(self, netsim, fake):
        netsim("run", "small.toml", "--set", "traffic.load=[0.5, 1.0]", "--seed", "1..2")
        result = netsim("plot", "here/small", "--x", "load", "--y", "slowdown_p99")
        assert result.exit_code == 0, result.output
        rows = [line.split()[:3] for line in result.stdout.splitlines()]
        assert ["ndp", "0.5", "2"] in rows
        assert result.stdout.endswith("here/small/slowdown_p99_load.png\n")
        assert os.path.getsize("here/small/slowdown_p99_load.png") > 1000
        assert netsim("plot", "here/small", "--x", "load").exit_code == 0
        assert os.path.exists("here/small/fct_p99_load.png")
        assert fails(netsim("plot", "here/small", "--y", "drops"), 2, "--x")
        assert fails(netsim("plot", "here/small", "--x", "load", "--kind", "fct"), 2, "--kind")
        assert fails(netsim("plot", "here/small", "--x", "lod"), 2, '"load"')

    def test_plot_of_links_leaves_out_what_has_none(self, netsim, fake):
        netsim("run", "small.toml", "--set", 'transport=["ideal", "ndp"]')
        os.remove("here/small/transport=ideal/links.parquet")
        result = netsim("plot", "here/small", "--kind", "links")
        assert result.exit_code == 0, result.output
        assert "left out, without links: transport=ideal" in result.stderr

    @pytest.mark.parametrize("kind", ["load", "transports"])
    def test_plot_of_what_is_no_such_sweep(self, netsim, fake, kind):
        netsim("run", "sweep.toml")
        assert fails(netsim("plot", "here/small", "--kind", kind), 2, "sweep over")

    def test_plot_elsewhere(self, netsim, fake):
        netsim("run", "small.toml")
        assert netsim("plot", "here/small", "--out", "mine.svg").stdout == "mine.svg\n"
        assert fails(netsim("plot", "here/small", "--out", "mine.doc"), 2, "mine.doc")
        assert fails(netsim("plot", "nowhere"), 2, "holds no result")


class TestBench:
    def test_prints_the_speed_of_each_case(self, netsim, fake):
        arguments = ["--transport", "ndp", "--hosts", "32", "--threads", "1", "--threads", "2"]
        result = netsim("bench", *arguments, "--size", "1MB")
        assert result.exit_code == 0, result.output
        rows = [line.split() for line in result.stdout.splitlines() if line.split()[:1] == ["ndp"]]
        assert [row[:6] for row in rows] == [
            ["ndp", "32", "1MB", "1", "1", "M"],
            ["ndp", "32", "1MB", "2", "1", "M"],
        ]
        assert fake.threads == [1, 2]
        assert fake.seen[0].topology.params["leaves"] == 8

    def test_sizes_and_counts_can_be_read(self, netsim, fake):
        result = netsim("bench", "--transport", "ndp", "--hosts", "8192", "--threads", "1")
        assert " 15MB " in result.stdout  # 14,999,552 bytes
        assert format_count(353_398_676) == "353 M"
        assert [format_count(n) for n in (999, 2_500, 10**9)] == ["999", "2.5 k", "1 G"]
        assert "four minutes" in netsim("bench", "--help").stdout

    def test_a_transport_of_ones_own(self, netsim, fake, tmp_path):
        assert netsim("new-transport", "mine").exit_code == 0
        result = netsim("bench", "--transport", "./mine.py:careful", "--hosts", "16")
        assert result.exit_code == 0, result.output
        assert fake.seen[0].transport.params["target_delay"] == 1_000_000
        assert fake.seen[0].transport.plugin.path == tmp_path / "mine.py"

    def test_hosts_that_make_no_tree(self, netsim, fake):
        assert fails(netsim("bench", "--hosts", "127"), 2, "127")

    def test_a_transport_that_does_not_exist(self, netsim, fake):
        assert fails(netsim("bench", "--transport", "npd", "--hosts", "16"), 2, "npd")
