"""Traffic patterns: destinations as demand, as open-loop draws, and as finite steps."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from raises_input import raises_input
from traffic_cases import make, star

from netsim.flows import PATTERN_PARAMS, Destinations, destinations
from netsim.model.patterns import PATTERNS
from netsim.params import resolve_params


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
            assert sorted(flows.waits_for(flow)) == expected
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


def test_invalid_parameters_are_rejected() -> None:
    for n_hosts, given, message in [
        (12, {"pattern": "bit_complement"}, ("traffic.pattern", "12")),
        (12, {"pattern": "tornado"}, "traffic.shape"),
        (12, {"pattern": "tornado", "shape": "5"}, ("traffic.shape", "12")),
        (12, {"pattern": "tornado", "shape": "0x4"}, "traffic.shape"),
        (12, {"pattern": "tornado", "shape": "three"}, ("traffic.shape", "three")),
        (12, {"pattern": "tornado", "shape": "2x2"}, "traffic.pattern"),
        (12, {"pattern": "transpose", "shape": "3x4"}, ("traffic.shape", "3x4")),
        (12, {"pattern": "group_plus_one", "shape": "4", "group_offset": 8}, "group_offset"),
        (12, {"pattern": "hot_spot", "hot_hosts": 12}, "traffic.hot_hosts"),
        (12, {"pattern": "stencil", "shape": "1"}, "traffic.shape"),
        (12, {"pattern": "wave"}, "traffic.pattern"),
        (1, {}, "traffic"),
        (12, {"steps": 2 * 10**9}, ("traffic.steps", "flows")),
    ]:
        with raises_input(message):
            make("pattern", n_hosts, **given)
    with raises_input("traffic.rack_hosts"):
        make("poisson", 8, sizes="1KB", rate=1.0, n_flows=9, rack_hosts=2, pattern="bit_complement")
