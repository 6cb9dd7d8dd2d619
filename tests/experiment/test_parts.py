"""Parameters with a value per part, such as a tree's tiers: read, written, swept, invalid."""

from experiment_text import load, text

from netsim.params import Param

TREE = 'kind = "fat_tree"\ntiers = 3\nhosts_per_leaf = 4\nleaves = 2\npods = 2\n'
PARAM = Param("delay", "time", "1us", "", minimum="1ns", each=("leaf", "spine"))


def tree(lines: str) -> str:
    return text(topology=TREE + lines)


def test_scalar_sets_all_parts_and_table_sets_some() -> None:
    assert PARAM.convert("2us") == {"leaf": 2 * 10**6, "spine": 2 * 10**6}
    assert PARAM.convert({"spine": "2us"}) == {"leaf": 10**6, "spine": 2 * 10**6}
    assert PARAM.convert({}) == PARAM.convert("1us")
    rate = Param("rate", "rate", None, "", each=("leaf", "spine"))
    assert rate.convert({"leaf": "none", "spine": "8bps"}) == {"leaf": None, "spine": 8}


def test_formatted_value_converts_back() -> None:
    for value in ["2us", {"leaf": "3us"}, {"leaf": "3us", "spine": "3us"}]:
        converted = PARAM.convert(value)
        assert PARAM.convert(PARAM.format(converted)) == converted
        assert PARAM.format(PARAM.convert({"leaf": "3us", "spine": "3us"})) == "3us"


def test_resolved_point_lists_the_value_of_each_part(tmp_path) -> None:
    written = 'fabric_rate = {spine = "1.6Tbps"}\noversubscription = 2'
    (point,) = load(tmp_path, tree(written)).points()
    described = point.resolved["topology"]
    assert described["fabric_rate"] == {"leaf": "none", "spine": "1.6Tbps", "core": "none"}
    assert described["oversubscription"] == 2.0
    assert described["link_latency"] == "1us"
