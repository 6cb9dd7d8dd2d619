"""Traffic patterns: who sends to whom, how random ones are distributed, what files may say."""

from __future__ import annotations

import os
import time
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from math import ceil
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from netsim.errors import InputError
from netsim.flows import FlowTable, TrafficContext
from netsim.network import Network, NetworkBuilder
from netsim.params import resolve_params
from netsim.registry import find
from netsim.traffic._sizes import BUILT_IN, Sizes

GBPS = 10**9


def star(n_hosts: int) -> Network:
    """Hosts around one switch, 100 Gbps, 1 us."""
    builder = NetworkBuilder()
    hosts = builder.add_hosts(n_hosts)
    switch = builder.add_switch()
    builder.cables(np.array(hosts), switch, 100 * GBPS, 10**6)
    return builder.build("star")


def make(
    kind: str,
    n_hosts: int,
    *,
    directory: Path = Path(),
    seed: int = 1,
    n_classes: int = 1,
    **given: object,
) -> FlowTable:
    plugin = find("traffic", kind)
    params = resolve_params(plugin.params, plugin.presets, given, None, file=None, key="traffic")
    context = TrafficContext(directory, seed, 100 * GBPS, 4096, 64, n_classes)
    network = star(n_hosts)
    flows = plugin.module.flows(params, network, np.random.default_rng(seed), context)
    flows.validate(n_hosts)
    return flows


def pairs(flows: FlowTable) -> list[tuple[int, int]]:
    return list(zip(flows.src.tolist(), flows.dst.tolist(), strict=True))


# --- pipeline ------------------------------------------------------------------------------------


@given(
    n_hosts=st.integers(2, 300),
    stage=st.integers(1, 100),
    placement=st.sampled_from(["linear", "stages", "random"]),
)
def test_pipeline_every_host_sends_once_and_receives_once(n_hosts, stage, placement) -> None:
    if stage >= n_hosts:
        with pytest.raises(InputError, match=r"traffic.stage_hosts: a pipeline of .* no second"):
            make("pipeline", n_hosts, stage_hosts=stage)
        return
    flows = make("pipeline", n_hosts, stage_hosts=stage, placement=placement)
    assert sorted(flows.src) == sorted(flows.dst) == list(range(n_hosts))


def test_pipeline_same_replica_and_rank_of_the_next_layer() -> None:
    flows = make("pipeline", 3 * 72, size="1MB")
    for src, dst in pairs(flows):
        layer, replica, rank = src // 72, src % 72 // 18, src % 18
        assert dst == (layer + 1) % 3 * 72 + replica * 18 + rank
    assert (flows.size_bytes == 10**6).all()
    assert (flows.start_ps == 0).all()


def test_pipeline_default_message_is_the_mixture_of_experts_chunk() -> None:
    assert make("pipeline", 144).size_bytes[0] == 97_390_000


def test_several_pipelines_without_wrap() -> None:
    flows = make("pipeline", 12, stage_hosts=2, stages=3, wrap=False)
    assert pairs(flows) == [(0, 2), (1, 3), (2, 4), (3, 5), (6, 8), (7, 9), (8, 10), (9, 11)]


