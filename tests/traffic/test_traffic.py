"""Traffic patterns and size distributions."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from raises_input import mentions, raises_input
from traffic_cases import made, make, pairs, star

from netsim.cli import app
from netsim.flows import PATTERN_PARAMS, Destinations, destinations
from netsim.model.flows import FlowTable
from netsim.model.patterns import PATTERNS
from netsim.model.workload import Workload
from netsim.params import resolve_params
from netsim.traffic._sizes import BUILT_IN, SizeDistribution, find_sizes


@given(
    n_hosts=st.integers(2, 300),
    stage=st.integers(1, 100),
    placement=st.sampled_from(["linear", "stages", "random"]),
)
def test_pipeline_hosts_send_once_and_receive_once(n_hosts, stage, placement) -> None:
    if stage >= n_hosts:
        with raises_input(key="traffic.stage_hosts"):
            make("pipeline", n_hosts, stage_hosts=stage)
        return
    flows = make("pipeline", n_hosts, stage_hosts=stage, placement=placement)
    assert sorted(flows.src) == sorted(flows.dst) == list(range(n_hosts))


def test_pipeline_stages_placement_keeps_blocks_together() -> None:
    flows = make("pipeline", 80, stage_hosts=8, placement="stages")
    blocks = {(src // 8, dst // 8) for src, dst in pairs(flows)}
    assert len(blocks) == 10
    assert all(src % 8 == dst % 8 for src, dst in pairs(flows))
    assert blocks != {(block, (block + 1) % 10) for block in range(10)}


@given(st.integers(2, 200), st.floats(0, 1), st.integers(0, 5))
def test_permutation_has_one_sender_per_receiver(n_hosts: int, load: float, seed: int) -> None:
    taking_part = round(load * n_hosts)
    if taking_part < 2:
        with raises_input(key="traffic.load"):
            make("permutation", n_hosts, load=load, seed=seed)
        return
    flows = make("permutation", n_hosts, load=load, seed=seed)
    assert len(flows) == taking_part
    assert len(set(flows.src.tolist())) == taking_part
    assert set(flows.src.tolist()) == set(flows.dst.tolist())


def test_permutation_draws_every_derangement_equally_often() -> None:
    drawn = [tuple(make("permutation", 4, seed=seed).dst.tolist()) for seed in range(900)]
    counts = np.unique(np.array(drawn), axis=0, return_counts=True)[1]
    assert counts.size == 9
    # Chi squared with 8 degrees of freedom exceeds 26.1 once in a thousand.
    assert ((counts - 100) ** 2 / 100).sum() < 26.1


@given(st.integers(1, 10), st.integers(1, 5), st.sampled_from(["random", "linear"]))
def test_incast_senders_and_receivers_are_distinct(fan_in: int, groups: int, senders: str) -> None:
    if groups * (fan_in + 1) > 40:
        with raises_input("40", key="traffic.fan_in"):
            make("incast", 40, fan_in=fan_in, groups=groups)
        return
    flows = make("incast", 40, fan_in=fan_in, groups=groups, senders=senders)
    assert len(set(flows.src.tolist())) == len(flows) == groups * fan_in
    receivers, counts = np.unique(flows.dst, return_counts=True)
    assert receivers.size == groups
    assert (counts == fan_in).all()
    assert not set(receivers.tolist()) & set(flows.src.tolist())


def test_all_to_all_sends_to_every_host_of_the_group() -> None:
    for group in [2, 3, 12]:
        flows = make("all_to_all", 12, group_size=group)
        expected = {(a, b) for a in range(12) for b in range(12) if a // group == b // group} - {
            (a, a) for a in range(12)
        }
        assert len(flows) == len(expected)
        assert set(pairs(flows)) == expected
        for step in range(group - 1):
            assert sorted(flows.dst[step * 12 : (step + 1) * 12]) == list(range(12))


def test_all_to_all_one_by_one_waits_for_the_previous_send() -> None:
    flows = make("all_to_all", 6, group_size=3, one_by_one=True)
    for flow in range(len(flows)):
        waits = flows.awaited(flow)
        assert waits == ([] if flow < 6 else [flow - 6])
        assert all(flows.src[before] == flows.src[flow] for before in waits)


def test_poisson_offers_the_given_load() -> None:
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


def test_poisson_between_racks_excludes_only_the_own_rack() -> None:
    flows = make("poisson", 12, sizes="1KB", rate=1e6, n_flows=50_000, rack_hosts=3)
    counts = np.bincount(flows.src * 12 + flows.dst, minlength=144).reshape(12, 12)
    racks = np.arange(12) // 3
    own = racks[:, None] == racks[None, :]
    assert (counts[own] == 0).all()
    # Chi squared with 107 degrees of freedom exceeds 157 once in a thousand.
    expected = 50_000 / 108
    assert ((counts[~own] - expected) ** 2 / expected).sum() < 157


def test_data_mining_mean_matches_the_published_value() -> None:
    """The pFabric workloads give a mean of 5,117 packets of 1,460 bytes."""
    assert SizeDistribution.from_points(
        BUILT_IN["data_mining"]
    ).mean_bytes() / 1460 == pytest.approx(5117, abs=1)


def test_step_interpolation_draws_only_the_points_of_a_table() -> None:
    points = [["100B", 0.0], ["180B", 0.085], ["1KB", 0.5], ["1MB", 1.0]]
    flows = make("poisson", 4, sizes=points, cdf_interpolation="step", rate=1.0, n_flows=20_000)
    sizes, counts = np.unique(flows.size_bytes, return_counts=True)
    assert sizes.tolist() == [180, 1000, 10**6]
    assert counts / 20_000 == pytest.approx([0.085, 0.415, 0.5], abs=0.015)
    found = find_sizes(((100, 0.0), (180, 0.085), (1000, 0.5), (10**6, 1.0)), Path(), "step")
    assert found.mean_bytes() == pytest.approx(180 * 0.085 + 1000 * 0.415 + 10**6 * 0.5)


WEB_SEARCH = (
    "0 0\n10000 15\n20000 20\n30000 30\n50000 40\n80000 53\n200000 60\n1000000 70\n"
    "2000000 80\n5000000 90\n10000000 97\n30000000 100\n"
)
DATA_MINING = (
    "100,0\n180,.085\n250,.14\n560,.33\n900,.47\n1100,.55\n1870,.65\n3160,.7\n10000,.8\n"
    "100001,.874\n400000,.9\n1850000,.95\n10000000,.97\n30000000,.98\n100000000,.99\n"
    "250000000,.995\n1000000000,1\n"
)


def test_note_reports_the_mean_of_a_size_table(tmp_path: Path) -> None:
    """Tables of other simulators, in percent or fractions; the two interpolations differ widely."""
    for text, linear, step in [
        (WEB_SEARCH, "1,711,250.0", "2,434,900.0"),  # as tabulated with HPCC
        (WEB_SEARCH.replace(" ", "\t"), "1,711,250.0", "2,434,900.0"),
        (DATA_MINING, "5,036,535.2", "7,861,994.5"),  # as tabulated with opera-sim
    ]:
        (tmp_path / "t.csv").write_text(text)
        more = {"directory": tmp_path, "sizes": "t.csv", "rate": 1.0, "n_flows": 1}
        for mean, value in (("linear", linear), ("step", step)):
            (note,) = made("poisson", 4, cdf_interpolation=mean, **more).notes
            assert mentions(note, "t.csv", value)


def test_sizes_are_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "sizes.txt").write_text("# bytes percent\n100 50\n\n200, 100\n")
    flows = make("poisson", 4, directory=tmp_path, sizes="sizes.txt", rate=1.0, n_flows=10_000)
    assert flows.size_bytes.min() == 100
    assert 195 <= flows.size_bytes.max() <= 200
    for text, message in (
        ("100 0.5\nmany 1", ("sizes.txt:2", "1")),
        (f"{2**50} 1", "sizes.txt:1"),
        ("9" * 5000 + " 1", "sizes.txt:1"),
        ("100 0.5\n50 1", "sizes.txt:2"),
        ("100 0.5\n", ("sizes.txt:1", "1", "100")),
    ):
        (tmp_path / "sizes.txt").write_text(text)
        with raises_input(message):
            make("poisson", 4, directory=tmp_path, sizes="sizes.txt", rate=1.0, n_flows=10)


@given(st.data(), st.integers(1, 40))
def test_mean_packets_is_the_sum_over_all_sizes(data, payload) -> None:
    """A message has more than k packets if it is larger than k payloads, for any points."""
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
    assert SizeDistribution.from_points(tuple(points)).mean_packets(payload) == pytest.approx(
        expected
    )


def found(n_hosts: int, pattern: str, **given: object) -> Destinations:
    params = resolve_params(
        PATTERN_PARAMS, {}, {"pattern": pattern, **given}, None, file=None, key="traffic"
    )
    return destinations(params, star(n_hosts), np.random.default_rng(1))


def grid(shape: str, each: int) -> list[tuple[int, ...]]:
    """Return the coordinates of each host, followed by its index at its grid position."""
    sizes = [*map(int, shape.split("x")), each]
    return list(itertools.product(*map(range, sizes)))


CASES = [
    ("tornado", "8", 1, lambda x, h: [((x + 3) % 8, h)]),
    ("tornado", "4x5", 2, lambda x, y, h: [((x + 1) % 4, (y + 2) % 5, h)]),
    ("transpose", "3x3", 2, lambda x, y, h: [(y, x, h)]),
    ("transpose", "2x3x2", 1, lambda x, y, z, h: [(z, y, x, h)]),
    ("bit_complement", "4x4", 2, lambda x, y, h: [(3 - x, 3 - y, 1 - h)]),
    ("near_neighbor", "4x2", 2, lambda x, y, h: [((x + 1) % 4, (y + 1) % 2, h)]),
    ("stencil", "4x2x1", 3, lambda x, y, z, h: [
        ((x + 1) % 4, y, z, h), ((x + 3) % 4, y, z, h), (x, 1 - y, z, h)]),
    ("group_plus_one", "5x2", 2, lambda x, _y, _h: [
        ((x + 1) % 5, a, b) for a in range(2) for b in range(2)]),
]  # fmt: skip


def expected_demand(shape: str, each: int, to: object) -> np.ndarray:
    """Return the demand of each pair of hosts, from a pattern's definition on coordinates."""
    places = grid(shape, each)
    number = {place: host for host, place in enumerate(places)}
    demand = np.zeros((len(places), len(places)))
    for src, place in enumerate(places):
        partners = to(*place)
        for partner in partners:
            demand[src, number[partner]] += 1 / len(partners)
    np.fill_diagonal(demand, 0)
    return demand


