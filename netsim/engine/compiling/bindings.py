"""What names stand for in the engine as it is compiled for one transport and one fabric.

The same answers decide what is compiled (`specialize.py`) and whether it has been
compiled before (`code_fingerprint.py`), so that neither sees anything that the other does not.
"""

from __future__ import annotations

import dis
import types
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from netsim.engine.compiling.sources import is_ours, top_package
from netsim.engine.kernels.specialization_constants import CONSTANTS

ENGINE = "netsim.engine."
"""Functions of these modules do not divide by zero; everywhere else that is an error."""

SEPARATE = (
    "host_step",
    "switch_step",
    "step_parallel",
    "count_out_of_order",
    "broken",
    "complete_task",
    "close_interval",
    "copy_watched",
)
"""Large functions that are called from two places and gain nothing from being inlined, and small
ones that are hardly ever called."""

PARALLEL = ("step_parallel",)
"""The functions with a parallel loop, which Numba takes a longer way through."""

IN_PLACE = ("env_of", "queue_env_of", "queue_env_at", "program_env_of")
"""Functions that return a tuple of records, as Numba's functions cannot: their statements are put
where they are called."""


@lru_cache(maxsize=4096)
def global_names(code: types.CodeType) -> tuple[str, ...]:
    """The names that a function, or one within it, looks up among its module's globals."""
    loads = dis.get_instructions(code)
    names = {str(load.argval) for load in loads if load.opname == "LOAD_GLOBAL"}
    within = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return tuple(sorted(names.union(*map(global_names, within))))


def _attribute_names(code: types.CodeType) -> set[str]:
    """All names that a function, or one within it, may look up in a module."""
    within = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*map(_attribute_names, within))


class Bindings:
    """The engine's functions with ``values`` for its constants: numbers or functions, by name.

    ``plugins`` are the modules of the transports and the queue discipline. With ``checked``, an
    index beyond an array is an error.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        plugins: Sequence[types.ModuleType],
        *,
        checked: bool = False,
    ) -> None:
        self.plugins = plugins
        self.checked = checked
        self._values = {id(CONSTANTS[name]): value for name, value in values.items()}
        self._tops = {"netsim", *(top_package(plugin.__name__) for plugin in plugins)}

    def of(self, function: types.FunctionType) -> dict[str, Any]:
        """What the global names of a function stand for; those that are builtins are left out."""
        names = function.__globals__
        found = (name for name in global_names(function.__code__) if name in names)
        return {name: self._bound(names[name]) for name in found}

    def _bound(self, value: Any) -> Any:
        """Return the value that a specialization constant is bound to; any other value as it is."""
        return self._values.get(id(value), value)

    def compiles(self, value: Any) -> bool:
        """Is it a function that is compiled as part of the engine?"""
        return isinstance(value, types.FunctionType) and (
            top_package(value.__module__ or "") in self._tops or is_ours(value.__code__.co_filename)
        )

    def members(self, value: Any, user: types.FunctionType) -> dict[str, Any] | None:
        """Of a module of helpers, what ``user`` may refer to by name; None of anything else."""
        if not isinstance(value, types.ModuleType) or not is_ours(getattr(value, "__file__", None)):
            return None
        used = _attribute_names(user.__code__)
        members = sorted(vars(value).items())
        found = ((name, member) for name, member in members if name in used and name[:2] != "__")
        return {name: self._bound(member) for name, member in found}

    def options(self, function: types.FunctionType) -> dict[str, Any]:
        """How a function is compiled. Divisions by zero are errors, but in the engine's own."""
        sure = function.__module__.startswith(ENGINE) and not self.checked
        return {
            "error_model": "numpy" if sure else "python",
            "boundscheck": self.checked or None,
            "forceinline": function.__name__ not in SEPARATE,
            "parallel": function.__name__ in PARALLEL,
            "inline": "always" if function.__name__ in IN_PLACE else "never",
        }