def test_pipeline_stages_placement_keeps_blocks_together() -> None:
    flows = make("pipeline", 80, stage_hosts=8, placement="stages")
    blocks = {(src // 8, dst // 8) for src, dst in pairs(flows)}
    assert len(blocks) == 10
    assert all(src % 8 == dst % 8 for src, dst in pairs(flows))
    assert blocks != {(block, (block + 1) % 10) for block in range(10)}


def test_pipelines_that_do_not_fill_the_hosts() -> None:
    with pytest.raises(InputError, match=r"traffic.stages: pipelines of 3 stages of 4 hosts"):
        make("pipeline", 16, stage_hosts=4, stages=3)


# --- permutation, incast, all to all -------------------------------------------------------------


@given(st.integers(2, 200), st.floats(0, 1), st.integers(0, 5))
def test_permutation(n_hosts: int, load: float, seed: int) -> None:
    taking_part = round(load * n_hosts)
    if taking_part < 2:
        with pytest.raises(InputError, match=r"traffic.load: .* fewer than two"):
            make("permutation", n_hosts, load=load, seed=seed)
        return
    flows = make("permutation", n_hosts, load=load, seed=seed)
    assert len(flows) == taking_part
    assert len(set(flows.src.tolist())) == taking_part
    assert set(flows.src.tolist()) == set(flows.dst.tolist())


def test_every_derangement_is_equally_likely() -> None:
    drawn = [tuple(make("permutation", 4, seed=seed).dst.tolist()) for seed in range(900)]
    counts = np.unique(np.array(drawn), axis=0, return_counts=True)[1]
    assert counts.size == 9
    # Chi squared with 8 degrees of freedom exceeds 26.1 once in a thousand.
    assert ((counts - 100) ** 2 / 100).sum() < 26.1


def test_patterns_follow_the_seed() -> None:
    for kind, given_ in (("permutation", {}), ("incast", {"fan_in": 5})):
        assert pairs(make(kind, 64, **given_)) == pairs(make(kind, 64, **given_))
        assert pairs(make(kind, 64, **given_)) != pairs(make(kind, 64, seed=2, **given_))


@given(st.integers(1, 10), st.integers(1, 5), st.sampled_from(["random", "linear"]))
def test_incast(fan_in: int, groups: int, senders: str) -> None:
    if groups * (fan_in + 1) > 40:
        with pytest.raises(InputError, match=r"needs \d+ hosts, the network has 40"):
            make("incast", 40, fan_in=fan_in, groups=groups)
        return
    flows = make("incast", 40, fan_in=fan_in, groups=groups, senders=senders)
    assert len(set(flows.src.tolist())) == len(flows) == groups * fan_in
    receivers, counts = np.unique(flows.dst, return_counts=True)
    assert receivers.size == groups
    assert (counts == fan_in).all()
    assert not set(receivers.tolist()) & set(flows.src.tolist())


def test_incast_at_a_given_receiver() -> None:
    assert set(make("incast", 9, fan_in=8, receiver=3).dst.tolist()) == {3}
    linear = make("incast", 9, fan_in=3, receiver=7, senders="linear")
    assert pairs(linear) == [(8, 7), (0, 7), (1, 7)]
    with pytest.raises(InputError, match=r"traffic.receiver: host 9 does not exist"):
        make("incast", 9, fan_in=2, receiver=9)
    with pytest.raises(InputError, match=r"traffic.receiver: cannot be given with 2 groups"):
        make("incast", 9, fan_in=2, receiver=0, groups=2)


@pytest.mark.parametrize("group", [2, 3, 12])
def test_all_to_all(group: int) -> None:
    flows = make("all_to_all", 12, group_size=group)
    expected = {(a, b) for a in range(12) for b in range(12) if a // group == b // group} - {
        (a, a) for a in range(12)
    }
    assert len(flows) == len(expected)
    assert set(pairs(flows)) == expected
    for step in range(group - 1):
        assert sorted(flows.dst[step * 12 : (step + 1) * 12]) == list(range(12))


def test_all_to_all_one_by_one() -> None:
    flows = make("all_to_all", 6, group_size=3, one_by_one=True)
    for flow in range(len(flows)):
        waits = flows.waits_for(flow)
        assert waits == ([] if flow < 6 else [flow - 6])
        assert all(flows.src[before] == flows.src[flow] for before in waits)


def test_all_to_all_groups_that_do_not_fill_the_hosts() -> None:
    with pytest.raises(InputError, match=r"traffic.group_size: groups of 5 hosts do not fill 12"):
        make("all_to_all", 12, group_size=5)


# --- poisson -------------------------------------------------------------------------------------


def test_poisson_fills_the_offered_share_of_the_links() -> None:
    flows = make("poisson", 20, sizes="8192B", load=0.4, duration="20ms")
    wire_bits = (flows.total_bytes + 2 * 64 * len(flows)) * 8
    assert wire_bits / (20 * 100e9 * 20e-3) == pytest.approx(0.4, rel=0.01)


def test_poisson_gaps_are_exponential_and_pairs_uniform() -> None:
    flows = make("poisson", 10, sizes="1KB", rate=1e6, n_flows=100_000)
    gaps = np.diff(flows.start_ps)
    assert gaps.mean() == pytest.approx(1e5, rel=0.02)
    assert gaps.std() == pytest.approx(1e5, rel=0.02)
    counts = np.bincount(flows.src * 10 + flows.dst, minlength=100).reshape(10, 10)
    assert (np.diag(counts) == 0).all()
    # Chi squared with 89 degrees of freedom exceeds 135 once in a thousand.
    expected = 100_000 / 90
    assert ((counts[~np.eye(10, dtype=bool)] - expected) ** 2 / expected).sum() < 135


def test_poisson_duration_ends_arrivals() -> None:
    flows = make("poisson", 10, sizes="1KB", rate=1e6, duration="1ms")
    assert len(flows) == pytest.approx(10_000, rel=0.05)
    assert 0 <= flows.start_ps[0] <= flows.start_ps[-1] < 10**9
    assert (np.diff(flows.start_ps) >= 0).all()


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"load": 0.5}, "traffic.duration: missing"),
        ({"duration": "1ms"}, "traffic.load: missing"),
        ({"load": 0.5, "rate": 1.0, "duration": "1ms"}, "traffic.load: cannot be given together"),
        ({"load": 0.0, "n_flows": 5}, "traffic.load: must be positive"),
        ({"rate": 0.0, "n_flows": 5}, "traffic.rate: must be positive"),
        ({"rate": 1e-3, "duration": "1ns"}, "no flow arrives"),
        ({"load": 0.5, "n_flows": 2 * 10**9}, "traffic.n_flows: 2,000,000,000 flows need about"),
        ({"rate": 1e11, "duration": "1s"}, "traffic.duration: 400,000,000,000 flows need about"),
        ({"rate": 1e-300, "n_flows": 9}, "traffic.n_flows: the last of 9 flows would arrive after"),
        ({"load": 0.5, "n_flows": 5, "sizes": "web_serch"}, 'did you mean "web_search"'),
    ],
)
def test_poisson_parameters(given_: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make("poisson", 4, **({"sizes": "1KB"} | given_))


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_drawn_sizes_have_the_computed_means(name: str) -> None:
    sizes = Sizes.from_points(BUILT_IN[name])
    drawn = sizes.draw(2_000_000, np.random.default_rng(3))
    assert drawn.mean() == pytest.approx(sizes.mean_bytes(), rel=0.02)
    packets = -(-drawn // 1000)
    assert packets.mean() == pytest.approx(sizes.mean_packets(1000), rel=0.02)


def test_the_published_mean_of_data_mining() -> None:
    """5,117 packets of 1,460 bytes, the mean given with the pFabric workloads."""
    assert Sizes.from_points(BUILT_IN["data_mining"]).mean_bytes() / 1460 == pytest.approx(
        5117, abs=1
    )


@given(
    st.lists(st.tuples(st.integers(0, 5000), st.floats(0, 1)), min_size=1, max_size=6),
    st.integers(1, 2000),
)
def test_mean_packets_of_any_distribution(points: list, payload: int) -> None:
    values = sorted(size for size, _ in points)
    below = [*sorted(probability for _, probability in points[1:]), 1.0]
    sizes = Sizes.from_points(tuple(zip(values, below, strict=True)))
    grid = np.interp((np.arange(200_000) + 0.5) / 200_000, sizes.below, sizes.sizes)
    expected = np.maximum(1, np.ceil(grid / payload)).mean()
    assert sizes.mean_packets(payload) == pytest.approx(expected, rel=1e-3, abs=1e-3)


def test_a_step_distribution_draws_only_its_sizes() -> None:
    flows = make(
        "poisson",
        4,
        sizes=[["1KB", 0.25], ["1MB", 0.25], ["1MB", 1.0]],
        rate=1.0,
        n_flows=10_000,
    )
    small = int((flows.size_bytes == 1000).sum())
    assert small + int((flows.size_bytes == 10**6).sum()) == 10_000
    assert small == pytest.approx(2500, abs=200)


def test_sizes_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "sizes.txt").write_text("# bytes percent\n100 50\n\n200, 100\n")
    flows = make("poisson", 4, directory=tmp_path, sizes="sizes.txt", rate=1.0, n_flows=10_000)
    assert flows.size_bytes.min() == 100
    assert 195 <= flows.size_bytes.max() <= 200
    for text, message in (
        ("100 0.5\nmany 1", r"sizes.txt:2: .many 1. is not a size and a probability"),
        (f"{2**50} 1", r"sizes.txt:1: .* is not a size and a probability"),
        ("9" * 5000 + " 1", r"sizes.txt:1: .* is not a size and a probability"),
        ("100 0.5\n50 1", r"sizes.txt:2: sizes and cumulative probabilities must not fall"),
        ("100 0.5\n", r"sizes.txt:1: the last cumulative probability is neither 1 nor 100"),
    ):
        (tmp_path / "sizes.txt").write_text(text)
        with pytest.raises(InputError, match=message):
            make("poisson", 4, directory=tmp_path, sizes="sizes.txt", rate=1.0, n_flows=10)


def test_packets_of_a_terabyte_are_not_counted_one_by_one() -> None:
    """A mean of packets costs nothing that grows with the size; by hand, it is a sum."""
    began = time.perf_counter()
    assert Sizes.from_points(((10**12, 1.0),)).mean_packets(4096) == ceil(10**12 / 4096)
    assert Sizes.from_points(((0, 0.0), (10**15, 1.0))).mean_packets(1) == 5e14 + 0.5
    assert time.perf_counter() - began < 0.1


@given(st.data(), st.integers(1, 40))
def test_mean_packets_is_the_sum_over_all_sizes(data, payload) -> None:
    """More than k packets are those of more than k payloads, whatever the points are."""
    n = data.draw(st.integers(1, 6))
    sizes = sorted(data.draw(st.lists(st.integers(0, 300), min_size=n, max_size=n)))
    below = sorted(data.draw(st.lists(st.floats(0, 1), min_size=n - 1, max_size=n - 1)))
    points = list(zip(sizes, [*below, 1.0], strict=True))

    def no_larger(size: int) -> float:
        last = max((k for k in range(n) if sizes[k] <= size), default=None)
        if last is None or last == n - 1:
            return 0.0 if last is None else 1.0
        (low, up_to), (high, then) = points[last], points[last + 1]
        return up_to + (then - up_to) * (size - low) / (high - low)

    expected = 1 + sum(1 - no_larger(k * payload) for k in range(1, sizes[-1] // payload + 1))
    assert Sizes.from_points(tuple(points)).mean_packets(payload) == pytest.approx(expected)


def test_a_million_flows_take_a_second_or_so() -> None:
    begin = time.perf_counter()
    make("poisson", 1000, sizes="web_search", load=0.5, n_flows=1_000_000)
    assert time.perf_counter() - begin < 5


# --- flow lists ----------------------------------------------------------------------------------


def flow_list(directory: Path, text: str, n_hosts: int = 4) -> FlowTable:
    (directory / "flows.csv").write_text(text)
    return make("flow_list", n_hosts, directory=directory, n_classes=2, file="flows.csv")


def test_flow_list_csv(tmp_path: Path) -> None:
    flows = flow_list(
        tmp_path,
        "# three flows\nsrc, dst,size_bytes,start_us,class,after\n"
        "0,1,1000,0,0,\n\n1,2,2000,1.5,1,0\n2,3,3000,1e3,0,0 1\n",
    )
    assert pairs(flows) == [(0, 1), (1, 2), (2, 3)]
    assert flows.size_bytes.tolist() == [1000, 2000, 3000]
    assert flows.start_ps.tolist() == [0, 1_500_000, 10**9]
    assert flows.cls.tolist() == [0, 1, 0]
    assert [flows.waits_for(flow) for flow in range(3)] == [[], [0], [0, 1]]


def test_flow_list_with_written_units(tmp_path: Path) -> None:
    flows = flow_list(tmp_path, "src,dst,size,start\n0,1,2MB,1.5us\n1,0,64KiB,0ns\n")
    assert flows.size_bytes.tolist() == [2_000_000, 65_536]
    assert flows.start_ps.tolist() == [1_500_000, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("src,dst,size_bytes\n", "has no flows"),
        ("src,dst\n0,1\n", "must be one column size_bytes or size"),
        ("src,dest,size_bytes\n0,1,5\n", r'column "dest" is not known \(did you mean "dst"\?\)'),
        ("src,size_bytes\n0,1\n", "there is no column dst"),
        ("src,src,dst,size_bytes\n0,0,1,1\n", "csv:1: names a column twice"),
        ("src,dst,size_bytes\n0,1,5\n0,1\n", "csv:3: has 2 values for 3 columns"),
        ("src,dst,size_bytes\n# x\n0,1,many\n", 'csv:3: size_bytes: "many" is not a number'),
        (
            "src,dst,size_bytes\n0,1,99999999999999999999\n",
            'csv:2: size_bytes: "9+" is not a number',
        ),
        (f"src,dst,size_bytes\n0,1,{'9' * 5000}\n", 'csv:2: size_bytes: "9+..." is not a number'),
        ("src,dst,size_bytes\n0,1,1_000\n", 'csv:2: size_bytes: "1_000" is not a number'),
        ("src,dst,size_bytes\n0,²,9\n", 'csv:2: dst: "²" is not a number'),
        ("src,dst,size_bytes,class\n0,1,9,0\n0,1,9,2\n", "csv:3: class 2, but the fabric has cl"),
        ("src,dst,size_bytes,class\n0,1,9,-1\n", "csv:2: class -1, but the fabric has class"),
        (
            "src,dst,size_bytes,start_ps\n0,1,9,72057594037927936\n",
            "csv:2: start_ps .* is too late",
        ),
        ("src,dst,size_bytes,start_s\n0,1,9,1e400\n", "csv:2: start_s 1e400 is too large"),
        ("src,dst,size_bytes,start_s\n0,1,9,nan\n", "csv:2: start_s nan is too large"),
        ("src,dst,size_bytes\n0,1," + "9" * 200_000, "csv:2: is not CSV: field larger"),
        ("src,dst,size_bytes\n0,1,0\n", "csv:2: the size is 0 bytes"),
        ("src,dst,size_bytes\n0,1,5\n\n0,4,5\n", r"csv:4: dst 4 does not exist \(hosts are 0..3"),
        ("src,dst,size_bytes\n2,2,5\n", "csv:2: host 2 sends to itself"),
        ("src,dst,size\n0,1,5\n", "csv:2: size: "),
        ("src,dst,size_bytes,start_s\n0,1,5,-1\n", "csv:2: start_s -1 is negative"),
        ("src,dst,size_bytes,start_s\n0,1,5,1e9\n", "csv:2: start_s 1e9 is too large"),
        ("src,dst,size_bytes,start_s\n0,1,5,nan\n", "csv:2: start_s nan is too large"),
        ("src,dst,size_bytes,start_s,start\n0,1,5,0,0ns\n", "several start columns"),
        ("src,dst,size_bytes,after\n0,1,5,3\n", "csv:2: after: flow 3 does not exist"),
    ],
)
def test_a_faulty_list_names_the_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        flow_list(tmp_path, text)


def test_flow_list_parquet(tmp_path: Path) -> None:
    columns = {"src": [0, 1], "dst": [1, 0], "size_bytes": [10, 20], "start_ns": [0.5, 2.0]}
    parquet.write_table(pa.table({**columns, "after": [[], [0]]}), tmp_path / "flows.parquet")
    flows = make("flow_list", 2, directory=tmp_path, file="flows.parquet")
    assert pairs(flows) == [(0, 1), (1, 0)]
    assert flows.start_ps.tolist() == [500, 2000]
    assert flows.waits_for(1) == [0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"src": [0, None]}, "column src has empty cells"),
        ({"src": [0.5, 1.0]}, "column src is of double, not of whole numbers"),
        ({"src": [False, True]}, "column src is of bool, not of whole numbers"),
        ({"src": pa.array([2**63, 1], pa.uint64())}, "row 0: src 9223372036854775808 is too large"),
        ({"start_us": ["1", "2"]}, "column start_us is of string, not of numbers"),
        ({"start_us": [Decimal(1), Decimal(2)]}, "column start_us is of decimal128.* of numbers"),
        ({"start_ps": [[1], [2]]}, "column start_ps is of list.* not of whole numbers"),
        ({"start": [datetime(2020, 1, 1)] * 2}, r"column start is of timestamp.* not of text"),
        ({"start": [b"1us", b"1us"]}, r"column start is of binary, not of text"),
        ({"start_ps": [0, None]}, "column start_ps has empty cells"),
        ({"after": [[1.5], []]}, "column after is of list.* not of text, whole numbers or lists"),
        ({"after": [[None, 1], []]}, "row 0: after: a?.* is not a number"),
        ({"class": [0, 1]}, "row 1: class 1, but the fabric has class 0 only"),
        ({"dst": [1, 1]}, "parquet: row 1: host 1 sends to itself"),
    ],
)
def test_a_faulty_parquet_file_names_the_row(tmp_path: Path, change: dict, message: str) -> None:
    columns = {"src": [0, 1], "dst": [1, 0], "size_bytes": [10, 20]} | change
    parquet.write_table(pa.table(columns), tmp_path / "flows.parquet")
    with pytest.raises(InputError, match=message):
        make("flow_list", 2, directory=tmp_path, file="flows.parquet")


