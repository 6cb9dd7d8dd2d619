"""A user's own plugin, from `netsim new` through the commands that it suggests."""

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
"""For each kind of plugin a parameter of its template."""

plain = pytest.fixture(small_runs.netsim.__wrapped__, name="plain")
Netsim = small_runs.Netsim
Commands = Callable[..., list[list[str]]]


@pytest.fixture
def new_plugin(plain: Netsim) -> Commands:
    """Create mine.py of a kind; return what to give to netsim."""

    def new_plugin(kind: str) -> list[list[str]]:
        output = plain("new", kind, "mine").stdout
        assert sorted(path.name for path in Path().iterdir()) == FILES
        lines = [line.split() for line in output.splitlines() if line.startswith("  ")]
        assert [line[0] for line in lines] == ["netsim", "netsim", "pytest"]
        assert lines[2][1:] == ["test_mine.py"]
        return [line[1:] for line in lines[:2]]

    return new_plugin


def sweep_of(plain: Netsim, run: list[str], *changes: str, out: str = "results/mine") -> Path:
    """Run mine.toml with changes; check that all points finished and return the results."""
    outcome = plain(*run, "--out", out, *(word for one in changes for word in ("--set", one)))
    assert outcome.exit_code == 0, outcome.output
    found = Path(out)
    assert {*load(found).table["status"]} == {"finished"}
    return found


QUICK = (
    "own_transport/test_mine.py::test_fct_of_a_flow_within_the_first_window",
    "own_queue/test_mine.py::test_two_classes_share_a_link_equally",
    "own_routing/test_mine.py::test_flowlets_take_the_uplinks_in_turn",
    "own_topology/test_mine.py",
    "own_traffic/test_mine.py",
)
SLOW = tuple(f"own_{kind}/test_mine.py::test_conformance" for kind in ("transport", "queue"))


@pytest.mark.parametrize(
    "tests", [QUICK, pytest.param(SLOW, marks=pytest.mark.slow)], ids=["own", "suite"]
)
def test_new_plugins_pass_their_own_tests(plain: Netsim, tests: tuple[str, ...]) -> None:
    for kind in PARAMETER:
        Path(f"own_{kind}").mkdir()
        plain("new", kind, "mine", "--directory", f"own_{kind}")
    options = ("--import-mode=importlib", "-p", "no:cacheprovider")  # five files of one name
    python(Path(), "pytest", *tests, *options, env=PLAIN)


def source_in(result: Path, kind: str) -> str:
    """The source of mine.py that a result contains."""
    plugins = load(result)[0].experiment["plugins"]
    (plugin,) = [one for one in plugins if one["kind"] == kind]
    return str(plugin["sources"]["mine.py"])


def test_new_transport_passes_its_commands(plain: Netsim, new_plugin: Commands) -> None:
    check, run = new_plugin("transport")
    assert "pass" in plain(*check, "--case", "sizes", "--case", "random loss").stdout
    assert (sweep_of(plain, run) / "fct_cdf.png").stat().st_size > 1000
    both = "transport=['./mine.py:careful', 'ideal']"
    careful = load(sweep_of(plain, ["run", "mine.toml"], both, out="both"))[0]
    assert careful.experiment["resolved"]["transport"]["target_delay"] == "1us"
    assert "target_delay" in plain("show", "transport", "mine.py").stdout


def test_new_queue_passes_its_commands(plain: Netsim, new_plugin: Commands) -> None:
    check, run = new_plugin("queue")
    assert "pass" in plain(*check, "--case", "single packets").stdout
    small = ("traffic.size=40KB", "flow_classes.second.traffic.size=40KB")
    results = sweep_of(plain, run, *small)
    own, strict = (results / f"queue_discipline={name}" for name in ("mine.py", "drop_tail"))
    assert source_in(own, "queue") == Path("mine.py").read_text()
    # The first class shares its link; with strict priorities the second would wait.
    shared, alone = (
        load(folder).flows.filter(pl.col("flow_class") == "")["fct_ps"].max()
        for folder in (own, strict)
    )
    assert alone < 0.7 * shared


def test_new_routing_passes_its_commands(plain: Netsim, new_plugin: Commands) -> None:
    check, run = new_plugin("routing")
    assert "pass" in plain(*check, "--case", "tree").stdout
    small = ("topology.leaves=2", "topology.hosts_per_leaf=4", "traffic.size=200KB", "seed=1")
    own = sweep_of(plain, run, *small) / "routing=mine.py"
    source = Path("mine.py").read_text()
    assert source_in(own, "routing") == source
    # The result contains the source, so tracing works without the file.
    Path("mine.py").unlink()
    trace = (str(own), "--flow", "0", "--trust", "--limit", "5")
    assert "leaf0" in plain("trace", *trace).stdout


def test_new_topology_passes_its_commands(plain: Netsim, new_plugin: Commands) -> None:
    look, run = new_plugin("topology")
    assert "FAIL" not in plain(*look).stdout
    results = sweep_of(plain, run, "traffic.size=20KB")
    assert load(results).table["topology"].to_list() == ["mine", "fat_tree"]


def test_new_traffic_passes_its_commands(plain: Netsim, new_plugin: Commands) -> None:
    check, run = new_plugin("traffic")
    assert "FAIL" not in plain(*check).stdout
    flows = load(sweep_of(plain, run, "traffic.duration=5us")).flows
    assert flows["size_bytes"].unique().to_list() == [16_000]


def test_new_files_use_the_given_name(plain: Netsim, tmp_path: Path) -> None:
    for kind, parameter in PARAMETER.items():
        output = plain("new", kind, f"my_{kind}_2").stdout
        guide = next(line for line in output.splitlines() if line.endswith("README.md"))
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


def test_invalid_names_and_existing_files_are_rejected(plain: Netsim, tmp_path: Path) -> None:
    names = ["my-idea", "2fast", "class", "../up", "a.py", "", "numpy", "re"]
    rejected = [*((name,) for name in names), ("mine", "--directory", "nowhere")]
    for kind in PARAMETER:
        for arguments in rejected:
            outcome = plain("new", kind, *arguments)
            assert outcome.exit_code == 2, (kind, arguments, outcome.output)
            assert "Traceback" not in outcome.output
            assert not list(tmp_path.iterdir())
        for name in FILES:
            (tmp_path / name).write_text("precious")
            outcome = plain("new", kind, "mine")
            assert (outcome.exit_code, "already exists" in outcome.stderr) == (2, True)
            assert [path.read_text() for path in tmp_path.iterdir()] == ["precious"]
            (tmp_path / name).unlink()
