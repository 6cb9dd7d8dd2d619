"""`netsim list` and `netsim show`."""

import json
import re

from raises_input import mentions


def test_list_prints_all_kinds(netsim):
    result = netsim("list")
    assert result.exit_code == 0
    for text in ("transports:", "fat_tree ", "permutation ", "experiments:"):
        assert text in result.stdout
    topologies = json.loads(netsim("list", "topology", "--json").stdout)["topologies"]
    assert "fat_tree" in [one["name"] for one in topologies]


def test_show_prints_parameters_and_fabric(netsim):
    result = netsim("show", "topology", "fat_tree")
    assert result.exit_code == 0
    assert mentions(result.stdout, "host_rate", "800Gbps")
    shown = json.loads(netsim("show", "transports", "ndp:paper", "--json").stdout)
    assert {"name", "unit", "default", "value"} <= shown["params"][0].keys()
    assert shown["fabric"]["queue_discipline"] == "trim"
    shown = json.loads(netsim("show", "experiment", "small.toml", "--json").stdout)
    assert shown["content"]["name"] == "small"
    assert netsim("show", "experiment", "small.toml").stdout.startswith('\nname = "small"')


def test_show_prints_clean_sentences(netsim):
    text = " ".join(netsim("show", "transport", "ndp").stdout.split())
    assert mentions(text, "ndp:paper")
    assert mentions(text, "SIGCOMM", "2017")
    for name in ("dcqcn", "homa", "roce"):
        text = " ".join(netsim("show", "transport", name).stdout.split())
        assert not re.search(r"[a-z)] Source:", text)
        assert ".." not in text.replace("...", "")


def test_kind_is_found_by_the_name(netsim):
    shown = netsim("show", "ndp").stdout
    assert mentions(shown, 'preset "ndp:800g": fabric.queue_bytes = "200pkt"', '"1bdp+8pkt"')
    assert netsim("show", "p2p_512").stdout.startswith("# Shows:")
