"""Log rows of programs, and the flow sizes that their handlers see."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from engine_runs import run
from program_case import body, done, engine, load_of
from raises_input import raises, raises_input
from traffic_cases import star

from netsim.engine.kernels.layout import DONE
from netsim.errors import RunError
from netsim.flows import FlowTable, Workload
from netsim.plugins import registry
from netsim.plugins.registry import PluginSpec


def test_receiver_learns_a_set_size_from_the_first_packet(tmp_path: Path) -> None:
    """Until then it sees the table's size, two packets; the sender has set it to one packet."""
    first, then = (f"set_size(env, task_at(env, 3), {n})" for n in (8192, 100))
    text = body("on_begin", first, then)
    text += (
        "\n\ndef on_task(env, now, task):"
        "\n    if env.host.host == 1:"
        "\n        log_row(env, now, flow_bytes(env, task_at(env, 0)), task.index)\n"
    )
    load = load_of(tmp_path, text, [0], size=8192, log_rows=9)
    one = engine(star(2), load)
    assert done(one) == DONE
    log = one.program_log()
    assert log is not None
    assert log["which"].tolist() == [1, 0]
    assert log["event"].tolist() == [8192, 100]
    assert one.flow_states().sent_packets.tolist() == [1]


def test_log_rows_are_ordered_by_host_and_call(tmp_path: Path) -> None:
    """Each host has its own room for rows. A snapshot contains the rows."""
    text = body("on_begin", "log_row(env, now, 7, -(1 << 62))")
    text += (
        "\n\ndef on_task(env, now, task):"
        "\n    log_row(env, now, task.index, task.kind == COMPUTE)"
        "\n    log_row(env, now, 1 - task.index, 0)\n"
    )
    load = load_of(tmp_path, text, [0, 3], log_rows=[9, 1_000_000_000])
    one = engine(star(2), load)
    assert done(one) == DONE
    log = one.program_log()
    assert log is not None
    assert list(log) == ["host", "time_ps", "event", "which"]
    rows = list(zip(*(column.tolist() for column in log.values()), strict=True))
    assert rows == [
        (0, 0, 7, -(1 << 62)),
        (0, 1000, 1, 1),
        (0, 1000, 0, 0),
        (0, 3000, 2, 1),
        (0, 3000, -1, 0),
        (1, 500, 1, 1),
        (1, 500, 0, 0),
    ]
    taken = one.snapshot()["hosts.log"]
    assert taken.shape == (7, 3)
    assert taken.raw.size == 7 * 3 * 8
    other = engine(star(2), load)
    other.restore(one.snapshot())
    assert other.digest() == one.digest()
    again = other.program_log()
    assert again is not None
    assert all(np.array_equal(again[name], log[name]) for name in log)


def test_fraction_in_a_log_row_is_an_error(tmp_path: Path) -> None:
    load = load_of(tmp_path, body("on_begin", "log_row(env, now, 1, 0.5)"), [], log_rows=1)
    with raises(RunError, "on_begin", "host 0", "float"):
        run(engine(star(2), load))


def test_invalid_numbers_of_log_rows_are_rejected(tmp_path: Path) -> None:
    text = body("on_begin", "pass")
    for rows, words in (
        ([1, 2, 3], ("(3,)", "(2,)")),
        (-1, ("-1", "host 0")),
        ([0, 1 << 31], ("2147483648", "host 1")),
        (0.5, "log_rows"),
    ):
        with raises_input("log_rows", words, file="mine.py"):
            load_of(tmp_path, text, [], log_rows=rows)
    with raises_input("log_rows", key="LOG"):
        load_of(tmp_path, text + "\nLOG = ()\n", [], log_rows=1)
    ring = PluginSpec(registry.find("traffic", "collective"), {})
    with raises_input("log_rows"):
        Workload(FlowTable([0], [1], 1), log_rows=5).with_program(ring, 2)
