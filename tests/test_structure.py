"""The sources of netsim: imports between folders go one way, and files stay small; everything that
can affect a run is in its fingerprint, and a single module opens files for writing.

`netsim/README.md` describes the folders.
"""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import networkx as nx
import pytest
from marked import marked

import netsim
from netsim.results.provenance import BY_USE, PRESENTATION, affects_results

MAX_LINES = 900
MAX_PARAMETERS = 8

ROOT = Path(netsim.__file__).parent
PAGES = Path(__file__).parent.parent / "netsim"
MAPPED = [ROOT.parent] if not (ROOT / "topologies").is_dir() else []
WORKLOADS = "netsim.workloads"
NAME_APPLICATIONS = ("netsim.common.discovery",)

FOLDERS = ("experiments", "plots", "topologies", "transports")


@cache
def modules() -> dict[str, Path]:
    """Return the path of every netsim module by name, wherever the package is installed."""
    found = {}
    folders = [ROOT, *(base / name for base in MAPPED for name in FOLDERS)]
    for folder in folders:
        for path in folder.rglob("*.py"):
            base = ROOT if folder == ROOT else folder.parent
            parts = path.relative_to(base).with_suffix("").parts
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            found[".".join(("netsim", *parts))] = path
    return found


@cache
def nodes(path: Path) -> list[ast.AST]:
    """Return all nodes of a file's syntax tree."""
    return list(ast.walk(ast.parse(path.read_text("utf-8"))))


@cache
def imported(module: str) -> set[str]:
    """Return the netsim modules that a module imports anywhere, including type-only imports."""
    found = set()
    for node in nodes(modules()[module]):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names & modules().keys() or {node.module}
    return found & modules().keys() - {module}


def room(module: str) -> str:
    """Return the folder of a module, or the module itself at the top level of netsim."""
    parts = module.split(".")
    depth = 3 if module.startswith(f"{WORKLOADS}.") else 2
    is_package = modules()[module].name == "__init__.py"
    return ".".join(parts[:depth]) if len(parts) > depth or is_package else module


def test_simulator_does_not_import_workloads() -> None:
    """AI workloads build on the packet simulator, never the reverse."""
    found = {
        (module, other)
        for module in modules()
        if not module.startswith(WORKLOADS)
        for other in imported(module)
        if other.startswith(WORKLOADS)
    }
    named = {
        module
        for module, path in modules().items()
        if not module.startswith(WORKLOADS) and module not in NAME_APPLICATIONS
        for node in nodes(path)
        if isinstance(node, ast.Constant) and str(node.value).startswith(WORKLOADS)
    }
    assert not found | named


def test_folder_imports_have_no_cycles() -> None:
    graph: nx.DiGraph[str] = nx.DiGraph()
    why = defaultdict(list)
    for module in modules():
        for other in imported(module):
            here, there = room(module), room(other)
            if here not in (there, "netsim"):  # the package itself imports its exports
                graph.add_edge(here, there)
                why[here, there].append(f"{module} imports {other}")
    cycles = [one for one in nx.strongly_connected_components(graph) if len(one) > 1]
    arrows = [
        text
        for cycle in cycles
        for (here, there), texts in why.items()
        if here in cycle and there in cycle
        for text in texts
    ]
    assert not cycles, "\n".join(sorted(arrows))
    assert graph.number_of_edges() > 50


def test_module_imports_have_no_cycles() -> None:
    graph = nx.DiGraph((module, other) for module in modules() for other in imported(module))
    assert not [one for one in nx.strongly_connected_components(graph) if len(one) > 1]


def test_foundation_modules_import_only_each_other() -> None:
    files = ("common.discovery", "common.inputs", "common.memory", "common.writing")
    foundations = {
        f"netsim.{name}" for name in (*files, "common", "errors", "frozen", "limits", "units")
    }
    for module in foundations:
        assert imported(module) <= foundations


STATE = {f"netsim.engine.{name}" for name in ("kernels.fields", "kernels.layout", "state")}
MAY_IMPORT_STATE = ("netsim.program", "netsim.queue", "netsim.routing", "netsim.transport")
"""Modules that define the record fields that plugins may read, and the "never" of handlers."""


def test_only_the_engine_accesses_its_state() -> None:
    """Other modules use the methods of `Engine` (netsim/engine/state_views.py)."""
    found = []
    for module, path in modules().items():
        if room(module) == "netsim.engine":
            continue
        if module not in MAY_IMPORT_STATE:
            found += [f"{module} imports {other}" for other in imported(module) & STATE]
        for node in nodes(path):
            if isinstance(node, ast.Attribute) and node.attr == "state":
                whose = ast.unparse(node.value).rpartition(".")[2]
                if whose == "engine":
                    found.append(f"{module}, line {node.lineno}: {ast.unparse(node)}")
    assert not found


