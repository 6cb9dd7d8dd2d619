"""The conclusions of docs/studies.md, from quick forms of their experiments."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from netsim.experiment import built_in

pytestmark = pytest.mark.slow


def swept(arguments: list[str], folder: Path) -> pl.DataFrame:
    """Return a row per point of `netsim` with these arguments, its fields without sections unless
    two would have one name."""
    arguments = [*arguments, "--out", str(folder / "out")]
    subprocess.run([sys.executable, "-m", "netsim", *arguments], check=True)
    table = pl.read_parquet(folder / "out" / "sweep.parquet")
    assert (table["status"] == "finished").all()
    last = [column.rpartition(".")[2] for column in table.columns]
    return table.rename(
        {
            column: word
            for column, word in zip(table.columns, last, strict=True)
            if last.count(word) == 1
        }
    )


def quick(name: str, folder: Path) -> pl.DataFrame:
    """Return a row per point of the command marked "# quick" in an experiment."""
    head = built_in()[name].read_text("utf-8")
    (command,) = re.findall(r"(?m)^# .*netsim (run .*?) +# quick", head)
    return swept(shlex.split(command), folder)


def test_striping_over_planes_does_not_average_collisions(tmp_path: Path) -> None:
    table = quick("planes_striped", tmp_path)
    rows = table.select("transport", "topology", pl.col("fct_max_ps") / 86.5e6).iter_rows()
    times = {(transport, network): multiple for transport, network, multiple in rows}
    for sprayed in ("ndp", "mrc"):
        assert max(times[sprayed, network] for network in ("8 planes", "three tiers")) < 1.4
    assert 5.7 <= times["roce", "8 planes"] <= 8.5
    assert 2 < times["roce", "three tiers"] < 2.6


def test_sprayed_packets_stay_near_the_optimum(tmp_path: Path) -> None:
    table = quick("distance_from_optimum", tmp_path)
    permutations = table.filter(traffic="P2P")
    rows = permutations.select("transport", "faults", pl.col("fct_max_ps") / 85.4e6).iter_rows()
    times = {(transport, fault): multiple for transport, fault, multiple in rows}
    for sprayed in ("ndp", "mrc"):
        assert times[sprayed, "none"] < 1.1
        assert times[sprayed, "one link"] < 1.1
        assert times[sprayed, "four links"] < 1.4
    assert times["roce", "none"] > 2
    # Paths that are learned avoid a slow spine; blind spraying does not.
    assert times["mrc", "a slow spine"] < 1.2 < times["ndp", "a slow spine"]


def test_learned_paths_avoid_a_slow_plane(tmp_path: Path) -> None:
    head = built_in()["distance_from_optimum"].read_text("utf-8")
    (command,) = re.findall(r"(?s)netsim (run [^\n]*\\\n.*?)\n#\n", head)
    arguments = shlex.split(re.sub(r"\\?\n# *", " ", command))
    table = swept([*arguments, "--set", 'transport=["ndp", "mrc"]', "--set", "seed=1"], tmp_path)
    rows = table.select("transport", "last_plane_rate_fraction", "fct_max_ps").iter_rows()
    times = {(transport, rate): fct_ps / 85.4e6 for transport, rate, fct_ps in rows}
    assert times["ndp", 1.0] < 1.15 < times["mrc", 1.0] < 1.3
    assert times["mrc", 0.5] < 1.4
    assert times["ndp", 0.5] > 2


def test_rails_are_as_fast_as_a_tree_and_faster_than_planes(tmp_path: Path) -> None:
    table = quick("planes_and_rails", tmp_path)
    rows = table.select("topology", "placement", "forecast_ps").iter_rows()
    steps = {(network, placement): step for network, placement, step in rows}
    tree = 1.066e12
    assert steps["rails", "rail_aligned"] < 1.02 * tree
    assert steps["planes", "rail_aligned"] > 1.04 * tree
    assert steps["rails", "consecutive"] < 0.97 * steps["rails", "rail_aligned"]


def test_switches_that_see_queues_avoid_a_slow_spine(tmp_path: Path) -> None:
    table = quick("spraying", tmp_path)
    rows = table.select("paths", "routing", "traffic", "faults", "fct_max_ps").iter_rows()
    optimum_ps = {"P2P": 85.4e6, "all-to-all": 86e6}
    times = {tuple(key): fct_ps / optimum_ps[key[2]] for *key, fct_ps in rows}
    slow = {key[:2]: time for key, time in times.items() if key[2:] == ("P2P", "a slow spine")}
    assert slow["reps", "least_loaded"] < 1.2 < slow["ecmp", "spray_permutation"] < 1.5
    assert slow["reps", "ecmp"] > 1.4
    assert times["ecmp", "spray_permutation", "P2P", "none"] < 1.03
    assert times["ecmp", "least_loaded", "all-to-all", "a slow spine"] < 1.1
    assert times["reps", "ecmp", "all-to-all", "a slow spine"] > 2
    assert min(t for key, t in times.items() if key[2:] == ("all-to-all", "four links")) > 2


def test_flaps_delay_steps_on_three_tiers_more_often(tmp_path: Path) -> None:
    table = quick("step_flaps", tmp_path)
    steps = table.pivot(on="faults", index=["topology", "seed"], values="step_ps")
    late = steps.with_columns(late=pl.col("flaps") > 1.01 * pl.col("none"))
    counts = dict(late.group_by("topology").agg(pl.col("late").sum()).iter_rows())
    assert counts["8 planes"] == 0  # 2 of 20 seeds, none of the first four
    assert counts["three tiers"] >= 2


def test_one_switch_per_rail_is_as_fast_as_any_network(tmp_path: Path) -> None:
    table = quick("scale_out_cost", tmp_path)
    networks = ["topology", "oversubscription", "traffic"]
    rows = table.select(*networks, "forecast_ps", "forecast_exposed_scale_out").rows()
    steps = {tuple(network): step for *network, step, _ in rows}
    exposed = {tuple(network): share for *network, _, share in rows}
    for job, least, most in (("dense", 0.03, 0.055), ("MoE", 0.2, 0.28)):
        for network in ("rail-only", None, job), ("rails", None, job), ("fat tree", 1, job):
            assert least < exposed[network] < most
    assert exposed["fat tree", 4, "MoE"] > 0.36
    for job, tree in (("dense", 1.02), ("MoE", 1.5)):
        shortest = min(step for (_, _, kind), step in steps.items() if kind == job)
        assert steps["rail-only", None, job] < 1.01 * shortest
        assert steps["fat tree", 2, job] < 1.03 * shortest
        assert steps["fat tree", 4, job] < tree * shortest < steps["fat tree", 8, job]
    assert steps["fat tree", 4, "MoE"] > 1.3 * steps["rails", None, "MoE"]
    assert steps["circuits", None, "MoE"] > 2 * steps["rails", None, "MoE"]


def test_a_microsecond_of_jitter_decides_no_comparison(tmp_path: Path) -> None:
    table = quick("phase_effects", tmp_path)
    times = table.group_by("traffic", "transport", "start_jitter").agg(
        mean=pl.col("fct_max_ps").mean() / 1e6, spread=pl.col("fct_max_ps").std() / 1e6
    )
    both = times.filter(start_jitter="0s").join(
        times.filter(start_jitter="1us"), on=["traffic", "transport"], suffix="_later"
    )
    moved = (pl.col("mean") - pl.col("mean_later")).abs()
    beyond = both.filter(moved > 1 + pl.max_horizontal("spread", "spread_later"))
    assert beyond.is_empty(), beyond


def test_admission_with_parity_beats_tcp_over_a_wide_area(tmp_path: Path) -> None:
    table = quick("wide_area", tmp_path)
    rows = table.select("transport", "data_class", pl.col("fct_max_ps") / 1e9).iter_rows()
    times = {(transport, above): last for transport, above, last in rows}
    slowdowns = {
        tuple(table.row(place, named=True)[key] for key in ("transport", "data_class")): (
            pl.read_parquet(tmp_path / "out" / point / "flows.parquet")
            .filter(flow_class="inside")["slowdown"]
            .mean()
        )
        for place, point in enumerate(table["point"])
    }
    assert times["admission, FEC", 0] < 125
    assert times["20 % too much, FEC", 0] > 2 * times["admission, FEC", 0]
    for sender in ("CUBIC", "BBR"):
        assert times[sender, 0] > 4.5 * times["admission, FEC", 0]
        # Sprayed messages hardly notice wide-area data above their own.
        assert slowdowns[sender, 2] < slowdowns[sender, 0] < 1.03 * slowdowns[sender, 2]
    assert times["CUBIC", 2] > 1.5 * times["CUBIC", 0]


def test_small_gpus_need_less_silicon_in_spares(tmp_path: Path) -> None:
    table = quick("lite_gpus", tmp_path)
    met = dict(table.select("traffic", "slo_attainment").iter_rows())
    share = dict(table.select("traffic", "available_gpu_share").iter_rows())
    assert share["8 x 8 H100, spare"] < 0.93
    assert share["8 x 32 Lite, spare"] > 0.97
    assert met["8 x 8 H100, spare"] + 0.1 < met["8 x 32 Lite, spare"]
    assert min(met["8 x 8 H100, shrink"], met["8 x 32 Lite, shrink"]) > 0.94
    assert met["32 x 2 H100, stop"] == met["32 x 8 Lite, stop"]


TIERS = ("one tier", "two tiers")


def test_only_a_dense_model_fits_a_network_of_a_quarter(tmp_path: Path) -> None:
    table = quick("locality", tmp_path)
    rows = table.select("oversubscription", "traffic", "placement", "forecast_ps").iter_rows()
    steps = {(ratio, *placed): step for ratio, *placed, step in rows}
    longer = {
        (ratio, *placed): step / steps[1, *placed] for (ratio, *placed), step in steps.items()
    }
    for (ratio, job, ranks), multiple in longer.items():
        if ratio == 4 and job == "MoE":
            assert multiple > (1.25 if ranks == "rail_aligned" else 1.09)
        else:
            assert multiple < 1.04


def test_a_pipeline_step_has_the_same_order_with_later_starts(tmp_path: Path) -> None:
    jitter = 'traffic.start_jitter=["0s", "1us", "10us"]'
    table = swept(["run", "p2p_512", "--set", jitter], tmp_path)
    times = table.pivot(on="transport", index="start_jitter", values="fct_max_ps")
    assert len(times) == 3
    assert (times["ndp:800g"] * 2 < times["dcqcn, 4 queue pairs"]).all()
    assert (times["dcqcn, 4 queue pairs"] * 1.3 < times["roce:800g"]).all()


def test_without_pfc_or_trimming_buffers_are_never_large_enough(tmp_path: Path) -> None:
    table = quick("buffers", tmp_path)
    rows = table.select("transport", "fabric", "traffic", pl.col("fct_max_ps") / 1e6).iter_rows()
    times = {(transport, fabric, traffic): us for transport, fabric, traffic, us in rows}
    for size in ("4 BDP", "0.25 BDP"):
        for traffic, optimum in (("P2P", 85.4), ("incast", 319.0), ("all-to-all", 86.0)):
            for discipline in ("PFC", "own"):
                assert times["ndp", f"{discipline}, {size}", traffic] < 1.06 * optimum
        assert times["roce", f"PFC, {size}", "incast"] < 1.1 * 319
        for transport in ("roce", "ndp"):
            assert times[transport, f"drop, {size}", "incast"] > 20 * 319  # timeouts
        assert 1.5 < times["mrc", f"drop, {size}", "incast"] / 319 < 2
    # MRC takes packets that wait in deep queues for lost.
    assert times["mrc", "own, 4 BDP", "incast"] > 1.2 * times["mrc", "own, 1 BDP", "incast"]
    assert times["mrc", "PFC, 4 BDP", "incast"] > 1.2 * times["mrc", "own, 1 BDP", "incast"]
    assert times["mrc", "own, 0.25 BDP", "P2P"] > 1.08 * times["mrc", "own, 1 BDP", "P2P"]


def test_reduction_in_the_network_saves_one_step_of_direct_exchange(tmp_path: Path) -> None:
    table = quick("scale_up", tmp_path)
    rows = table.select("traffic", "size", "hosts_per_leaf", pl.col("step_ps") / 1e6).iter_rows()
    times = {(name, size, gpus): us for name, size, gpus, us in rows}
    for size in ("4KB", "64KB", "1MB"):
        for gpus, gain in ((8, 6), (72, 60)):
            reduced = times["in-network", size, gpus]
            direct = 2 * times["half of direct", size, gpus]
            assert times["ring", size, gpus] > gain * reduced
            assert 1.4 < direct / reduced < 2
        assert times["in-network", size, 72] < 1.05 * times["in-network", size, 8]
        assert times["ring", size, 72] > 9 * times["ring", size, 8]


def test_only_an_incast_needs_a_lossless_scale_up_network(tmp_path: Path) -> None:
    table = quick("scale_up_lossless", tmp_path)
    rows = table.select(
        "traffic", "transport", "fabric", "topology", pl.coalesce("step_ps", "fct_max_ps") / 1e6
    ).iter_rows()
    times = {tuple(key): us for *key, us in rows}
    for transport in ("roce", "nscc"):
        for pattern, growth in (("all-to-all", 1.43), ("tree", 1.37), ("ring", 1.012)):
            one, two = (times[pattern, transport, "own", tier] for tier in TIERS)
            assert two / one == pytest.approx(growth, rel=0.01)
            for tier, lossless in zip(TIERS, (one, two), strict=True):
                assert times[pattern, transport, "drops", tier] == lossless
        one, two = (times["incast", transport, "own", tier] for tier in TIERS)
        assert one < 1.02 * 2.04
        assert times["incast", transport, "drops", "one tier"] > 10 * one  # timeouts
        assert times["incast", transport, "drops", "two tiers"] == two
    lost = table.filter(pl.col("drops") + pl.col("trims") + pl.col("pfc_pauses") > 0)
    assert set(lost["traffic"]) == {"incast"}
    assert set(lost["topology"]) == {"one tier"}
