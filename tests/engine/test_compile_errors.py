"""A handler that does not compile is reported with its line and the text of that line."""

from pathlib import Path

import numpy as np
import pytest
from raises_input import mentions

from netsim.engine.compiling.bindings import Bindings, is_ours
from netsim.engine.compiling.specialize import Compiled, Entry
from netsim.errors import InputError
from netsim.plugins import registry

SOURCE = """
import math
import time

import numpy as np

import beside

TABLE = [1, 2]
LOOK = {1: 2}


def either(x):
    if x > 3:
        return 1
    return (1, 2)


def adder(k):
    def add(x):
        return x + k

    return add


add_three = adder(3)


def fill(now, tx):
    tx.n = 0
"""

TX = np.zeros(1, np.dtype([("n", "i8"), ("rate", "f8"), ("seen", "i8", (4,))]))[0]


def entry(folder: Path, statement: str) -> tuple[Entry, int]:
    """Return a handler with that statement, to be compiled, and the statement's line."""
    (folder / "beside.py").write_text("def broken(now):\n    return now.nothing\n")
    source = SOURCE.replace("    tx.n = 0\n", f"    {statement}\n")
    (folder / "mine.py").write_text(source)
    module = registry.load(folder / "mine.py", shown="mine.py")
    line = source.splitlines().index(f"    {statement.splitlines()[0]}") + 1
    bindings = Bindings({}, [module])
    return Entry(Compiled(module.fill, bindings, "errors_test", None)), line


MISTAKES = [
    ("x = 1\n    if now > 3:\n        x = tx\n    tx.n = x.n", 3, "x is 1 in one branch and"),
    ("tx.n = None", 0, "None is put where a number belongs"),
    ("tx.n = 'abc'", 0, "abc is put where int64 belongs"),
    ("x = [1, 2]", 0, "lists, sets and arrays cannot be made in a handler"),
    ("x = f'{now}'", 0, "No implementation of function"),
    ("with open('x') as f:\n        tx.n = 1", 0, "The 'with (context manager)"),
    ("f = open('x')", 0, "open is nothing that can be compiled"),
    ("tx.n = LOOK[1]", 0, "LOOK is nothing that can be compiled"),
    ("tx.n = TABLE[0]", 0, "The use of a reflected list"),
    ("tx.n = int(time.time())", 0, "Unknown attribute 'time'"),
    ("tx.n = now.bit_length()", 0, "Unknown attribute 'bit_length' of type int64"),
    ("tx.n = tx + 1", 0, "No implementation of function Function(<built-in function add>) found "
     "for signature: >>> add(a record, 1)"),
    ("tx.n = now(3)", 0, "Invalid use of int64"),
    ("a, b = now", 0, "failed to unpack int64"),
    ("import math as m\n    tx.rate = m.sqrt(3.0)", 0, "unsupported: IMPORT_NAME"),
    ("tx.m = 1", 0, "the record has no field m"),
    ("x = 3 + tx.m", 0, "the record has no field m"),
    ("x = undefined", 0, "name 'undefined' is not defined"),
    ("beside.nothing(now)", 0, "module 'beside' has no attribute 'nothing'"),
    ("beside.broken(now, 1)", 0, "too many positional arguments"),
    ("x = np.zeros(3)", 0, "No implementation of function Function(<built-in function zeros>)"),
]  # fmt: skip


def test_compile_error_is_reported_with_its_line(tmp_path):
    for statement, below, message in MISTAKES:
        compiled, line = entry(tmp_path, statement)
        with pytest.raises(InputError) as caught:
            compiled.prepare(5, TX)
        error = caught.value
        assert error.file == f"{tmp_path}/mine.py:{line + below}"
        assert mentions(error.message, message)
        assert error.message.endswith(f": {statement.splitlines()[below].strip()}")
        assert "Record(" not in error.message


def test_error_in_a_sibling_module_is_reported_there(tmp_path):
    compiled, _ = entry(tmp_path, "tx.n = beside.broken(now)")
    with pytest.raises(InputError) as caught:
        compiled.prepare(5, TX)
    assert caught.value.file == f"{tmp_path}/beside.py:2"
    assert caught.value.message.endswith(": return now.nothing")


@pytest.mark.parametrize(
    ("statement", "n"), [("tx.n = add_three(now)", 8), ("tx.n = int(math.sqrt(now + 4.0))", 3)]
)
def test_closures_and_imported_functions_compile(tmp_path, statement, n):
    compiled, _ = entry(tmp_path, statement)
    compiled(5, TX)
    assert TX["n"] == n


def test_installed_libraries_are_not_plugin_code():
    """Their thousands of files must not be searched, wherever they are installed."""
    assert is_ours(__file__)
    assert not is_ours(np.__file__)
    assert not is_ours("/home/someone/.local/lib/python3.11/site-packages/numpy/__init__.py")
