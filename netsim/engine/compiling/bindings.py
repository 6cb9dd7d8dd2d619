"""Values of names in the engine, as compiled for one set of plugins and one fabric.

Both compilation (`specialize.py`) and its cache key (`code_fingerprint.py`) use them, so neither
sees anything that the other does not.
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
"""In these modules' functions, division by zero is not an error, because it does not occur."""

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
"""Functions that are not inlined: large ones with several callers, and rarely called ones."""

PARALLEL = ("step_parallel",)
"""Functions with a parallel loop."""

IN_PLACE = ("env_of", "queue_env_of", "queue_env_at", "program_env_of")
"""Functions that return a tuple of records, which Numba's cannot: they are inlined as source."""


@lru_cache(maxsize=4096)
def global_names(code: types.CodeType) -> tuple[str, ...]:
    """Return the global names that a function, or one within it, uses."""
    loads = dis.get_instructions(code)
    names = {str(load.argval) for load in loads if load.opname == "LOAD_GLOBAL"}
    within = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return tuple(sorted(names.union(*map(global_names, within))))


def _attribute_names(code: types.CodeType) -> set[str]:
    """Return the names that a function, or one within it, may look up in a module."""
    within = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*map(_attribute_names, within))


class Bindings:
    """Engine functions with ``values`` (numbers or functions by name) for its constants.

    ``plugins`` are the modules of the transports and the queue discipline. With ``checked``, an
    index out of bounds is an error.
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
        """Return the values of a function's global names, without builtins."""
        names = function.__globals__
        found = (name for name in global_names(function.__code__) if name in names)
        return {name: self._bound(names[name]) for name in found}

    def _bound(self, value: Any) -> Any:
        """Return the value that a specialization constant is bound to; any other value as it is."""
        return self._values.get(id(value), value)

    def compiles(self, value: Any) -> bool:
        """Return whether it is a function that is compiled as part of the engine."""
        return isinstance(value, types.FunctionType) and (
            top_package(value.__module__ or "") in self._tops or is_ours(value.__code__.co_filename)
        )

    def members(self, value: Any, user: types.FunctionType) -> dict[str, Any] | None:
        """Return the members of a helper module that ``user`` may use by name; None for other
        values."""
        if not isinstance(value, types.ModuleType) or not is_ours(getattr(value, "__file__", None)):
            return None
        used = _attribute_names(user.__code__)
        members = sorted(vars(value).items())
        found = ((name, member) for name, member in members if name in used and name[:2] != "__")
        return {name: self._bound(member) for name, member in found}

    def options(self, function: types.FunctionType) -> dict[str, Any]:
        """Return Numba's options; outside the engine, they check for division by zero."""
        sure = function.__module__.startswith(ENGINE) and not self.checked
        return {
            "error_model": "numpy" if sure else "python",
            "boundscheck": self.checked or None,
            "forceinline": function.__name__ not in SEPARATE,
            "parallel": function.__name__ in PARALLEL,
            "inline": "always" if function.__name__ in IN_PLACE else "never",
        }
