"""The conclusions of docs/studies.md, from the quick forms of their experiments."""

import polars as pl
import pytest

import netsim
from netsim.experiment import built_in

pytestmark = pytest.mark.slow


def last_flows(name, out, *changes):
    """Run an experiment; return its sweep and the time of the last flow, in microseconds."""
    netsim.run(built_in()[name], overrides=changes, out=out)
    table = pl.read_parquet(out / "sweep.parquet")
    assert (table["status"] == "finished").all()
    return table.with_columns(last_us=pl.col("makespan_ps", "fct_max_ps").max() / 1e6)


def test_striping_over_planes_does_not_average_collisions(tmp_path):
    transports = 'transport=[{kind="roce", queue_pairs=8}, "ndp", "mrc"]'
    table = last_flows("planes_striped", tmp_path / "out", transports)
    last = {(a, b): c for a, b, c in table.select("transport", "topology", "fct_max_ps").iter_rows()}
    ideal = 86.5e6
    for sprayed in ("ndp", "mrc"):
        for network in ("8 planes", "three tiers"):
            assert last[sprayed, network] < 1.4 * ideal
    assert 5 * ideal < last["roce", "8 planes"] < 9 * ideal
    assert 2 * ideal < last["roce", "three tiers"] < 2.6 * ideal


def test_a_microsecond_of_jitter_decides_no_comparison(tmp_path):
    jitter = ('traffic.start_jitter=["0s", "1us"]', "seed=1..4")
    table = last_flows("phase_effects", tmp_path / "out", *jitter)
    column = next(name for name in table.columns if name.endswith("start_jitter"))
    means = table.group_by("traffic", "transport", column).agg(
        pl.col("fct_max_ps").mean(), spread=pl.col("fct_max_ps").std()
    )
    first, later = (means.filter(pl.col(column) == value) for value in means[column].unique().sort())
    both = first.join(later, on=["traffic", "transport"])
    moved = (both["fct_max_ps"] - both["fct_max_ps_right"]).abs()
    assert (moved <= pl.max_horizontal(both["spread"], both["spread_right"]) + 2e6).all()
