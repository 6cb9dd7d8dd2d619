"""`netsim cost`: tables, JSON output and rejected input."""

import json

from cli_outcome import fails


def test_default_preset_is_printed(lines):
    found = lines("cost")
    assert "h100 814 59 42.4 % 64.5 % 446 0.548 1,360 1,669 0 3,475 1.00 0 0.000" in found
    assert "lite 4,096 32 345,200 0.285 99.993 % 99.778 % 0.781 % 0.024 %" in found
    assert "lite 0 (0) 0 (0) 2 (0.5) 1 (0.25) 0 (0) 3 (0.75)" in found
    assert lines("cost", "lite") == found


def test_set_option_changes_files_and_presets(netsim, lines, tmp_path):
    (tmp_path / "mine.toml").write_text(netsim("show", "cost", "lite").stdout)
    changes = ("wafer.yield_model=murphy", "gpu.lite.link=pluggable", "failures.swap_hours=20")
    overrides = [one for change in changes for one in ("--set", change)]
    output = json.loads(netsim("cost", "mine.toml", "--json", *overrides).stdout)
    assert output["figures"]["wafer"]["yield_model"] == ["murphy", None]
    lite = output["gpus"][1]
    assert (lite["link"], lite["link_usd"]) == ("pluggable", 1.25 * 900)
    assert lite["spares"][1]["stop"] is None
    assert any("- 0 (0)" in line for line in lines("cost", *overrides))


def test_invalid_files_and_values_are_rejected(netsim, tmp_path):
    assert fails(netsim("cost", "light"), 2, "file", "lite")
    wrong = netsim("cost", "--set", "wafer.use=3")
    assert fails(wrong, 2, "lite.toml", "wafer.use")
    (tmp_path / "mine.toml").write_text("[wafer]\nusd = 'much'\n")
    assert fails(netsim("cost", "mine.toml"), 2, "mine.toml", "wafer.usd", "much", "gpu: ")
