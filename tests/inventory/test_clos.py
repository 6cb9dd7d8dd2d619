"""Formulas for Clos networks, compared with built networks and with the paper."""

from __future__ import annotations

from typing import Any

import pytest
from engine_runs import resolve

from netsim.model.inventory import SWITCH, inventory
from netsim.model.trees import fabric_cables_needed, switches_needed
from netsim.plugins import registry
from netsim.workloads.plots.model_figures import TOPOLOGIES, counts
from netsim.workloads.plots.paper_figure import stated as value


def tree(**given: Any) -> dict[str, Any]:
    return {"kind": "fat_tree", **given}


def test_clos_formulas_match_built_networks() -> None:
    for given, hosts, radix, tiers, planes in [
        (tree(tiers=2, radix=8), 32, 8, 2, 1),
        (tree(tiers=3, radix=8), 128, 8, 3, 1),
        (tree(tiers=4, radix=4), 32, 4, 4, 1),
        (tree(tiers=2, radix=8, planes=4), 32, 8, 2, 4),
    ]:
        plugin = registry.find("topology", given.pop("kind"))
        counted = inventory(plugin.module.build(resolve(plugin, given)))
        assert (counted.hosts, counted.tiers) == (hosts, tiers)
        assert counted.switch_count == planes * switches_needed(hosts, tiers, radix)
        between = sum(row.count for row in counted.cables if row.joins == SWITCH)
        assert between == planes * fabric_cables_needed(hosts, tiers)


@pytest.mark.parametrize("stated", TOPOLOGIES, ids=lambda one: one.name)
def test_clos_formulas_match_the_paper(stated) -> None:
    for name, ours in zip(stated.figures, counts(stated), strict=True):
        assert not name or ours == pytest.approx(value(name, "").paper, rel=0.05)