@pytest.mark.parametrize(
    "after", [[[], []], [[], [0]], ["", "0"], pa.array(["1", ""]).dictionary_encode()]
)
def test_what_a_parquet_file_may_say_of_dependencies(tmp_path: Path, after) -> None:
    columns = {"src": [0, 1], "dst": [1, 0], "size_bytes": [10, 20], "after": after}
    parquet.write_table(pa.table(columns), tmp_path / "flows.parquet")
    flows = make("flow_list", 2, directory=tmp_path, file="flows.parquet")
    assert len(flows) == 2


def test_a_parquet_file_of_more_rows_than_fit_is_refused_unread(tmp_path: Path) -> None:
    """A run of equal values takes no room in the file."""
    ones = pa.array(np.ones(1_000_000, np.int64))
    table = pa.table(dict.fromkeys(("src", "dst", "size_bytes"), ones))
    parquet.write_table(table, tmp_path / "flows.parquet")
    assert (tmp_path / "flows.parquet").stat().st_size < 20_000
    with (
        patch("netsim.memory.available_bytes", return_value=100_000_000),
        pytest.raises(InputError, match="file: 1,000,000 flows need about"),
    ):
        make("flow_list", 2, directory=tmp_path, file="flows.parquet")


def test_what_is_no_regular_file_is_refused_unread(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "folder.parquet").mkdir()
    for name, message in [
        ("pipe.csv", "pipe.csv: is a pipe or a device, not a file"),
        ("/dev/zero", "/dev/zero: is a pipe or a device, not a file"),
        ("folder.parquet", "folder.parquet: is a directory, not a file"),
        ("x" * 300, "x{77}.*. cannot name a file: longer than 255 bytes"),
        ("a\0b", r"\"a\\x00b\" cannot name a file: it contains a NUL"),
        ("~nosuchuser/x.csv", "~nosuchuser/x.csv. starts in the home directory of nobody"),
    ]:
        for kind in ("flow_list", "htsim_cm"):
            with pytest.raises(InputError, match=message):
                make(kind, 2, directory=tmp_path, file=name)


