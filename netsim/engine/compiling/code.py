"""The engine's machine code for some plugins and one fabric: in memory, on disk, or compiled."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from netsim.engine.compiling import cache
from netsim.engine.compiling.bindings import Bindings
from netsim.engine.compiling.code_fingerprint import Fingerprint, fingerprint_of, is_group
from netsim.engine.compiling.declarations import Discipline, Program, Protocol
from netsim.engine.compiling.specialize import Compiled, Entry, Specializer
from netsim.engine.kernels import (
    coupled_switch,
    decoupled_switch,
    host,
    layout,
    loop,
    switch,
    trace,
)
from netsim.engine.kernels.specialization_constants import CONSTANTS

ENTRY_POINTS: tuple[Any, ...] = (loop.run_windows, loop.set_up_flows)

LOADED = 16  # most recently used specializations whose code a process keeps

_loaded: OrderedDict[str, tuple[Compiled, ...]] = OrderedDict()


class Code:
    """The specialized entry points of the engine.

    ``constants`` are the features of the fabric and the plugins (`features` in state.py and
    declarations.py). Without ``jit`` the code stays plain Python; with ``checked`` compiled code
    checks array bounds.
    """

    def __init__(
        self,
        protocol: Protocol,
        discipline: Discipline,
        program: Program,
        constants: Mapping[str, Any],
        *,
        jit: bool = True,
        checked: bool = False,
    ) -> None:
        self._protocol, self._discipline, self._jit = protocol, discipline, jit
        self._program = program
        step = coupled_switch.switch_step if constants["COUPLED"] else switch.switch_step
        if constants["HAS_PREDICT_PAUSE"]:
            step = decoupled_switch.switch_step
        of_host: Any = host.host_step
        if constants["PLANE_BALANCING"] != layout.ONE_PORT:
            of_host = host.multi_port_step
        handlers = {**protocol.handlers, **discipline.handlers}
        handlers |= {f"program_{name}": one for name, one in program.handlers.items()}
        values = {**constants, **handlers, "switch_step": step, "host_step": of_host}
        assert values.keys() == CONSTANTS.keys()
        plugins = (*protocol.modules, discipline.module, *program.modules)
        self._bindings = Bindings(values, plugins, checked=checked)

    @property
    def key(self) -> str:
        """Key of the machine code; equal keys mean equal code."""
        return self._reached.key

    @cached_property
    def _reached(self) -> Fingerprint:
        protocol, discipline = self._protocol, self._discipline
        records = (protocol.tx, protocol.rx, protocol.host, protocol.packet, *protocol.pars)
        records += (discipline.port, discipline.queue, discipline.switch, discipline.par)
        records += (self._program.host, self._program.task, self._program.par)
        return fingerprint_of(self._bindings, ENTRY_POINTS, [*records, *_layouts()])

    def is_kept(self) -> bool:
        """Return whether nothing needs to be compiled."""
        known = not self._jit or self.key in _loaded
        return known or cache.is_kept(self.key, loop.run_windows.__name__)

    def entries(self) -> tuple[Entry, ...]:
        """Return callers of ENTRY_POINTS."""
        if self._jit:
            codes = self._reached.codes
            return tuple(Entry(compiled, codes=codes) for compiled in self._compiled())
        plain = Specializer(self._bindings, "plain", jit=False)
        return tuple(Entry(None, plain.copy(function)) for function in ENTRY_POINTS)

    def _compiled(self) -> tuple[Compiled, ...]:
        key, codes = self._reached
        if key not in _loaded:
            folder = cache.cache_folder(key)
            _loaded[key] = tuple(
                Compiled(function, self._bindings, key, folder, codes) for function in ENTRY_POINTS
            )
        _loaded.move_to_end(key)
        while len(_loaded) > LOADED:
            _loaded.popitem(last=False)
        return _loaded[key]


def _layouts() -> Sequence[Any]:
    """Return the engine's own records and groups of arrays."""
    found = [value for module in (layout, trace) for _, value in sorted(vars(module).items())]
    return [value for value in found if isinstance(value, np.dtype) or is_group(value)]
