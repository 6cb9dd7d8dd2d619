"""Find modules of the simulator and its applications by folder, and experiments.

No other module of the simulator names an application.
"""

from __future__ import annotations

import ast
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

APPLICATIONS = ("netsim.workloads",)

FOLDERS = {
    "transport": "transports",
    "topology": "topologies",
    "traffic": "traffic",
    "queue": "queues",
    "routing": "routing_algorithms",
}
"""Kind -> the folder whose modules are built-in plugins of that kind."""


GROUPS = (
    *("start", "transports", "topologies", "circuits", "failures"),
    *("routing", "training", "inference", "serving", "wide_area", "paper", "questions"),
)
"""Folders of experiments, in listing order."""

FIRST = "p2p_512"  # experiment to start with


def modules(folder: str) -> dict[str, str]:
    """The files in each package called `folder`: stem -> module name, without importing it. The
    simulator's own come first. A leading underscore hides a file."""
    found: dict[str, str] = {}
    for base in ("netsim", *APPLICATIONS):
        spec = find_spec(f"{base}.{folder}")
        for place in spec.submodule_search_locations or () if spec else ():
            stems = sorted(file.stem for file in Path(place).glob("*.py"))
            found |= {name: f"{base}.{folder}.{name}" for name in stems if name[0] != "_"}
    return found


def summary(module: str) -> str:
    """The first line of a built-in plugin's docstring; the plugin is not imported."""
    spec = find_spec(module)
    assert spec is not None
    with Path(spec.origin or "").open(encoding="utf-8") as file:
        return file.readline().strip().strip('"')


def declared(folder: str, name: str) -> dict[str, Any]:
    """The literals that files of a folder assign to `name`; no file is imported."""
    found = {}
    for stem, module in modules(folder).items():
        spec = find_spec(module)
        text = Path(spec.origin).read_text("utf-8") if spec and spec.origin else ""
        if f"\n{name}" in text:
            for node in ast.parse(text).body:
                if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
                    found[stem] = ast.literal_eval(node.value)
    return found


def applications(folder: str) -> list[ModuleType]:
    """The package called `folder` of each application."""
    return [import_module(f"{base}.{folder}") for base in APPLICATIONS]


def built_in() -> dict[str, Path]:
    """The built-in experiments, name -> file, by group."""
    roots = [Path(folder) for folder in import_module("netsim.experiments").__path__]
    files = [
        file for root in roots for group in GROUPS for file in sorted(root.glob(f"{group}/*.toml"))
    ]
    return {file.stem: file for file in files}


def stated_time(file: Path) -> str:
    """The run time stated at the top of a built-in experiment, such as "20 s"."""
    found = re.search(r"(?m)^# Time: +([^,\n]+)", file.read_text("utf-8"))
    return found[1] if found else ""