@pytest.mark.parametrize("name", ["none.csv", "none.parquet"])
def test_a_missing_list(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=rf"{name}: cannot be read"):
        make("flow_list", 2, directory=tmp_path, file=name)


# --- htsim connection matrices -------------------------------------------------------------------

MATRIX = """\
Nodes 4
Connections 4
Triggers 2
# a barrier, then a chain
0->1 id 1 start 0 size 2000000 send_done_trigger 7
2->1 id 2 start 2500000 size 3000000 recv_done_trigger 7

1->3 id 3 trigger 7 size 4000000 recv_done_trigger 8 prio 1
3->0 id 4 trigger 8 size 5000000
trigger id 7 barrier count 2
trigger id 8 oneshot
"""


def matrix(directory: Path, text: str, **given_: object) -> FlowTable:
    (directory / "flows.cm").write_text(text)
    return make("htsim_cm", 4, directory=directory, file="flows.cm", **given_)


def test_htsim_matrix(tmp_path: Path) -> None:
    flows = matrix(tmp_path, MATRIX)
    assert pairs(flows) == [(0, 1), (2, 1), (1, 3), (3, 0)]
    assert flows.size_bytes.tolist() == [2_000_000, 3_000_000, 4_000_000, 5_000_000]
    assert flows.start_ps.tolist() == [0, 2_500_000, 0, 0]
    assert [flows.waits_for(flow) for flow in range(4)] == [[], [], [0, 1], [2]]