@pytest.mark.parametrize(("pattern", "shape", "each", "to"), CASES)
def test_demand_follows_the_definition(pattern: str, shape: str, each: int, to: object) -> None:
    expected = expected_demand(shape, each, to)
    n = len(expected)
    made = found(n, pattern, shape=shape)
    assert made.demand(np.ones(n), np.arange(n)) == pytest.approx(expected)
    assert made.senders.tolist() == np.flatnonzero(expected.any(axis=1)).tolist()


@pytest.mark.parametrize("pattern", PATTERNS)
def test_draws_and_received_bytes_agree_with_the_demand(pattern: str) -> None:
    n = 64
    made = found(n, pattern, shape="8x8", hot_hosts=3, hot_fraction=0.4, group_offset=9)
    demand = made.demand(np.ones(n), np.arange(n))
    assert demand.sum(axis=1)[made.senders] == pytest.approx(1)
    assert not np.diag(demand).any()
    sends = np.arange(1.0, n + 1)
    assert made.received(sends) == pytest.approx(sends @ demand)
    group = np.arange(n) * 7 % 5  # not in host order
    one_hot = np.eye(5)[group]
    assert made.demand(sends, group) == pytest.approx(
        one_hot.T @ (sends[:, None] * demand) @ one_hot
    )
    src = np.repeat(made.senders, 2000)
    counts = np.zeros((n, n))
    np.add.at(counts, (src, made.draw(src, np.random.default_rng(2))), 1 / 2000)
    assert not counts[demand == 0].any()
    # A share of 2000 draws deviates by six standard errors once in ten million.
    assert (np.abs(counts - demand) < 6 * np.sqrt(demand / 2000) + 1e-12).all()


