"""netsim: a packet-level simulator of datacenter networks for AI clusters.

    import netsim
    results = netsim.run("p2p_512")     # or netsim.load("results/p2p_512")

The names in `__all__` are imported on first use, so importing netsim is fast.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.version import __version__

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

    from netsim.api import Results, Saturations, check, load, run, saturate, steps, topo
    from netsim.errors import InputError, RunError
    from netsim.experiment import Experiment
    from netsim.results import FailedPoint, Result


__all__ = [
    "Experiment", "FailedPoint", "InputError", "Result", "Results", "RunError", "Saturations",
    "__version__", "check", "load", "run", "saturate", "steps", "topo",
]  # fmt: skip

_API = ("Results", "Saturations", "check", "load", "run", "saturate", "steps", "topo")
_HOMES = {
    **dict.fromkeys(_API, "netsim.api"),
    **dict.fromkeys(("InputError", "RunError"), "netsim.errors"),
    **dict.fromkeys(("FailedPoint", "Result"), "netsim.results"),
    "Experiment": "netsim.experiment",
}


class _SourceTree:
    """Finds the packages next to this folder in a source tree.

    Python started in the tree uses this folder as netsim even if another copy is installed. Only
    these four packages are found there: with the tree itself on `__path__`, `netsim.netsim.errors`
    would be a second copy of every module.
    """

    packages = ("experiments", "plots", "topologies", "transports")

    @classmethod
    def find_spec(cls, fullname: str, *_: Any) -> ModuleSpec | None:
        package, _dot, name = fullname.partition(".")
        if package != "netsim" or name not in cls.packages:
            return None
        from importlib.util import spec_from_file_location

        folder = Path(__file__).parent.parent / name
        return spec_from_file_location(
            fullname, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )


if not (Path(__file__).parent / "topologies").is_dir():
    sys.meta_path.append(_SourceTree())


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'netsim' has no attribute '{name}'")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
