"""Specialization constants are defined for all handlers and unusable until bound."""

from __future__ import annotations

import operator

import pytest
from raises_input import raises

from netsim.engine.kernels import handlers, ports, specialization_constants
from netsim.engine.kernels.handlers import (
    HANDLERS,
    PROGRAM_HANDLERS,
    QUEUE_HANDLERS,
    ROUTING_HANDLERS,
)
from netsim.engine.kernels.specialization_constants import CONSTANTS, UnboundConstantError

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


def test_unbound_constant_cannot_be_used():
    for name, constant in CONSTANTS.items():
        assert {**vars(handlers), **vars(specialization_constants)}[name] is constant
        uses = (lambda value: value(1, 2, 3),) if callable(constant) else USES
        for use in uses:
            with raises(UnboundConstantError, name):
                use(constant)


def test_every_handler_has_a_constant():
    programs = {f"program_{name}" for name in PROGRAM_HANDLERS}
    expected = {*HANDLERS, *QUEUE_HANDLERS, *ROUTING_HANDLERS, *programs, "switch_step"}
    assert {name for name in CONSTANTS if name.islower()} == expected


def test_unspecialized_kernel_does_not_run():
    with pytest.raises(UnboundConstantError):
        ports.set_paused(None, None, 0, 0)
