"""A handler that cannot be compiled is rejected in one message, with file, line and its text."""

from pathlib import Path

import numpy as np
import pytest
from raises_input import mentions, raises_input

from netsim.engine.compiling.bindings import Bindings, Fingerprint, is_ours
from netsim.engine.compiling.specialize import Compiled, Entry, Specializer
from netsim.errors import InputError
from netsim.plugins import registry

SOURCE = """
import math
import time

import numpy as np

import beside

LIMIT = 3
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


def triple(x):
    return 3 * x


def keyword_only(x, *, k=2):
    return x * k


def any_names(x, **rest):
    return x


async def later(x):
    return x


def sets_limit(x):
    global LIMIT
    LIMIT = x
    return x


def counter():
    n = 0

    def count(x):
        nonlocal n
        n += 1
        return n + x

    return count


count = counter()


def both():
    def even(x):
        return x == 0 or odd(x - 1)

    def odd(x):
        return x != 0 and even(x - 1)

    return even


even = both()


def early():
    def use(x):
        return x + value

    if LIMIT < 0:
        value = 1
    return use


use = early()


def again(x):
    return again(x - 1) if x > 0 else 0


def several(x, *rest):
    return x + len(rest)


def up_to(n):
    for i in range(n):
        yield i


def fill(now, tx):
    tx.n = 0
"""

TX = np.zeros(1, np.dtype([("n", "i8"), ("rate", "f8"), ("seen", "i8", (4,))]))[0]


def entry(folder: Path, statement: str) -> tuple[Entry, int, Bindings]:
    """Return a handler with that statement, to be compiled, the statement's line, and bindings."""
    (folder / "beside.py").write_text("def broken(now):\n    return now.nothing\n")
    source = SOURCE.replace("    tx.n = 0\n", f"    {statement}\n")
    (folder / "mine.py").write_text(source)
    module = registry.load(folder / "mine.py", shown="mine.py")
    line = source.splitlines().index(f"    {statement.splitlines()[0]}") + 1
    bindings = Bindings({}, [module])
    fingerprint = Fingerprint("errors_test", ())
    return Entry(Compiled(module.fill, bindings, fingerprint, None)), line, bindings


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
        compiled, line, _ = entry(tmp_path, statement)
        with pytest.raises(InputError) as caught:
            compiled.prepare(5, TX)
        error = caught.value
        assert error.file == f"{tmp_path}/mine.py:{line + below}"
        assert mentions(error.message, message)
        assert error.message.endswith(f": {statement.splitlines()[below].strip()}")
        assert "Record(" not in error.message


def test_error_in_a_sibling_module_is_reported_there(tmp_path):
    compiled, *_ = entry(tmp_path, "tx.n = beside.broken(now)")
    with pytest.raises(InputError) as caught:
        compiled.prepare(5, TX)
    assert caught.value.file == f"{tmp_path}/beside.py:2"
    assert caught.value.message.endswith(": return now.nothing")


@pytest.mark.parametrize(
    ("statement", "n"), [("tx.n = add_three(now)", 8), ("tx.n = int(math.sqrt(now + 4.0))", 3)]
)
def test_closures_and_imported_functions_compile(tmp_path, statement, n):
    compiled, *_ = entry(tmp_path, statement)
    compiled(5, TX)
    assert TX["n"] == n


@pytest.mark.parametrize(
    ("name", "at", "message"),
    [
        ("keyword_only", "def keyword_only", "has keyword-only arguments: k, which"),
        ("any_names", "def any_names", "takes any named arguments (**), which cannot be compiled"),
        ("later", "async def", "is asynchronous, which cannot be compiled"),
        ("sets_limit", "    LIMIT = x", "LIMIT cannot be set by a handler (state is kept in TX_"),
        ("count", "        n += 1", "n cannot be set by a handler (state is kept in TX_STATE"),
        ("even", "    def even", "calls itself, which cannot be compiled (a loop can be compiled)"),
        ("use", "    def use", "uses value before it has a value, which cannot be compiled"),
        ("again", "def again", "calls itself, which cannot be compiled (a loop can be compiled)"),
    ],
)
def test_called_function_that_cannot_be_compiled_is_rejected(tmp_path, name, at, message):
    compiled, _, bindings = entry(tmp_path, f"tx.n = {name}(now)")
    line = next(n for n, text in enumerate(SOURCE.splitlines(), 1) if text.startswith(at))
    plain = Specializer(bindings, "plain", jit=False)
    fill = bindings.plugins[0].fill
    for attempt in (lambda: compiled.prepare(5, TX), lambda: plain.copy(fill)):
        with pytest.raises(InputError) as caught:
            attempt()
        assert caught.value.file == f"{tmp_path}/mine.py:{line}"
        assert message in str(caught.value)


def test_varargs_generators_and_nested_functions_compile(tmp_path):
    """Nested functions see the same module-level names as the handler."""
    for statement, n in [
        ("tx.n = several(now, 7, 8)", 7),
        ("tx.n = triple(*(now,))", 15),
        ("for i in up_to(3):\n        tx.n = i", 2),
        ("f = lambda x: triple(x) + LIMIT\n    tx.n = f(now)", 18),
        ("def f(x):\n        return triple(x) + LIMIT + now\n    tx.n = f(now)", 23),
    ]:
        compiled, *_ = entry(tmp_path, statement)
        compiled(5, TX)
        assert TX["n"] == n


def test_generator_expression_is_rejected(tmp_path):
    compiled, *_ = entry(tmp_path, "tx.n = sum(triple(i) for i in range(3))")
    with raises_input():
        compiled.prepare(5, TX)


def test_installed_libraries_are_not_plugin_code():
    """Their thousands of files must not be searched, wherever they are installed."""
    assert is_ours(__file__)
    assert not is_ours(np.__file__)
    assert not is_ours("/home/someone/.local/lib/python3.11/site-packages/numpy/__init__.py")
