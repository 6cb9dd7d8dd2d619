"""Messages over several queue pairs: results are per message, and the path of tasks is right."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from experiment_text import load, text
from raises_input import raises_input

from netsim.experiment.scenario import prepare
from netsim.results import load_result, write_result
from netsim.running.point import simulate
from netsim.workloads.tracing.critical_path import critical_path

ROCE = 'transport = {{kind = "roce", queue_pairs = {}}}'
RING = 'kind = "collective"\nalgorithm = "ring"\nsize = "160KB"'


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netsim.engine.engine.jit_enabled", lambda: False)


def run(tmp_path: Path, queue_pairs: int, traffic: str, out: str = "out"):
    point = load(tmp_path, text(top=ROCE.format(queue_pairs), traffic=traffic)).points()[0]
    return load_result(write_result(tmp_path / out, point, simulate(point)))


def test_a_message_ends_with_its_last_queue_pair(tmp_path: Path) -> None:
    one, four = (run(tmp_path, n, 'kind = "permutation"\nsize = "90KB"', f"{n}") for n in (1, 4))
    assert one.relay_segments is None
    assert four.matches_hash()
    flows, parts = four.flows, four.relay_segments
    assert parts is not None
    assert flows.select("src", "dst", "size_bytes", "packets", "ideal_ps").equals(
        one.flows.select("src", "dst", "size_bytes", "packets", "ideal_ps")
    )
    assert "relays" not in four.summary
    # 90 KB are 21.97 packets of 4 KiB: queue pairs of 6, 6, 5 and 4.97 packets.
    by_pair = parts.group_by("queue_pair", maintain_order=True).agg(pl.col("size_bytes").unique())
    packets = [[6 * 4096], [6 * 4096], [5 * 4096], [90_000 - 17 * 4096]]
    assert by_pair["size_bytes"].to_list() == packets
    last = parts.group_by("flow", maintain_order=True).agg(pl.col("fct_ps").max())
    assert last["fct_ps"].to_list() == flows["fct_ps"].to_list()
    assert (flows["slowdown"] >= 1).all()


def test_tasks_wait_for_all_queue_pairs(tmp_path: Path) -> None:
    """A ring of 16 hosts, whose steps are tasks: each waits for the whole message before it."""
    result = run(tmp_path, 4, RING)
    flows = result.flows.with_columns(end_ps=pl.col("start_ps") + pl.col("fct_ps"))
    starts = flows.group_by("src").agg(pl.col("start_ps").sort()).sort("src")["start_ps"]
    arrivals = flows.group_by("dst").agg(pl.col("end_ps").sort()).sort("dst")["end_ps"]
    assert all((own[1:] >= there[:-1]).all() for own, there in zip(starts, arrivals, strict=True))
    segments = critical_path(result).segments
    assert (segments["end_ps"] - segments["start_ps"]).sum() == result.summary["makespan_ps"]


@pytest.mark.parametrize(("queue_pairs", "on_a_plane"), [(2, {0, 1}), (4, {1}), (6, {1, 2})])
def test_queue_pairs_take_planes_in_turn(
    tmp_path: Path, queue_pairs: int, on_a_plane: set[int]
) -> None:
    plane = 'kind = "fat_tree"\nhosts_per_leaf = 4\nleaves = 2'
    planes = f'kind = "multi_plane"\nplanes = 4\n[topology.plane]\n{plane}'
    traffic = 'kind = "permutation"\nsize = "90KB"'
    content = text(top=ROCE.format(queue_pairs), topology=planes, traffic=traffic)
    scenario = prepare(load(tmp_path, content).points()[0])
    flows, ports = scenario.flows, scenario.port_pairs.src_port
    assert flows.queue_pairs is not None
    message = flows.queue_pairs[0]
    n_messages = int(message.max()) + 1
    plane = ports - scenario.network.node_first_port[flows.src]
    counts = np.zeros((n_messages, 4), int)
    np.add.at(counts, (message, plane), 1)
    assert set(counts.ravel()) == on_a_plane
    assert (counts.sum(1) == queue_pairs).all()


def test_programs_are_refused(tmp_path: Path) -> None:
    point = load(tmp_path, text(top=ROCE.format(2), traffic='kind = "batch_server"')).points()[0]
    with raises_input("batch_server", key="transport.queue_pairs"):
        simulate(point)
