"""Flow lists of other simulators: flow.txt of the HPCC family, and opera-sim's lists."""

from __future__ import annotations

from pathlib import Path

from raises_input import mentions, raises_input
from traffic_cases import made, make, pairs

from netsim.model.workload import Workload

NS3 = "2\n0 2 3 100 1000000 2.000000000\n1 2 3 100 1000000 2.000000000\n"


def ns3(directory: Path, text: str, n_hosts: int = 4, **given: object) -> Workload:
    (directory / "flow.txt").write_text(text)
    return made(
        "ns3_flows", n_hosts, directory=directory, n_traffic_classes=2, file="flow.txt", **given
    )


def test_flow_txt_is_read(tmp_path: Path) -> None:
    load = ns3(tmp_path, NS3)
    assert pairs(load.flows) == [(0, 2), (1, 2)]
    assert load.flows.size_bytes.tolist() == [10**6, 10**6]
    assert load.flows.start_ps.tolist() == [2 * 10**12] * 2
    assert load.notes == ()
    assert ns3(tmp_path, NS3, start_times="from_zero").flows.start_ps.tolist() == [0, 0]


def test_out_of_order_lines_keep_their_start_times_and_are_reported(tmp_path: Path) -> None:
    load = ns3(tmp_path, "3\n0 1 3 1 9 0.2\n1 2 3 1 9 0.1\n2 3 3 1 9 0.2\n")
    assert load.flows.start_ps.tolist() == [2 * 10**11, 10**11, 2 * 10**11]
    assert mentions(load.notes, "flow.txt", "1", "3")


def test_invalid_flow_txt_is_rejected(tmp_path: Path) -> None:
    for text, message in [
        ("", "flow.txt"),
        ("0\n", ("flow.txt:1", "0")),
        ("two\n0 1 3 1 9 0\n", "flow.txt:1"),
        ("1\n", "flow.txt"),
        ("2\n0 1 3 1 9 0\n", ("flow.txt:1", "2", "1")),
        ("1\n0 1 3 1 9 0\n0 1 3 1 9 0\n", ("flow.txt:1", "1", "2")),
        ("1\n0 1 3 1 9 0 7\n", ("flow.txt:2", "priority_group")),
        ("2\n0 1 3 1 9 0\n0 1 3 9 0\n", "flow.txt:3"),
        ("1\n0 1 3 1 9.5 0\n", "flow.txt:2"),
        ("1\n0 1 3 1 9 soon\n", "flow.txt:2"),
        ("1\n0 1 3 1 9 nan\n", ("flow.txt:2", "flow 0", "20")),
        ("1\n0 1 3 1 9 -1\n", ("flow.txt:2", "flow 0", "20")),
        ("1\n0 1 3 1 9 1e300\n", ("flow.txt:2", "flow 0", "20")),
        ("1\n0 1 3 1 0 0\n", ("flow.txt:2", "flow 0", "1")),
        ("1\n1 1 3 1 9 0\n", ("flow.txt:2", "flow 0")),
        ("1\n1 4 3 1 9 0\n", ("flow.txt:2", "4", "0", "3")),
        ("1\n-1 2 3 1 9 0\n", ("flow.txt:2", "-1")),
        ("1\n9" + "9" * 30 + " 2 3 1 9 0\n", "flow.txt:2"),
    ]:
        with raises_input(message):
            ns3(tmp_path, text)


def test_opera_flow_list_is_read(tmp_path: Path) -> None:
    (tmp_path / "f.htsim").write_text("0 3 1000000 0\n3 1 24000 1500\n")
    flows = make("opera_flows", 4, directory=tmp_path, file="f.htsim")
    assert pairs(flows) == [(0, 3), (3, 1)]
    assert flows.size_bytes.tolist() == [1_000_000, 24_000]
    assert flows.start_ps.tolist() == [0, 1_500_000]
    for text, message in (
        ("", ("f.htsim", "start_ns")),
        ("0 3 1 0\n0 3 1\n", ("f.htsim:2", "0", "3", "1")),
        ("0 4 1 0\n", ("f.htsim:1", "4")),
    ):
        (tmp_path / "f.htsim").write_text(text)
        with raises_input(message):
            make("opera_flows", 4, directory=tmp_path, file="f.htsim")
