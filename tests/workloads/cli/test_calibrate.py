"""`netsim calibrate`: input formats, rejected files, and fits that recover known curves."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from raises_input import fails

from netsim.workloads.job.calibration import (
    Measurement,
    Rates,
    fitted,
    gaps,
    left_out,
    read_measured,
    summaries,
    thirds,
    with_spreads,
)
from netsim.workloads.job.load import load_job
from netsim.workloads.job.machine import CollectiveCurves, Curve, Shape
from netsim.workloads.job.messages import messages

RANK = "#  Rank {0} Group 0 Pid 7{0} on  host{1} device  {2} [0x1b] NVIDIA H100 80GB HBM3\n"
NAMES = (
    "#       size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n"
)
NOISE = "host0:12:34 [0] NCCL INFO Connected all rings\nNCCL version 2.21.5+cuda12.4\n"


def text(rows, test="all_reduce", nodes=2, gpus=4):
    head = f"# Collective test starting: {test}_perf\n# nThread 1 nGpus 1\n#\n# Using devices\n"
    ranks = "".join(RANK.format(k, k // gpus, k % gpus) for k in range(nodes * gpus))
    return head + ranks + NOISE + NAMES + "".join(rows) + "# Out of bounds values : 0 OK\n"


def line(size, time, wrong="0"):
    return (
        f"  {size}  {size // 4}  float  sum  -1  {time}  1.00  1.88  {wrong}  {time}  1.0  1.9  0\n"
    )


def test_text_with_prefixes_and_older_columns_is_read(tmp_path):
    rows = [line(0, 0.1), line(8, "20.51"), line(1 << 30, "1.2e+06", "N/A"), line(16, 21, 3)]
    first = text(rows)
    older = NAMES.replace("  root", "").replace("#wrong", "error")
    old_row = " 64 16 float none 30.5 0.0 0.0 1e-07 30 0.0 0.0 0e+00 2024-01-01 10:00:00\n"
    wrong_row = " 128 32 float none 30.5 0.0 0.0 1e+00 30 0.0 0.0 0e+00\n"
    second = text([older, old_row, wrong_row], test="alltoall", nodes=1, gpus=8)
    second = second.replace("host0  device  5", "ho[1,0]<stdout>:st0  device  5")
    last = text([line(4, 9)], test="broadcast")
    (tmp_path / "all.txt").write_text(
        "".join(
            f"[1,{k % 3}]<stdout>:{one}\n"
            for k, one in enumerate((first + second + last).splitlines())
        )
    )
    found = read_measured(tmp_path / "all.txt")
    assert [row[:4] for row in found.rows] == [
        ("all_reduce", (2, 4), 8, 20.51),
        ("all_reduce", (2, 4), 1 << 30, 1.2e6),
        ("all_to_all", (1, 8), 64, 30.5),
    ]
    assert found.left_out == {"of size 0": 1, "with wrong results": 2, "of broadcast": 1}
    assert found.versions == {"NCCL version 2.21.5+cuda12.4"}
    assert found.devices == {"NVIDIA H100 80GB HBM3"}


def test_json_of_both_tools_is_read(tmp_path):
    devices = [{"rank": k, "group": 0, "hostname": f"h{k}", "device_info": "H100"} for k in (0, 1)]
    results = [
        {
            "size": 8,
            "root": "    -1",
            "out_of_place": {"time": 5.5, "nwrong": None},
            "in_place": {},
        },
        {"size": 16, "out_of_place": None, "in_place": {"time": 1}},
        {"size": 32, "out_of_place": {"cpu_time": 6, "nwrong": 0.0}},
    ]
    tree = {"args": ["./build/sendrecv_perf", "-b", "8"], "nccl_version": 22907}
    (tmp_path / "a.json").write_text(json.dumps({**tree, "devices": devices, "results": results}))
    found = read_measured(tmp_path / "a.json")
    assert [row[:4] for row in found.rows] == [("send", (2, 1), 8, 5.5), ("send", (2, 1), 32, 6)]
    assert found.left_out == {"only in place": 1}
    both = [
        {"name": "AllGather", "size": 64, "inPlace": place, "time": 7.5, "wrong": "0"}
        for place in (0, 1)
    ]
    (tmp_path / "b.json").write_text(json.dumps(both))
    found = read_measured(tmp_path / "b.json", Shape(2, 8))
    assert [row[:4] for row in found.rows] == [("all_gather", (2, 8), 64, 7.5)]


TRUE = {"algorithm": "ring", "inside": 300 * 8 * 10**9, "efficiency": 0.9}
CURVES = CollectiveCurves(
    what="all_reduce",
    curves=(
        Curve(
            protocol="ll", base=9_000_000, step=500_000, hop=6_000_000, **TRUE | {"efficiency": 0.2}
        ),
        Curve(protocol="simple", base=12_000_000, step=3_000_000, hop=25_000_000, **TRUE),
    ),
)
RATES = Rates(3600 * 10**9, 400 * 10**9)


def measured(shapes, sizes):
    return [
        Measurement("all_reduce", shape, size, CURVES.time_ps(shape, size, RATES.port_bps) / 1e6)
        for shape in shapes
        for size in sizes
    ]


def test_held_out_sizes_and_node_counts_are_predicted():
    rows = measured([Shape(2, 8), Shape(4, 8), Shape(8, 8)], [2**k for k in range(3, 34)])
    found = {
        one.name.partition(": ")[2]: one.bands
        for one in summaries(rows, fitted(rows, RATES), RATES, left_out(rows, RATES))
    }
    assert all(worst < 1e-9 for _, _, worst in found["fitted"])
    assert all(middle < 0.03 for _, middle, _ in found["every third size left out"])
    assert all(middle < 0.15 for _, middle, _ in found["4 nodes left out"])


SIZES = [2**k for k in range(3, 31)]


def table(seed, noise=0.02):
    """Times of a library that switches to another law at a random size, and that size."""
    rng = np.random.default_rng(seed)
    change = SIZES[rng.integers(8, 20)]
    slower = rng.choice((1.4, 0.7))
    first = rng.uniform(10, 40), rng.uniform(1, 20) * 1e3
    second = first[0] * rng.uniform(2, 6), first[1] * rng.uniform(2, 6)
    second = second[0] * slower, second[1] / slower
    rows = []
    for size in SIZES:
        base, rate = first if size < change else second
        took = (base + size / rate) * math.exp(rng.normal(0, noise))
        rows.append(Measurement("all_reduce", Shape(2, 8), size, took))
    return rows, change


def test_change_of_algorithm_is_between_two_sizes():
    one_law = [Measurement("send", Shape(2, 1), size, 20 + size / 2e4) for size in SIZES[::3]]
    assert not list(gaps(one_law))
    for seed in range(20):
        rows, change = table(seed, noise=0.0)
        before, after = (row.time_us for row in rows if row.size_bytes in (change // 2, change))
        found = [(one.low_bytes, one.high_bytes) for one in gaps(rows)]
        assert set(found) <= {(change // 2, change)}
        assert found or before < after < 2 * before  # both laws pass near both times


def test_nine_in_ten_left_out_sizes_are_in_their_intervals():
    inside = []
    for seed in range(8):
        rows, _ = table(seed)
        for rest, out in thirds(rows):
            fits = with_spreads(fitted(rest, RATES), left_out(rest, RATES))
            for row in out:
                found = fits["all_reduce", True].estimate(row.shape, row.size_bytes, RATES.port_bps)
                assert found.low_ps < found.time_ps < found.high_ps
                inside.append(found.low_ps <= 1e6 * row.time_us <= found.high_ps)
    assert 0.9 <= np.mean(inside) < 1


def test_interval_spans_both_laws_where_the_data_do_not_decide():
    rows, change = table(3, noise=0.0)
    between = [row for row in rows if change // 4 <= row.size_bytes < 4 * change]
    rest = [row for row in rows if row not in between[1:-1]]
    fits = with_spreads(fitted(rest, RATES), left_out(rest, RATES))
    for row in between:
        found = fits["all_reduce", True].estimate(row.shape, row.size_bytes, RATES.port_bps)
        assert found.low_ps <= 1e6 * row.time_us <= found.high_ps
    assert fits["all_reduce", True].estimate(Shape(2, 8), 2**34, RATES.port_bps).low_ps is None


def test_predict_prints_one_time(netsim, tmp_path):
    lines = [line(size, time) for size, time in ((1 << 20, 50), (1 << 22, 150), (1 << 24, 600))]
    (tmp_path / "a.txt").write_text(text(lines, nodes=2, gpus=8))
    told = netsim("calibrate", "a.txt", "--predict", "2x8", "4MiB")
    assert told.stdout.startswith("all_reduce of 4MiB on 2x8: 150us, 90 % interval ")
    assert "without an interval" in netsim("calibrate", "a.txt", "--predict", "4x8", "4MiB").stdout
    assert fails(netsim("calibrate", "a.txt", "--predict", "1x8", "4MiB"), 2, "inside nodes")
    assert fails(netsim("calibrate", "a.txt", "--predict", "16", "4MiB"), 2, "--predict")
    assert fails(netsim("calibrate", "a.txt", "--predict", "2x8", "much"), 2, "much")


def test_written_machine_is_used_by_jobs(netsim, tmp_path):
    (tmp_path / "a.txt").write_text(text([line(8, 20), line(1 << 20, 50)], nodes=1, gpus=8))
    (tmp_path / "b.txt").write_text(text([line(8, 40), line(1 << 20, 90)], nodes=2, gpus=8))
    result = netsim(
        "calibrate", "a.txt", "b.txt", "--out", "mine.toml", "--plot", "a.png", "--set", "sms=7"
    )
    assert result.exit_code == 0, result.output
    assert fails(netsim("calibrate", "a.txt", "--out", "no/mine.toml"), 2, "no/mine.toml")
    written = (tmp_path / "mine.toml").read_text()
    for one in ("sha256", "NCCL version 2.21.5", "H100 80GB", "sms = 7", "pieces = true"):
        assert one in written
    changes = {"machine": str(tmp_path / "mine.toml")}
    layout = {"tp": 8, "dp": 2, "global_batch": 16, "uneven": True}
    job = load_job({"model": "llama3_8b", "layout": layout, **changes}, fits=False)
    assert job.machine.scale_up.curves("all_reduce")
    assert not job.machine.scale_up.curves("all_gather")
    tp = next(one for one in messages(job) if one.what == "all_reduce" and one.kind == "tp")
    for size, up_us, out_us in ((8, 20, 40), (1 << 20, 50, 90)):
        for network, n, expected in (("scale_up", 8, up_us), ("scale_out", 16, out_us)):
            one = replace(tp, size_bytes=size, network=network, n=n)
            assert one.time_ps(job) / 1e6 == pytest.approx(expected, rel=1e-3)
    show = ("workload", "show", "llama3_70b", "--set")
    shown = netsim(*show, "machine=./mine.toml")
    assert shown.exit_code == 0, shown.stderr
    # The message cuts long paths, so only the start of this one is sure to be in it.
    unknown = f'machine: unknown preset or file "{tmp_path}'[:80]
    assert fails(netsim(*show, "machine=./no.toml"), 2, unknown)


def test_messages_of_a_job_have_intervals(netsim, tmp_path):
    """Only sizes between measured ones have them; errors of held-out sizes are drawn."""
    rows = [line(1 << k, (50 + 2**k / 1e5) * (1 + k % 3 / 50)) for k in range(20, 34)]
    (tmp_path / "a.txt").write_text(text(rows, "all_gather", nodes=1, gpus=8))
    made = netsim("calibrate", "a.txt", "--out", "mine.toml", "--plot", "a.png", "--json")
    assert json.loads(made.stdout)["changes"] == []
    assert (tmp_path / "a.png").stat().st_size > 1000
    show = ("workload", "show", "llama3_70b", "--set", "machine=./mine.toml")
    assert "90 % interval" in netsim(*show).stdout
    sent = json.loads(netsim(*show, "--json").stdout)["messages"]
    told = [one for one in sent if one["what"] == "all_gather" and one["network"] == "scale_up"]
    assert told
    assert all(one["low_ps"] < one["time_ps"] < one["high_ps"] for one in told)
    assert all(one["low_ps"] is None for one in sent if one["what"] == "send")