def test_step_waits_for_the_flows_of_its_host_in_the_previous_step() -> None:
    for pattern, each in [("stencil", 4 * 12), ("uniform", 12), ("hot_spot", 12)]:
        flows = make("pattern", 12, pattern=pattern, shape="3x4", steps=3, hot_fraction=0.9)
        assert len(flows) == 3 * each
        for flow, src in enumerate(flows.src.tolist()):
            before = range((flow // each - 1) * each, flow // each * each)
            expected = [k for k in before if k >= 0 and src in (flows.src[k], flows.dst[k])]
            assert sorted(flows.awaited(flow)) == expected
    first, second, third = flows.dst.reshape(3, -1).tolist()
    assert first != second != third  # drawn again in every step


def test_even_arrivals_offer_the_load_to_within_one_flow() -> None:
    given = {"pattern": "tornado", "shape": "9", "sizes": "8192B", "arrival_process": "even"}
    flows = make("poisson", 9, load=0.5, duration="2ms", **given)
    gap_ps = (8192 + 2 * 64) * 8 * 10**12 / (0.5 * 100e9)
    for host in range(9):
        starts = flows.start_ps[flows.src == host]
        assert np.abs(np.diff(starts) - gap_ps).max() <= 1
        assert abs(starts.size - 2e9 / gap_ps) <= 1
        assert set(flows.dst[flows.src == host].tolist()) == {(host + 4) % 9}
    assert len(make("poisson", 9, load=0.5, n_flows=100, **given)) == 100


# Deciles of the message sizes, from the axis ticks of figure 12.
DECILES = {
    "homa_w3": (36, 77, 110, 158, 268, 313, 402, 573, 1_755),
    "homa_w4": (315, 376, 502, 561, 662, 960, 6_387, 49_408, 120_373),
}


@pytest.mark.parametrize("name", DECILES)
def test_deciles_match_the_paper(name: str) -> None:
    points = BUILT_IN[name]
    for tenth, size in enumerate(DECILES[name], start=1):
        assert size in {at for at, _ in points}
        below = max(p for at, p in points if at < size)
        up_to = max(p for at, p in points if at <= size)
        assert below <= tenth / 10 + 0.004
        assert up_to >= tenth / 10 - 0.004


def test_knots_and_interpolated_steps_match_homamodule() -> None:
    """Values around some knots, from util/dist.cc of PlatformLab/HomaModule."""
    w3, w4 = dict(BUILT_IN["homa_w3"]), dict(BUILT_IN["homa_w4"])
    for size, up_to in {36: 0.108913, 77: 0.220705, 1_024: 0.8632, 1_053: 0.865736}.items():
        assert w3[size] == pytest.approx(up_to, abs=1e-6)
    for size, up_to in {53: 0.00074, 92: 0.0074, 9_012: 0.7095, 8_582_787: 0.9987}.items():
        assert w4[size] == pytest.approx(up_to, abs=1e-6)


EXPERIMENT = """
transport = "ideal"
[topology]
kind = "fat_tree"
hosts_per_leaf = 2
leaves = 2
[traffic]
kind = "poisson"
sizes = [["1KB", 0.5], ["3KB", 1.0]]
rate = 1e6
n_flows = 10
"""


def test_notes_are_printed_and_written_to_the_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("e.toml").write_text(EXPERIMENT)
    checked = CliRunner().invoke(app, ["check", "e.toml", "--set", "seed='1..2'"])
    ran = CliRunner().invoke(app, ["run", "e.toml", "--out", "r"])
    (note,) = json.loads(Path("r/summary.json").read_text())["traffic"]
    assert "1,500.0" in note
    assert checked.output.count(note) == 1
    assert note in ran.output


def test_joined_workloads_keep_each_note_once() -> None:
    one, other = (Workload(FlowTable([0], [1], 1), notes=notes) for notes in (("a", "b"), ("b",)))
    assert Workload.join([one, other]).notes == ("a", "b")
