"""Cost tables: the preset, rejected values, computed rows, and the page's numbers."""

import copy
import math
import random
from pathlib import Path

import pytest
from marked import values

from netsim.common.inputs import read_toml
from netsim.errors import InputError
from netsim.workloads.cost.costs import compare, cost_tables_from, load_cost_tables
from netsim.workloads.job.load import load_machine, presets


@pytest.fixture
def tree():
    return read_toml(presets("costs")["lite"])


def rows_by_name(tree):
    return {row.name: row for row in compare(cost_tables_from(tree, "mine", Path.cwd()))}


def test_preset_gpus_match_job_machines():
    costs = load_cost_tables("lite")
    for name, gpu in costs.gpus.items():
        machine = load_machine(name)
        assert (gpu.memory, gpu.rate) == (machine.memory, machine.scale_up.rate), name
        assert gpu.group == machine.domain_gpus


def test_row_cost_is_the_sum_of_its_parts(tree):
    row = rows_by_name(tree)["lite"]
    assert row.usd == pytest.approx(row.die_usd + row.memory_usd + row.package_usd + row.link_usd)
    assert row.die_usd == pytest.approx(16988 / (row.dies * row.die_yield))
    assert (row.silicon, row.gpus, row.mtbf_hours) == (4, 4096, 4 * 86_300)
    assert row.links[2].watts == row.link_watts == pytest.approx(900e9 * 5.7e-12)
    assert row.watts_of_reference == pytest.approx(4 * (175 + row.link_watts) / 700)


def test_break_even_link_price_equalizes_cost(tree):
    price = rows_by_name(tree)["lite"].break_even_usd_per_gbps
    assert price > 0
    tree["link"]["co_packaged"]["usd_per_gbps"] = price
    rows = rows_by_name(tree)
    assert rows["lite"].usd_of_reference == pytest.approx(1)
    assert rows["lite_netbw"].usd_of_reference > 1
    assert (rows["h100"].saved_usd, rows["h100"].usd_of_reference) == (0, 1)


def test_identical_gpu_has_the_reference_values(tree):
    tree["gpu"]["twin"] = tree["gpu"]["h100"]
    rows = rows_by_name(tree)
    for name in ("usd", "watts", "gpus", "group_up", "spares", "failures_a_day"):
        assert getattr(rows["twin"], name) == getattr(rows["h100"], name)


def test_failures_scale_with_area_or_gpu_count(tree):
    by_area = rows_by_name(tree)
    # By area, groups of equal silicon fail equally often and stop equally much of it.
    assert by_area["lite"].failures_a_day == pytest.approx(by_area["h100"].failures_a_day)
    assert by_area["lite"].group_up == pytest.approx(by_area["h100"].group_up)
    assert by_area["lite"].blast_shrink == by_area["h100"].blast_shrink / 4
    tree["failures"]["rate_by"] = "gpu"
    by_gpu = rows_by_name(tree)
    assert by_gpu["lite"].failures_a_day == pytest.approx(4 * by_gpu["h100"].failures_a_day)
    assert by_gpu["lite"].gpu_up == by_gpu["h100"].gpu_up


PATHS = [("wafer",), ("wafer", "usd"), ("wafer", "yield_model"), ("wafer", "edge_mm"), ("fleet",)]
PATHS += [("memory", "usd_per_gb"), ("link", "co_packaged"), ("link", "copper", "pj_per_bit")]
PATHS += [("failures", name) for name in ("mtbf_hours", "repair_hours", "swap_hours", "rate_by")]
PATHS += [("fleet", name) for name in ("gpus", "goodput", "reference")]
GPU_KEYS = ("die_mm2", "memory", "rate", "units", "units_needed", "units_share", "watts", "group")
PATHS += [("gpu", "lite", name) for name in GPU_KEYS]
VALUES = [0, 1, -1, 1e308, 1e-308, 1e-9, 1e9, float("inf"), float("nan"), True, "x", "", [], [0.5]]
VALUES += [{}, {"murphy": 1}, {"negative_binomial": 1e-9}, "poisson", "gpu", 10**30, "1GB", "1Gbps"]


def test_random_changes_are_rejected_or_give_rows(tree):
    rng = random.Random(3)
    outcomes = {"rows": 0, "rejected": 0}
    for _ in range(150):
        changed = copy.deepcopy(tree)
        *above, last = rng.choice(PATHS)
        table = changed
        for name in above:
            table = table[name]
        table[last] = rng.choice(VALUES)
        try:
            rows = rows_by_name(changed)
            assert len(rows) == 6
            assert all(math.isfinite(row.usd_of_reference) for row in rows.values())
            outcomes["rows"] += 1
        except InputError:
            outcomes["rejected"] += 1
    assert min(outcomes.values()) > 10


ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "netsim" / "workloads" / "cost" / "README.md").read_text("utf-8")


def test_numbers_in_page_text_are_current():
    h100, lite, netbw = compare(load_cost_tables("lite"))[:3]
    mm2 = 100 * lite.usd_per_good_mm2 / h100.usd_per_good_mm2
    plain = lite.defect_free / h100.defect_free
    dies = [16988 / one.dies / one.defect_free for one in (h100, lite)]
    package = lite.saved_usd - (h100.die_usd - 4 * lite.die_usd)
    price, twice = (one.break_even_usd_per_gbps for one in (lite, netbw))
    assert values(PAGE) == {
        "sold": f"{lite.die_yield / h100.die_yield:.1f}",
        "mm2": f"{mm2:.0f}",
        "sold-all-defects": f"{plain:.1f}",
        "mm2-all-defects": f"{mm2 * lite.die_yield / h100.die_yield / plain:.0f}",
        "saved": f"{lite.saved_usd:.0f}",
        "saved-all-defects": f"{dies[0] - 4 * dies[1] + package:.0f}",
        "break-even": f"{price:.2f}",
        "break-even-twice": f"{twice:.2f}",
    }
    assert 0.045 < lite.saved_usd / h100.usd < 0.055
    assert (lite.spares[1].full, h100.spares[1].full) == (3, 3)
    by_gpu = compare(load_cost_tables("lite", overrides=["failures.rate_by=gpu"]))[1]
    assert by_gpu.spares[1].full / by_gpu.silicon / h100.spares[1].full == 0.5
    assert (1 - by_gpu.group_up) / (1 - lite.group_up) == pytest.approx(4, rel=0.01)
