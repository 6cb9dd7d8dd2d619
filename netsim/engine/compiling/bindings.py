"""Values of names in the engine, as compiled for one set of plugins and one fabric.

Both compilation (`specialize.py`) and its cache key (`code_fingerprint.py`) use them, so neither
sees anything that the other does not. Names of netsim and of plugins are followed, not those of
libraries.
"""

from __future__ import annotations

import dis
import os
import sys
import sysconfig
import types
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from netsim.engine.kernels.specialization_constants import CONSTANTS

LIBRARIES = {"site-packages", "dist-packages"}  # folders of installed libraries


@cache
def _foreign_roots() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple({paths[k] for k in ("stdlib", "platstdlib", "purelib", "platlib")})


@cache
def package_root() -> str:
    """Return the folder of the package."""
    return str(Path(__file__).resolve().parents[2])


@cache
def is_ours(path: str | None) -> bool:
    """Return whether a file's functions are compiled: netsim's and plugins', not libraries'."""
    if path is None or not path.endswith(".py"):
        return False
    real = os.path.realpath(path)
    if real.startswith(package_root()):
        return True
    if LIBRARIES.intersection(Path(real).parts):
        return False
    return not any(real.startswith(root + os.sep) for root in _foreign_roots())


def top_package(name: str) -> str:
    """Return the outermost package of a dotted name."""
    return name.partition(".")[0]


def source_files(plugins: Sequence[types.ModuleType]) -> list[Path]:
    """Return every file that the compiled code of ``plugins`` can depend on. That is the whole
    package, and all modules outside libraries that a plugin's globals reach."""
    root = Path(package_root())
    files = set(root.rglob("*.py"))
    seen: set[str] = set()
    queue = list(plugins)
    tops = {top_package(plugin.__name__) for plugin in plugins}
    while queue:
        module = queue.pop()
        if module.__name__ in seen:
            continue
        seen.add(module.__name__)
        path = getattr(module, "__file__", None)
        if path is not None and path.endswith(".py"):
            files.add(Path(path).resolve())
        for value in list(vars(module).values()):
            name = value.__name__ if isinstance(value, types.ModuleType) else None
            name = name or getattr(value, "__module__", None)
            found = sys.modules.get(name) if isinstance(name, str) else None
            if found is None:
                continue
            if top_package(found.__name__) in tops or is_ours(getattr(found, "__file__", None)):
                queue.append(found)
    return sorted(files)


ENGINE = "netsim.engine."
"""In these modules' functions, division by zero is not an error, because it does not occur."""

SEPARATE = (
    "host_step",
    "switch_step",
    "step_all",
    "assist",
    "count_out_of_order",
    "broken",
    "complete_task",
    "close_interval",
    "copy_watched",
)
"""Functions that are not inlined: large ones with several callers, and rarely called ones."""

IN_PLACE = (
    "env_of",
    "queue_env_of",
    "queue_env_at",
    "program_env_of",
    "routing_env_of",
    "plane_env_of",
)
"""Functions that return a tuple of records, which Numba's cannot: they are inlined as source."""


@lru_cache(maxsize=4096)
def global_names(code: types.CodeType) -> tuple[str, ...]:
    """Return the global names that a function, or one within it, uses."""
    loads = dis.get_instructions(code)
    names = {str(load.argval) for load in loads if load.opname == "LOAD_GLOBAL"}
    within = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return tuple(sorted(names.union(*map(global_names, within))))


@lru_cache(maxsize=4096)
def _attribute_names(code: types.CodeType) -> frozenset[str]:
    """Return the names that a function, or one within it, may look up in a module."""
    within = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return frozenset(code.co_names).union(*map(_attribute_names, within))


class Bindings:
    """Engine functions with ``values`` (numbers or functions by name) for its constants.

    ``plugins`` are the plugins' modules. With ``checked``, an index out of bounds is an error.
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
            "inline": "always" if function.__name__ in IN_PLACE else "never",
        }