def test_files_and_functions_stay_within_size_limits() -> None:
    too_large = []
    tests = Path(__file__).parent
    files = {str(path.relative_to(tests.parent)): path for path in tests.rglob("*.py")}
    for module, path in (modules() | files).items():
        n_lines = len(path.read_text("utf-8").splitlines())
        if n_lines > MAX_LINES:
            too_large.append(f"{module} has {n_lines} lines")
        for node in nodes(path):
            # Decorated functions are commands: click passes their options by name.
            if isinstance(node, ast.FunctionDef) and not node.decorator_list:
                arguments = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
                own = [one for one in arguments if one.arg not in ("self", "cls")]
                if len(own) > MAX_PARAMETERS:
                    too_large.append(f"{module}.{node.name} has {len(own)} parameters")
    assert not too_large


def diagram_packages() -> dict[str, int]:
    """Return the packages in the diagrams of netsim/README.md with the line of each. The second
    diagram has the workloads, which are above all packages of the first."""
    page = (PAGES / "README.md").read_text("utf-8")
    simulator, workloads = marked(page, "simulator").strip(), marked(page, "workloads").strip()
    return {
        f"{package}.{name}": number
        for package, first, picture in (("netsim", 0, simulator), (WORKLOADS, -100, workloads))
        for number, line in enumerate(picture.splitlines(), first)
        for name in re.findall(r"(\w+)(?:/|\.py)", line)
    }


def test_package_diagram_matches_the_imports() -> None:
    drawn = diagram_packages()
    left_out = {"netsim", "netsim.__main__", "netsim.experiments", WORKLOADS}
    rooms = {room(module) for module in modules()} - left_out
    assert set(drawn) == rooms
    upwards = [
        f"{module} imports {other}, which is drawn above or next to it"
        for module in modules()
        for other in imported(module)
        if {room(module), room(other)} <= rooms and room(module) != room(other)
        if drawn[room(module)] >= drawn[room(other)]
    ]
    assert not upwards, "\n".join(upwards)


def test_engine_folder_imports_go_one_way() -> None:
    """Kernels do not import compiling, and compiling does not import the simulation."""
    above = {"netsim.engine.kernels": 0, "netsim.engine.compiling": 1, "netsim.engine": 2}
    for module in modules():
        if room(module) == "netsim.engine" and modules()[module].name != "__init__.py":
            folder = module.rpartition(".")[0]
            for other in imported(module):
                there = other.rpartition(".")[0]
                assert above[folder] >= above.get(there, 0), f"{module} imports {other}"


@cache
def reachable_modules() -> frozenset[str]:
    """Every module imported, at any depth, by the code that runs a point or by a plugin."""
    plugins = ("netsim.topologies.", "netsim.traffic.", "netsim.transports.")
    queue = ["netsim.running.point", *(name for name in modules() if name.startswith(plugins))]
    found: set[str] = set()
    while queue:
        module = queue.pop()
        if module not in found:
            found.add(module)
            queue += imported(module)
    return frozenset(found)


def module_path(module: str) -> str:
    """Path of a module below the package, as in an installed netsim."""
    below = module.split(".")[1:]
    is_package = modules()[module].name == "__init__.py"
    return "/".join([*below, "__init__"] if is_package else below) + ".py"


def test_fingerprint_contains_every_reachable_module() -> None:
    left_out = {
        module for module in reachable_modules() if not affects_results(module_path(module))
    }
    by_use = tuple(f"netsim.{package}" for package in BY_USE)
    assert {module for module in left_out if not module.startswith(by_use)} == set()


@pytest.mark.parametrize("package", PRESENTATION)
def test_presentation_packages_are_unreachable_from_a_run(package: str) -> None:
    """Reachable files of these packages are listed one by one as affecting results."""
    inside = {module for module in reachable_modules() if module.startswith(f"netsim.{package}.")}
    assert {module for module in inside if not affects_results(module_path(module))} == set()


WRITES = ("write_text", "write_bytes", "touch", "symlink_to", "hardlink_to", "mkstemp", "O_CREAT")
MAY_WRITE = {
    "netsim.common.writing": {"mkstemp", "O_CREAT", "open"},
    "netsim.results.destination": {"O_CREAT"},  # locks
    "netsim.engine.compiling.cache": {"open"},  # locks
    "netsim.cli.app": {"open"},  # /dev/null
    "netsim.running.mpi": {"open"},  # /dev/null
}


def name_of(function: ast.expr) -> str:
    return str(getattr(function, "attr", getattr(function, "id", "")))


def test_only_writing_module_opens_files_for_writing() -> None:
    """Only `netsim.common.writing` opens files for writing, except for MAY_WRITE."""
    for module, path in modules().items():
        if module.startswith("netsim.conformance.templates"):
            continue
        found = set()
        for node in nodes(path):
            if isinstance(node, ast.Attribute) and node.attr in WRITES:
                found.add(node.attr)
            elif isinstance(node, ast.Call) and name_of(node.func).endswith("open"):
                values = [*node.args, *(word.value for word in node.keywords)]
                modes = [one.value for one in values if isinstance(one, ast.Constant)]
                if any(isinstance(m, str) and len(m) < 4 and set(m) & set("wax+") for m in modes):
                    found.add("open")
        assert found <= MAY_WRITE.get(module, set()), module
