"""[reference]: values to compare a plot with."""

import pytest

from netsim.errors import InputError
from netsim.experiment import Experiment

GOOD_REFERENCE = {
    "axis": "traffic.kind",
    "column": "fct_mean",
    "label": "theory",
    "values": [["a", "2us"]],
}


def test_invalid_references_are_rejected():
    """Each change gives one error with its key; the unchanged reference gives none."""
    for change, key in [
        ({"axis": "traffic.laod"}, "axis"),
        ({"values": [["a", 2]]}, "values"),
        ({"values": [["a"]]}, "values"),
        ({"values": []}, "values"),
        ({"values": [["a", "2us"], ["a", "3us"]]}, "values"),
        ({"column": "drops"}, "values"),
        ({"color": "red"}, "color"),
    ]:
        content = {"transport": "ideal", "topology": "fat_tree", "traffic": "permutation"}
        content["topology"] = {"kind": "fat_tree", "hosts_per_leaf": 2, "leaves": 2}
        Experiment.from_mapping(content | {"reference": GOOD_REFERENCE})
        with pytest.raises(InputError) as caught:
            Experiment.from_mapping(content | {"reference": GOOD_REFERENCE | change})
        assert [error.key for error in caught.value.errors] == [f"reference.{key}"]
