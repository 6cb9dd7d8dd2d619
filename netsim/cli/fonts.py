"""Where matplotlib keeps its list of fonts while a command draws: in netsim's cache."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

DRAWING = {"run", "plot", "trace", "topo", "workload", "cost", "reproduce"}
"""Commands that can draw."""


def keep_fonts(arguments: Sequence[str]) -> None:
    """Have matplotlib write nothing into the user's own folders, unless these say where to write.

    Its settings (matplotlibrc) are still the user's.
    """
    if not DRAWING & set(arguments[:1]) or "MPLCONFIGDIR" in os.environ:
        return
    from netsim.engine.compiling.cache import own_folder

    folder = own_folder("matplotlib")
    if folder is None:
        return
    os.environ["MPLCONFIGDIR"] = str(folder)
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    settings = Path(base, "matplotlib", "matplotlibrc")
    if settings.is_file():
        os.environ.setdefault("MATPLOTLIBRC", str(settings))
