"""`netsim topo`: table, JSON, and errors."""

import json

from raises_input import mentions


def test_table_has_a_column_per_network(netsim):
    result = netsim("topo", "sweep.toml", "--set", "topology.planes=[1, 2]")
    assert result.exit_code == 0, result.output
    text = result.stdout
    for cell in ("planes 1", "planes 2", "1 x 800Gbps", "2 x 400Gbps", "plane0 and 1 identical"):
        assert cell in text
    lines = [line.split() for line in text.splitlines()]
    assert ["hosts", "8", "8"] in lines
    # Half of eight hosts at 800 Gbps.
    assert ["bisection", "3.2Tbps", "3.2Tbps"] in lines
    assert ["tier", "0:", "leaf,", "4", "ports", "4", "8"] in lines
    assert mentions(text, "nic_port")


def test_throughput_bounds_of_patterns_are_reported(netsim):
    """The pattern is the traffic's, with its parameters, or one given by name."""
    four = "traffic={kind='pattern', pattern='tornado', shape='4'}"
    thin = "topology.oversubscription=2"
    for options, shown in [
        ((), {}),
        (("--set", four), {"tornado": 1.0}),
        (("--traffic", "group_plus_one", "--set", four, "--set", thin), {"group_plus_one": 0.5}),
    ]:
        result = netsim("topo", "small.toml", "--json", *options)
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)[0]["networks"][0]["patterns"] == shown
    result = netsim("topo", "small.toml", "--traffic", "hot_spot")
    assert "hot_spot traffic" in result.stdout


def test_failures_report_lost_paths_and_hosts(netsim):
    result = netsim("topo", "small.toml", "--fail", "spine0", "--fail", "h3 - leaf1", "--json")
    assert result.exit_code == 0, result.output
    spine, link = json.loads(result.stdout)[0]["failures"]
    assert (spine["name"], spine["cables"], spine["hosts_fewer_paths"]) == ("spine0", 4, 8)
    assert (link["cables"], link["hosts_cut_off"], link["flows_cut_off"]) == (1, 1, 2)
    text = netsim("topo", "small.toml", "--fail", "spine0").stdout
    assert "without spine0" in text
    assert "50 %" in text


def test_plot_and_out_write_a_drawing(netsim, tmp_path):
    result = netsim("topo", "small.toml", "--plot")
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith("small_topology.png\n")
    assert (tmp_path / "small_topology.png").stat().st_size > 10_000
    result = netsim("topo", "small.toml", "--json", "--out", "mine.svg")
    assert json.loads(result.stdout)
    assert (tmp_path / "mine.svg").exists()