def test_htsim_start_times_in_either_unit(tmp_path: Path) -> None:
    text = "Nodes 2\nConnections 1\n0->1 id 1 start 2.5 size 10\n"
    assert matrix(tmp_path, text, start_unit="us").start_ps.tolist() == [2_500_000]
    with pytest.raises(InputError, match=r"cm:3: the start 2.5 is not a whole number of pico"):
        matrix(tmp_path, text)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Nodes 4", "Nodes 5", "cm:1: 5 nodes, but the network has 4 hosts"),
        ("Nodes 4", "Nodes 3", r"cm:8: host 3 does not exist \(0..2\)"),
        ("Connections 4", "Connections 5", "cm:2: 5 Connections announced, 4 found"),
        ("Triggers 2", "Triggers", "cm:3: Triggers needs one number"),
        ("Triggers 2", "Triggers 3", "cm:3: 3 Triggers announced, 2 found"),
        ("Triggers 2", "Failures 1", "cm:3: link failures are not supported"),
        ("# a", "nonsense", 'cm:4: "nonsense" is not known here'),
        ("0->1", "0->0", "cm:5: host 0 sends to itself"),
        ("0->1", "a->1", 'cm:5: the source "a" is not a whole number'),
        ("size 2000000", "size 2MB", 'cm:5: the size "2MB" is not a whole number'),
        ("size 2000000", "size 0", "cm:5: a flow without end"),
        ("size 2000000 ", "", 'cm:5: the size "" is not a whole number'),
        ("id 1 start 0", "id 1 begin 0", 'cm:5: "begin" is not known in a connection'),
        ("id 1 start 0", "id 1", "cm:5: a connection has either a start or a trigger"),
        ("trigger 7 size", "start 1 trigger 7 size", "cm:8: a connection has either"),
        ("id 2 start", "id start", 'cm:6: "7" has no value'),
        ("id 2", "size 2", "cm:6: a word is given twice"),
        ("start 2500000", "start 1e999999999", 'cm:6: the start "1e999999999" is not a number'),
        ("start 2500000", f"start {'9' * 5000}", 'cm:6: the start "9+..." is not a number'),
        ("start 2500000", "start 1/0", 'cm:6: the start "1/0" is not a number'),
        ("start 2500000", "start 1e17", "cm:6: the start 1e17 is too late"),
        ("start 2500000", "start -1", "cm:6: the start -1 is negative"),
        ("start 2500000", "start 1e-3", "cm:6: the start 1e-3 is not a whole number of pico"),
        ("start 2500000", "start soon", 'cm:6: the start "soon" is not a number'),
        ("count 2", "count 3", r"cm:10: trigger 7 \(barrier\) is set off by 2 flows, not by 3"),
        ("barrier count 2", "oneshot", r"cm:10: trigger 7 \(oneshot\) is set off by 2 flows"),
        ("trigger id 8 oneshot", "trigger id 8", "cm:11: a trigger has an id, a kind"),
        ("trigger id 8 oneshot", "trigger id 7 oneshot", "cm:11: .* declared on line 10 too"),
        ("Triggers 2", "Triggers 1", "cm:3"),
        (" send_done_trigger 7", "", "cm:10: trigger 7 .* is set off by 1 flows, not by 2"),
        ("3->0 id 4 trigger 8", "3->0 id 4 trigger 9", "cm:9: trigger 9 is used and not decl"),
    ],
)
def test_a_faulty_matrix_names_the_line(tmp_path: Path, old, new, message) -> None:
    assert old in MATRIX
    with pytest.raises(InputError, match=message):
        matrix(tmp_path, MATRIX.replace(old, new, 1))


