"""The holes of the kernels: each has a definition, and is of no use until it is filled."""

from __future__ import annotations

import operator

import pytest

from netsim.engine.kernels import holes, ports
from netsim.engine.kernels.handlers import HANDLERS
from netsim.engine.kernels.holes import HOLES, UnfilledError
from netsim.engine.kernels.program_handlers import PROGRAM_HANDLERS
from netsim.engine.kernels.queue_handlers import QUEUE_HANDLERS

USES = (
    bool,
    int,
    range,
    lambda value: value + 1,
    lambda value: 2 * value,
    lambda value: value == 3,
    lambda value: value < 3,
    lambda value: 1 << value,
    operator.index,
)


def test_a_hole_stands_under_its_name_and_cannot_be_used():
    for name, hole in HOLES.items():
        assert getattr(holes, name) is hole
        uses = (lambda value: value(1, 2, 3),) if callable(hole) else USES
        for use in uses:
            with pytest.raises(UnfilledError, match=f"^{name} has no value here"):
                use(hole)


def test_every_handler_has_one():
    steps = {"host_step", "switch_step"}
    programs = {f"program_{name}" for name in PROGRAM_HANDLERS}
    expected = {*HANDLERS, *QUEUE_HANDLERS, *programs, *steps}
    assert {name for name in HOLES if name.islower()} == expected


def test_a_kernel_that_is_not_specialized_does_not_run():
    with pytest.raises(UnfilledError, match="kernels run as specialized copies"):
        ports.set_paused(None, None, 0, 0)
