"""The key of compiled code depends on everything that the code uses, and on nothing else.

Sources are edited in a copy of the package; nothing is compiled.
"""

import dis
import json
import subprocess
import sys
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from cache_folders import copy_of_package

from netsim.engine.compiling import bindings
from netsim.engine.compiling.bindings import (
    Bindings,
    Fingerprint,
    fingerprint_of,
    lines_of,
    present_place,
)
from netsim.engine.engine import code_of
from netsim.model.fabric import Fabric
from netsim.plugins import registry
from netsim.plugins.registry import PluginSpec

KEYS = """
import json, os, sys, traceback
import numba, numpy, networkx  # once, before the forks


def key():
    from netsim.engine.engine import code_of
    from netsim.model.fabric import Fabric
    from netsim.plugins import registry

    plugin = registry.find("transport", "ndp")
    params = {p.name: p.convert(p.default) for p in plugin.params}
    return code_of([registry.PluginSpec(plugin, params)], Fabric()).key


def in_child():
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, key().encode())
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        found = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return found


keys = [in_child()]
sys.dont_write_bytecode = True  # the first child wrote that of the sources before the edits
for path, old, new in json.load(sys.stdin):
    with open(path) as file:
        text = file.read()
    assert text.count(old) >= 1, (path, old)
    for content in (text.replace(old, new, 1), text):
        with open(path, "w") as file:
            file.write(content)
        if content is not text:
            keys.append(in_child())
print(json.dumps(keys))
"""

NO_MATTER = {
    "a plot": ("plots/links.py", "import", "import json\nimport"),
    "the command line": ("cli/show.py", "import", "import json\nimport"),
    "engine.py": ("engine/engine.py", "NO_FEATURES = ", "SPARE = 1\nNO_FEATURES = "),
    "a comment in a handler": ("transports/ndp.py", "def ready(", "# A comment.\n\n\ndef ready("),
    "a docstring in a kernel": (
        "engine/kernels/host.py",
        '    """Add a flow to',
        '    """Put a flow on',
    ),
    "a function that no kernel calls": ("transports/ndp.py", "def ready(", "{spare}def ready("),
    "another transport": ("transports/dctcp.py", "tx.", "tx.host + tx."),
}

MATTER = {
    "a handler": ("transports/ndp.py", "pkt.seq = ", "pkt.seq = 0 + "),
    "a kernel": ("engine/kernels/host.py", "host_port.ctrl_head += 1", "host_port.ctrl_head += 2"),
    "a helper two calls away": ("engine/kernels/tasks.py", "timers[slot]", "timers[slot + 0]"),
    "a service": ("engine/kernels/services.py", "rx.done_ps = now\n", "rx.done_ps = now + 1\n"),
    "a constant": ("engine/kernels/switch.py", "FEW_ARRIVALS = 24", "FEW_ARRIVALS = 25"),
    "the order of a group's arrays": (
        "engine/kernels/layout.py",
        "class Clock(NamedTuple):",
        "class Clock(NamedTuple):\n    spare: int",
    ),
    "the state of a transport": ("transports/ndp.py", "TX_STATE = (", 'TX_STATE = ("spare", '),
    "how code is compiled": ("engine/compiling/deferred.py", "import gc", "import gc as gc"),
}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The key of NDP on the default fabric after each edit; "" is the unedited package."""
    folder = tmp_path_factory.mktemp("edited")
    package = copy_of_package(folder)
    edits = {**NO_MATTER, **MATTER}
    spare = "def _spare(x):\n    return x + 1\n\n\n"
    given = [
        (str(package / path), old, new.replace("{spare}", spare))
        for path, old, new in edits.values()
    ]
    done = subprocess.run(
        [sys.executable, "-c", KEYS],
        check=False,
        input=json.dumps(given),
        env={"PYTHONPATH": str(folder)},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(["", *edits], json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("edit", NO_MATTER)
def test_code_is_reused_after_an_edit_of(keys, edit):
    assert keys[edit] == keys[""]


@pytest.mark.parametrize("edit", MATTER)
def test_code_is_compiled_again_after_an_edit_of(keys, edit):
    assert keys[edit] != keys[""]


# --- what a handler may refer to ------------------------------------------------------------------

SOURCE = """
import enum
import math
from typing import NamedTuple

import numpy as np

import beside

LIMIT = 3
TABLE = np.arange(4)
KINDS = (1, 2.5, "three")


class Color(enum.IntEnum):
    RED = 1


class Both(NamedTuple):
    first: int
    second: int


BOTH = Both(1, 2)


class Strange:
    number = 1


STRANGE = Strange()


def adder(k):
    def add(x):
        return x + k

    return add


add = adder(3)


def helper(x, step=2):
    return x * step


def again(x):
    return again(x - 1) if x > 0 else 0


def fill(now, tx):
    {statement}
"""

BESIDE = """
import deeper

SCALE = 5
UNUSED = 6


def scaled(x):
    return deeper.twice(x) * SCALE
"""

DEEPER = """
def twice(x):
    return 2 * x