def test_a_multishot_trigger_starts_one_flow_each_time(tmp_path: Path) -> None:
    text = (
        "0->1 id 1 start 0 size 9 send_done_trigger 1\n1->2 id 2 trigger 1 size 9\n"
        "trigger id 1 multishot\n"
    )
    assert matrix(tmp_path, text).waits_for(1) == [0]
    with pytest.raises(InputError, match=r"cm:4: trigger 1 fires once and so starts one flow"):
        matrix(tmp_path, "2->3 id 3 trigger 1 size 9\n" + text)


def test_a_long_chain_of_flows(tmp_path: Path) -> None:
    n = 2000
    lines = ["0->1 id 1 start 0 size 9 send_done_trigger 1"]
    lines += [
        f"{i % 2}->{(i + 1) % 2} id {i + 1} trigger {i} size 9 send_done_trigger {i + 1}"
        for i in range(1, n)
    ]
    lines += [f"trigger id {i} oneshot" for i in range(1, n + 1)]
    flows = matrix(tmp_path, "\n".join(reversed(lines)))
    waits = [flows.waits_for(flow) for flow in range(n)]
    assert waits == [[flow + 1] for flow in range(n - 1)] + [[]]
    assert all(flows.src[a] != flows.src[b] for a, b in pairwise(range(n)))
