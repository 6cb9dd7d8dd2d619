"""Code of a handler that cannot be compiled is rejected in one message, with file and line."""

from pathlib import Path

import numpy as np
import pytest
from raises_input import raises_input

from netsim.engine.compiling.bindings import Bindings
from netsim.engine.compiling.specialize import Compiled, Entry, Specializer
from netsim.errors import InputError
from netsim.plugins import registry

SOURCE = """
LIMIT = 3


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
    {statement}
"""

TX = np.zeros(1, np.dtype([("n", "i8")]))[0]


def handler(folder: Path, statement: str) -> tuple[Bindings, Entry]:
    """Return the bindings of a handler with that statement, and the handler to be compiled."""
    (folder / "mine.py").write_text(SOURCE.replace("{statement}", statement))
    module = registry.load(folder / "mine.py", shown="mine.py")
    bindings = Bindings({}, [module])
    return bindings, Entry(Compiled(module.fill, bindings, "refusals_test", None))


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
    bindings, compiled = handler(tmp_path, f"tx.n = {name}(now)")
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
        _, compiled = handler(tmp_path, statement)
        compiled(5, TX)
        assert TX["n"] == n


def test_generator_expression_is_rejected(tmp_path):
    _, compiled = handler(tmp_path, "tx.n = sum(triple(i) for i in range(3))")
    with raises_input():
        compiled.prepare(5, TX)
