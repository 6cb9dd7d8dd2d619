"""Collectives from MSCCL algorithm files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from engine_runs import US
from raises_input import mentions, raises_input
from task_times import simulated
from traffic_cases import GBPS, made

from netsim.errors import InputError
from netsim.model.workload import Workload
from netsim.workloads.collectives import CollectiveOptions, Wire, closed_form_ps

PACKET_PS = 4160 * 80
ONE_PACKET = 2 * (PACKET_PS + 1 * US)
WIRE = Wire(100 * GBPS, 2 * US + PACKET_PS, 4096, 64)


def step(number: int, kind: str, count: int = 1, after: tuple[int, int] = (-1, -1)) -> str:
    return (
        f'<step s="{number}" type="{kind}" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" '
        f'cnt="{count}" depid="{after[0]}" deps="{after[1]}" hasdep="0"/>'
    )


def block(number: int, send: int, receive: int, *steps: str) -> str:
    inner = "\n".join(steps)
    return f'<tb id="{number}" send="{send}" recv="{receive}" chan="0">\n{inner}\n</tb>'


def algo(gpus: list[list[str]], chunks: int, coll: str = "allreduce") -> str:
    inner = "".join(f'<gpu id="{k}">{"".join(blocks)}</gpu>\n' for k, blocks in enumerate(gpus))
    head = f'<algo name="mine" nchunksperloop="{chunks}" ngpus="{len(gpus)}" coll="{coll}">'
    return f"{head}\n{inner}</algo>"


def ring(n: int) -> str:
    """Return a ring all-reduce as msccl-tools writes it: one thread block sends and reduces."""
    kinds = ["s", *["rrc", "s"] * (n - 1), *["r", "s"] * (n - 2), "r"]
    steps = [step(k, kind) for k, kind in enumerate(kinds)]
    return algo([[block(0, (k + 1) % n, (k - 1) % n, *steps)] for k in range(n)], n)


def msccl(directory: Path, text: str, n_hosts: int = 4, **given: Any) -> Workload:
    (directory / "a.xml").write_text(text)
    return made("msccl", n_hosts, directory=directory, file="a.xml", **given)


def test_ring_duration_equals_its_closed_form(tmp_path: Path) -> None:
    for n in [2, 4, 8]:
        load = msccl(tmp_path, ring(n), n, size=f"{n * 8192}B")
        assert len(load.flows) == n * 2 * (n - 1)
        assert simulated(load, n).makespan == closed_form_ps(
            "all_reduce", n, n * 8192, WIRE, CollectiveOptions("ring")
        )
        assert mentions(load.notes, "a.xml", "mine", len(load.flows))


def test_thread_blocks_run_in_parallel_and_honor_dependencies(
    tmp_path: Path,
) -> None:
    """GPU 1 copies the data from GPU 0, then forwards it to GPU 2 in another thread block."""
    gpus = [
        [block(0, 1, -1, step(0, "s", 2))],
        [
            block(0, -1, 0, step(0, "r", 2), step(1, "cpy")),
            block(1, 2, -1, step(0, "nop", 0, (0, 1)), step(1, "s")),
            block(2, 3, -1, step(0, "s")),
        ],
        [block(0, -1, 1, step(0, "r"))],
        [block(0, -1, 1, step(0, "r"))],
    ]
    load = msccl(tmp_path, algo(gpus, 2), size="8192B")
    assert load.flows.size_bytes.tolist() == [8192, 4096, 4096]
    assert simulated(load, 4).makespan == PACKET_PS + 2 * ONE_PACKET


def test_receive_copy_send_step_forwards_its_data(tmp_path: Path) -> None:
    gpus = [
        [block(0, 1, -1, step(0, "s"))],
        [block(0, 2, 0, step(0, "rcs"))],
        [block(0, -1, 1, step(0, "r"))],
    ]
    load = msccl(tmp_path, algo(gpus, 1, "broadcast"), size="4096B")
    assert simulated(load, 4).makespan == 2 * ONE_PACKET


RING = ring(2)


def test_invalid_files_are_rejected(tmp_path: Path) -> None:
    for text, message in [
        ("", "a.xml: is not XML: no element found"),
        (RING[:200], "a.xml: is not XML"),
        ("<ring/>", "a.xml: starts with <ring>"),
        (RING.replace('ngpus="2"', 'ngpus="3"'), "a.xml: has 2 of 3 GPUs (ngpus)"),
        (RING.replace('ngpus="2"', 'ngpus="1"'), "a.xml: gpu 0, tb 0: invalid peer GPU 1"),
        (RING.replace('ngpus="2"', 'ngpus="two"'), 'a.xml: ngpus of <algo>: "two"'),
        (RING.replace('nchunksperloop="2"', ""), "a.xml: <algo> has no nchunksperloop"),
        (RING.replace('gpu id="1"', 'gpu id="0"'), "a.xml: gpu 0 is duplicate"),
        (RING.replace("tb", "threadblock"), "a.xml: <threadblock> in <gpu> (<tb>)"),
        (RING.replace('send="1"', 'send="0"'), "a.xml: gpu 0, tb 0: invalid peer GPU 0"),
        (RING.replace('send="1"', 'send="-1"'), "a.xml: gpu 0, tb 0: step 0 (s) has no peer"),
        (
            RING.replace('type="rrc"', 'type="rrx"'),
            'gpu 0, tb 0: step 1: "rrx" is not a type (s, rcs',
        ),
        (RING.replace('s="1"', 's="4"'), "gpu 0, tb 0: steps must be numbered from 0"),
        (
            RING.replace('depid="-1" deps="-1"', 'depid="1" deps="0"', 1),
            "a.xml: gpu 0, tb 0: step 0 waits for step 0 of tb 1, which does not exist",
        ),
        (
            RING.replace('cnt="1"', 'cnt="2"', 1),
            "a.xml: message 0 from GPU 0 to 1 on channel 0: 2 chunks sent, 1 chunks received",
        ),
        (
            algo([[block(0, 1, -1, step(0, "s"))], [block(0, -1, 0)]], 1),
            "a.xml: message 0 from GPU 0 to 1 on channel 0: 1 chunks sent, nothing received",
        ),
        (
            algo([[block(k, 1 - k, 1 - k, step(0, "r"), step(1, "s"))] for k in range(2)], 1),
            "a.xml: dependency cycle: receive allreduce o",
        ),
    ]:
        with pytest.raises(InputError) as caught:
            msccl(tmp_path, text, size="4096B")
        assert message in str(caught.value)
        assert "a.xml" in str(caught.value)


def test_size_below_one_byte_per_chunk_is_rejected(tmp_path: Path) -> None:
    with raises_input(key="traffic.size"):
        msccl(tmp_path, ring(4), size="3B")
