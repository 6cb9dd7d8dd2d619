"""Network cost: the default price table, and custom tables that override parts of it."""

from __future__ import annotations

import re

import pytest
from several_ports import rails
from small_networks import GBPS, rail_racks, three_tiers

from netsim.model.inventory import PARTS, SCALE_UP, bill, inventory, read_prices


def test_every_part_has_a_price_with_a_source() -> None:
    prices = read_prices()
    assert set(prices) == set(PARTS)
    for price in prices.values():
        assert re.search(r"assumption|\(\S+\.\w+", price.source)


def test_bill_applies_custom_prices_and_keeps_default_ones(tmp_path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(
        """
        [nic_port]
        usd_per_gbps = 2
        source = "mine"
        [switch_port]
        usd = 10
        watts_per_gbps = 0.5
        source = "mine"
        [cable.rack]
        usd = 3
        watts = 1
        source = "mine"
        """
    )
    rows = {row.part: row for row in bill(inventory(three_tiers(4)), read_prices(path))}
    assert set(rows) == {"nic_port", "switch_port", "cable.rack", "cable.row", "cable.hall"}
    assert (rows["nic_port"].count, rows["nic_port"].usd) == (16, 16 * 800 * 2)
    ports = 20 * 4
    assert (rows["switch_port"].usd, rows["switch_port"].watts) == (10 * ports, 400 * ports)
    assert (rows["cable.rack"].usd, rows["cable.rack"].watts) == (48, 16)
    assert rows["cable.row"].source != "mine"


def test_scale_up_and_scale_out_are_priced_apart_at_their_own_rates() -> None:
    counted = inventory(rail_racks(4, 2, planes=2))
    prices = read_prices()
    rows = {row.part: row for row in bill(counted, prices)}
    assert [(nic.nic, nic.is_scale_up) for nic in counted.nics] == [(0, True), (1, False)]
    assert {row.name: row.is_scale_up for row in counted.networks} == {
        "rail0.plane0": False,
        "rack0": True,
    }
    assert {row.name: row.is_scale_up for row in counted.switches} == {
        "up": True,
        "leaf": False,
        "spine": False,
    }
    assert (rows["scale_up_port"].count, rows["nic_port"].count) == (8, 8 * 2)
    up_usd = prices["scale_up_port"].usd_per_gbps * 8 * 7200
    assert rows["scale_up_port"].usd == pytest.approx(up_usd)
    gbps = 8 * 2 * 200
    assert rows["nic_port"].usd == pytest.approx(prices["nic_port"].usd_per_gbps * gbps)
    # Cables in the rack are part of its ports, whatever their delay.
    out = [row for row in counted.cables if row.length != SCALE_UP]
    cables = sum(row.count * row.rate_bps for row in out) / GBPS
    watts = prices["switch_port"].watts_per_gbps
    assert rows["switch_port"].watts == pytest.approx(watts * (2 * cables - gbps))
    assert sum(row.count for part, row in rows.items() if part.startswith("cable")) == sum(
        row.count for row in out
    )


@pytest.mark.parametrize("network", [three_tiers(4), rails(2, [400, 100])], ids=["tree", "ports"])
def test_one_nic_is_scale_out(network) -> None:
    assert not network.is_scale_up.any()
