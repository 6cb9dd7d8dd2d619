"""A plugin of one's own, the whole way as its author goes it: `netsim new-KIND`, and the commands
that it names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
import small_runs
from as_a_user import PLAIN, python

from netsim import load
from netsim.network import build_topology
from netsim.plugins import registry

FILES = ["mine.py", "mine.toml", "test_mine.py"]
PARAMETER = {
    "transport": "target_delay",
    "queue": "quantum_bytes",
    "routing": "flowlet_gap",
    "topology": "hosts_per_switch",
    "traffic": "size",
}
"""Kinds of plugins, and a parameter of each template."""

plain = pytest.fixture(small_runs.netsim.__wrapped__, name="plain")
Netsim = small_runs.Netsim
Commands = Callable[..., list[list[str]]]


@pytest.fixture
def created(plain: Netsim) -> Commands:
    """Creates mine.py of a kind; returns the commands to go on with."""

    def created(kind: str) -> list[list[str]]:
        said = plain(f"new-{kind}", "mine").stdout
        assert sorted(path.name for path in Path().iterdir()) == FILES
        lines = [line.split() for line in said.splitlines() if line.startswith("  ")]
        assert [line[0] for line in lines] == ["netsim", "netsim", "pytest"]
        return [line[1:] for line in lines]

    return created


def sweep_of(plain: Netsim, run: list[str], *changes: str, out: str = "results/mine") -> Path:
    """Run mine.toml with changes; return its results, all finished."""
    outcome = plain(*run, "--out", out, *(word for one in changes for word in ("--set", one)))
    assert outcome.exit_code == 0, outcome.output
    found = Path(out)
    assert {*load(found).table["status"]} == {"finished"}
    return found


def run_test(test: list[str], *options: str) -> None:
    """Run the new plugin's own test."""
    python(Path(), "pytest", *test, *options, "-p", "no:cacheprovider", env=PLAIN)


def source_in(result: Path, kind: str) -> str:
    """Return the source that a result has of mine.py."""
    plugins = load(result)[0].experiment["plugins"]
    (plugin,) = [one for one in plugins if one["kind"] == kind]
    return str(plugin["sources"]["mine.py"])


def test_transport(plain: Netsim, created: Commands) -> None:
    check, run, test = created("transport")
    assert "pass" in plain(*check, "--case", "sizes", "--case", "random loss").stdout
    assert (sweep_of(plain, run) / "fct_cdf.png").stat().st_size > 1000
    run_test(test)  # it tries all cases
    both = "transport=['./mine.py:careful', 'ideal']"
    careful = load(sweep_of(plain, ["run", "mine.toml"], both, out="both"))[0]
    assert careful.experiment["resolved"]["transport"]["target_delay"] == "1us"
    assert "target_delay" in plain("show", "transport", "mine.py").stdout


def test_queue(plain: Netsim, created: Commands) -> None:
    check, run, test = created("queue")
    assert "pass" in plain(*check, "--case", "lone packets").stdout
    small = ("traffic.size=40KB", "flow_classes.second.traffic.size=40KB")
    results = sweep_of(plain, run, *small)
    own, strict = (results / f"queue_discipline={name}" for name in ("mine.py", "drop_tail"))
    assert source_in(own, "queue") == Path("mine.py").read_text()
    # The first class shares its link, where strict priorities let the other wait.
    shared, alone = (
        load(folder).flows.filter(pl.col("flow_class") == "")["fct_ps"].max()
        for folder in (own, strict)
    )
    assert alone < 0.7 * shared
    run_test(test, "-k", "half")


@pytest.mark.slow
def test_the_test_of_a_queue_passes_as_it_is(created: Commands) -> None:
    _, _, test = created("queue")
    run_test(test)


def test_routing(plain: Netsim, created: Commands) -> None:
    check, run, test = created("routing")
    assert "pass" in plain(*check, "--case", "tree").stdout
    small = ("topology.leaves=2", "topology.hosts_per_leaf=4", "traffic.size=200KB", "seed=1")
    own = sweep_of(plain, run, *small) / "routing=mine.py"
    source = Path("mine.py").read_text()
    assert source_in(own, "routing") == source
    # The source goes with the result, from which a flow is traced.
    Path("mine.py").unlink()
    trace = (str(own), "--flow", "0", "--trust", "--limit", "5")
    assert "leaf0" in plain("trace", *trace).stdout
    Path("mine.py").write_text(source)
    run_test(test, "-k", "uplinks")


def test_topology(plain: Netsim, created: Commands) -> None:
    look, run, test = created("topology")
    assert "diameter" in plain(*look).stdout
    results = sweep_of(plain, run, "traffic.size=20KB")
    assert load(results).table["topology"].to_list() == ["mine", "fat_tree"]
    run_test(test)


def test_traffic(plain: Netsim, created: Commands) -> None:
    check, run, test = created("traffic")
    assert "FAIL" not in plain(*check).stdout
    flows = load(sweep_of(plain, run, "traffic.duration=5us")).flows
    assert flows["size_bytes"].unique().to_list() == [16_000]
    run_test(test)


def test_the_name_is_put_in_everywhere(plain: Netsim, tmp_path: Path) -> None:
    for kind, parameter in PARAMETER.items():
        said = plain(f"new-{kind}", f"my_{kind}_2").stdout
        guide = next(line for line in said.splitlines() if line.endswith("README.md"))
        assert Path(guide.split()[-1]).is_file()
        files = [path for path in tmp_path.iterdir() if f"my_{kind}_2" in path.name]
        assert len(files) == 3
        text = "".join(path.read_text() for path in files)
        assert f"my_{kind}" not in text.replace(f"my_{kind}_2", "")
        plugin = registry.find(kind, str(tmp_path / f"my_{kind}_2.py"))
        assert plugin.summary.endswith(".")
        assert parameter in {param.name for param in plugin.params}
    network = build_topology(tmp_path / "my_topology_2.py", switches=5)
    assert network.name == "my_topology_2_5x4"


def test_what_is_refused(plain: Netsim, tmp_path: Path) -> None:
    names = ["my-idea", "2fast", "class", "../up", "a.py", "", "numpy", "re"]
    refused = [*((name,) for name in names), ("mine", "--directory", "nowhere")]
    for kind in PARAMETER:
        for arguments in refused:
            outcome = plain(f"new-{kind}", *arguments)
            assert outcome.exit_code == 2, (kind, arguments, outcome.output)
            assert "Traceback" not in outcome.output
            assert not list(tmp_path.iterdir())
        for name in FILES:
            (tmp_path / name).write_text("precious")
            outcome = plain(f"new-{kind}", "mine")
            assert (outcome.exit_code, "already exists" in outcome.stderr) == (2, True)
            assert [path.read_text() for path in tmp_path.iterdir()] == ["precious"]
            (tmp_path / name).unlink()
