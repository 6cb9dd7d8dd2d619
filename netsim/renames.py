"""Former public names. Each is an error that gives the new name; none is an alias.

`did_you_mean` finds the new name of an unknown key, value, option or command. A module that
plugins import raises `former(__name__)` from its `__getattr__`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NoReturn

RENAMED: dict[str, dict[str, str]] = {
    "command": {"economics": "cost"},
    "plot": {
        "fct": "fct_cdf",
        "goodput": "serving_goodput",
        "load": "fct_vs_load",
        "series": "timeseries",
        "serving": "serving_latency",
        "transports": "fct_by_transport",
    },
    "option": {
        "--again": "--force",
        "--checked": "--check-bounds",
        "--critical": "--critical-path",
        "--until": "--to",
        "--directory": "--experiment-dir",
        "--full": "--long",
    },
    "topology ocs": {
        "fibre_latency": "fiber_latency",
    },
    "site": {
        "data_centres": "datacenters",
    },
    "prices": {
        "fibre": "fiber",
    },
}
"""Kind -> old name -> new name.

A kind is "command", "plot", "option", "column", "status", a section of an experiment
("fabric.circuits"), a plugin and its keys ("topology ocs"), a key and its values
("topology ocs.schedule"), or a module ("netsim.queue").
"""


def new_name(old: str, known: Collection[str]) -> str | None:
    """Return the known name that replaced an old one, which may be dotted."""
    above, dot, last = old.rpartition(".")
    names = (above + dot + table[last] for table in RENAMED.values() if last in table)
    return next((name for name in names if name in known), None)


def former(module: str) -> Callable[[str], NoReturn]:
    """Return the `__getattr__` of a module with former names."""

    def refuse(name: str) -> NoReturn:
        new = RENAMED[module].get(name)
        raise AttributeError(f"{module}.{name}" + (f": renamed (write {new})" if new else ""))

    return refuse