"""

STATEMENTS = {
    "a number": ("tx.n = LIMIT", "LIMIT = 3", "LIMIT = 4"),
    "the type of a number": ("tx.n = LIMIT", "LIMIT = 3", "LIMIT = 3.0"),
    "an array": ("tx.n = TABLE[1]", "np.arange(4)", "np.arange(1, 5)"),
    "the type of an array": ("tx.n = TABLE[1]", "np.arange(4)", "np.arange(4.0)"),
    "a tuple": ("tx.n = KINDS[0]", "(1, 2.5", "(1, 2.0"),
    "an enumeration": ("tx.n = Color.RED", "RED = 1", "RED = 2"),
    "the order of fields": (
        "tx.n = BOTH.first",
        "first: int\n    second",
        "second: int\n    first",
    ),
    "a closure": ("tx.n = add(now)", "adder(3)", "adder(4)"),
    "a default": ("tx.n = helper(now)", "step=2", "step=3"),
    "a function": ("tx.n = helper(now)", "x * step", "x + step"),
    "a function that calls itself": ("tx.n = again(now)", "x - 1", "x - 2"),
    "a name in a nested function": (
        "f = lambda x: helper(x) + LIMIT\n    tx.n = f(now)",
        "LIMIT = 3",
        "LIMIT = 4",
    ),
    "a constant of a sibling module": ("tx.n = beside.scaled(1)", "SCALE = 5", "SCALE = 7"),
    "a named constant of a sibling module": ("tx.n = beside.SCALE", "SCALE = 5", "SCALE = 7"),
    "a function two files away": ("tx.n = beside.scaled(1)", "2 * x", "3 * x"),
    "an unknown object": ("tx.n = STRANGE.number", "number = 1", "number = 2"),
}


def of(folder: Path, statement: str, old: str = "", new: str = "") -> Fingerprint:
    """Return the fingerprint of a handler with that statement, after replacing `old` by `new`."""
    texts = {"mine": SOURCE.replace("{statement}", statement), "beside": BESIDE, "deeper": DEEPER}
    assert any(old in text for text in texts.values())
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text.replace(old, new) if old else text)
    module = registry.load(folder / "mine.py", shown="mine.py")
    return fingerprint_of(Bindings({}, [module]), module.fill)


def test_key_changes_with_anything_a_handler_uses(tmp_path):
    for edit, (statement, old, new) in STATEMENTS.items():
        before = of(tmp_path, statement)
        assert of(tmp_path, statement, old, new).key != before.key
        assert of(tmp_path, statement).key == before.key
        if edit != "an unknown object":
            assert of(tmp_path, f"# A comment.\n    {statement}").key == before.key


def test_key_ignores_what_a_handler_does_not_use(tmp_path):
    for statement, old, new in [
        ("tx.n = beside.SCALE", "UNUSED = 6", "UNUSED = 7"),
        ("tx.n = LIMIT", "x * step", "x + step"),
        ("tx.n = int(math.sqrt(4.0))", "LIMIT = 3", "LIMIT = 4"),
    ]:
        assert of(tmp_path, statement, old, new).key == of(tmp_path, statement).key


def test_key_changes_with_a_docstring_used_as_a_value(tmp_path):
    """Python stores the docstring and the equal value as one constant."""
    statement = '"""three"""\n    tx.n = KINDS.index("three")'
    assert of(tmp_path, statement, "three", "four").key != of(tmp_path, statement).key


def test_key_changes_with_numba_environment_variables(tmp_path, monkeypatch):
    before = of(tmp_path, "tx.n = 1").key
    monkeypatch.setenv("NUMBA_BOUNDSCHECK", "1")
    assert of(tmp_path, "tx.n = 1").key != before


def test_built_in_transports_use_no_unknown_objects(monkeypatch):
    """An unknown object would put all files of the package into the key."""

    def fail(*_: object) -> None:
        raise AssertionError("not understood")

    monkeypatch.setattr(bindings._CodeWalker, "_everything", fail)
    plugins = [registry.find("transport", name) for name in registry.names("transport")]
    simulated = [plugin for plugin in plugins if not hasattr(plugin.module, "CLOSED_FORM")]
    found = set()
    for plugin in simulated:
        params = {param.name: param.convert(param.default) for param in plugin.params}
        found.add(code_of([PluginSpec(plugin, params)], Fabric()).key)
    assert len(found) == len(simulated) > 10


def test_line_of_compiled_code_is_found_in_the_edited_file(tmp_path):
    """Lines may have moved since the code was compiled."""
    then = lines_of(of(tmp_path, "tx.n = add(now)\n    assert tx.n > 0").codes)
    statement = "tx.n = add(\n        now)\n    # A comment.\n    assert tx.n > 0"
    now = of(tmp_path, statement)
    line = SOURCE.count("\n", 0, SOURCE.index("{statement}")) + 1
    path = str(tmp_path / "mine.py")
    assert present_place(path, line + 1, then, lines_of(now.codes)) == (path, line + 3)
    assert present_place(path, 1, then, lines_of(now.codes)) == (path, 1)


def test_global_names_are_those_that_the_disassembler_finds() -> None:
    """A function with over 256 names has extended arguments."""
    many = "\n".join(f"    print(name_{n}, name_{n}.part)" for n in range(300))
    scope: dict[str, Any] = {}
    exec(f"def long():\n{many}\n    return lambda: inner", scope)
    functions = [value for value in vars(bindings).values() if isinstance(value, FunctionType)]
    for function in (scope["long"], *functions):
        assert set(bindings.global_names(function.__code__)) == _loaded(function.__code__)


def _loaded(code: CodeType) -> set[str]:
    loads = {load.argval for load in dis.get_instructions(code) if load.opname == "LOAD_GLOBAL"}
    within = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return loads.union(*map(_loaded, within))
