"""netsim: a packet-level simulator of datacenter networks for AI clusters.

    import netsim
    result = netsim.load("results/p2p_512")

What stands in `__all__` is imported when it is first used, so that importing netsim costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.version import __version__

if TYPE_CHECKING:
    from netsim.errors import InputError, RunError
    from netsim.experiment import Experiment
    from netsim.results import Result, Sweep, load, load_sweep
    from netsim.running.resume import resume_experiment
    from netsim.running.sweep import run_experiment


__all__ = [
    "Experiment",
    "InputError",
    "Result",
    "RunError",
    "Sweep",
    "__version__",
    "load",
    "load_sweep",
    "resume_experiment",
    "run_experiment",
]

_HOMES = {
    "Experiment": "netsim.experiment",
    "InputError": "netsim.errors",
    "Result": "netsim.results",
    "RunError": "netsim.errors",
    "Sweep": "netsim.results",
    "load": "netsim.results",
    "load_sweep": "netsim.results",
    "resume_experiment": "netsim.running.resume",
    "run_experiment": "netsim.running.sweep",
}


_HERE = Path(__file__).parent
if not (_HERE / "topologies").is_dir():
    # Imported from the source tree, where some packages stand beside this one: Python started in
    # the tree takes this folder for netsim even where another copy is installed.
    __path__.append(str(_HERE.parent))


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'netsim' has no attribute '{name}'")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
