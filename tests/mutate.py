"""Change the product at random and report the share of changes that the quick tests catch.

    python tests/mutate.py --count 60 --seed 1 --workers 16

Each change (operator, constant, dropped statement) is made in a copy of the tree; the test files
whose imports lead to the changed module most directly run there, without compiling.
"""

import argparse
import ast
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).parents[1]
MAPPED = ("transports", "topologies", "experiments", "plots")
NEAREST_FILES, LIMIT_S = 6, 300
ALSO = dict.fromkeys(
    ("kernels", "engine", "queues", "routing_algorithms"), "test_against_reference.py"
)
ALSO["transports"] = "conformance/test_conformance.py"
"""Tests of files that nobody imports by name, by folder of the files."""
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.And: ast.Or, ast.Or: ast.And, ast.BitAnd: ast.BitOr,
}  # fmt: skip


def changes(source: str) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Yield nodes of a file and the text to put in their place."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.BinOp(op=op) | ast.BoolOp(op=op) | ast.Compare(ops=[op]) if type(op) in SWAPS:
                other = SWAPS[type(op)]()
                setattr(
                    node, *(("ops", [other]) if isinstance(node, ast.Compare) else ("op", other))
                )
                yield node, f"({ast.unparse(node)})"
            case ast.Constant(value=bool() | int() as value):
                yield node, str(not value if isinstance(value, bool) else value + 1)
            case ast.Assign() | ast.AugAssign() | ast.Expr(value=ast.Call()):
                yield node, "pass"


def changed(source: str, node: ast.expr | ast.stmt, text: str) -> str:
    """Return the source with other text in place of a node."""
    lines = source.encode().splitlines(keepends=True)
    assert node.end_lineno is not None
    head = b"".join(lines[: node.lineno - 1]) + lines[node.lineno - 1][: node.col_offset]
    tail = lines[node.end_lineno - 1][node.end_col_offset :] + b"".join(lines[node.end_lineno :])
    return (head + text.encode() + tail).decode()


def module_of(path: Path) -> str:
    """Return the dotted name under which tests and product import a file."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[1:] if parts[0] == "tests" else parts
    return ".".join(("netsim", *parts) if parts[0] in MAPPED else parts).removesuffix(".__init__")


def imports(path: Path) -> set[str]:
    """Return the names of modules, and of possible modules, that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def nearest_tests(target: Path, uses: dict[Path, set[str]]) -> list[Path]:
    """Return the test files most likely to cover a file: short chains of imports, similar names."""
    levels: dict[Path, int] = {target: 0}
    level, depth = [target], 0
    while level and sum(map(is_test, levels)) < NEAREST_FILES:
        names = {module_of(path) for path in level}
        level = [path for path in uses if path not in levels and uses[path] & names]
        levels |= dict.fromkeys(level, depth := depth + 1)
    for path in uses:  # a plugin is used by name
        if f'"{target.stem}"' in path.read_text("utf-8"):
            levels.setdefault(path, len(uses))

    def order(test: Path) -> tuple[bool, int, bool, int]:
        is_named = bool(words_of(target) & words_of(test))
        return not is_named, levels[test], test.parent.name not in target.parts, len(uses[test])

    nearest = sorted(filter(is_test, levels), key=order)[:NEAREST_FILES]
    also = [ROOT / "tests" / name for folder, name in ALSO.items() if target.parent.name == folder]
    return [*nearest, *(path for path in also if path not in nearest)]


def words_of(path: Path) -> set[str]:
    """Return the words of a file's name, in the singular."""
    return {word.rstrip("s") for word in path.stem.removeprefix("test_").split("_")}


def is_test(path: Path) -> bool:
    """Return whether pytest collects a file, and its tests need no compiler."""
    return path.name.startswith("test_") and "compil" not in path.name


def failure(copy: Path, tests: list[str]) -> str | None:
    """Return the first test that fails, "" if they crash or take too long, None if all pass."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": f"{copy}:{copy}/tests"}
    command = [sys.executable, "-m", "pytest", "-qx", "-m", "not slow", "-p", "no:cacheprovider"]
    with subprocess.Popen(
        [*command, *tests], cwd=copy, env=environment, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as run:  # fmt: skip
        try:
            output, _ = run.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            return ""
        finally:
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)  # with what the tests started
    failed = re.search(r"^(?:FAILED|ERROR) (\S+?\.py(?:::\w+)*)", output, re.MULTILINE)
    return failed[1] if failed else None if run.returncode in (0, 5) else ""


def catcher(copy: Path, target: Path, text: str, tests: list[Path]) -> str | None:
    """Return the test that fails only with this text of a file, or None."""
    place = target.relative_to(ROOT)
    file = copy / ("netsim" if place.parts[0] in MAPPED else "") / place
    before = file.read_text("utf-8")
    arguments = [str(path.relative_to(ROOT)) for path in tests]
    while any(not name.startswith("--") for name in arguments):
        file.write_text(text, "utf-8")
        failed = failure(copy, arguments)
        file.write_text(before, "utf-8")
        if failed is None or failure(copy, [failed] if failed else arguments) is None:
            return failed
        if not failed:
            return None  # too slow without the change, too
        # It fails without compilation, whatever the text.
        arguments = [*(name for name in arguments if name != failed), f"--deselect={failed}"]
    return None


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("count", 60), ("seed", 1), ("workers", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    rng = random.Random(given.seed)
    listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True).split("\0")
    listed = [name for name in listed if name and (ROOT / name).exists()]
    files = [ROOT / name for name in listed if name.endswith(".py")]
    uses = {path: imports(path) for path in files}
    product = [path for path in files if path.relative_to(ROOT).parts[0] in ("netsim", *MAPPED)]
    with tempfile.TemporaryDirectory() as scratch:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(given.workers):
            copy = Path(scratch) / str(number)
            for name in listed:
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, copy / name)
            for folder in MAPPED:
                shutil.copytree(copy / folder, copy / "netsim" / folder, dirs_exist_ok=True)
            copies.put(copy)

        def tried(seed: int) -> bool | None:
            own = random.Random(seed)
            target = own.choices(product, [path.stat().st_size for path in product])[0]
            source, tests = target.read_text("utf-8"), nearest_tests(target, uses)
            node, text = own.choice(list(changes(source)) or [(None, "")])
            if node is None or not tests:
                return None
            copy = copies.get()
            by = catcher(copy, target, changed(source, node, text), tests)
            copies.put(copy)
            word = "missed" if by is None else f"caught by {by or 'a crash or endless loop'}"
            print(f"{target.relative_to(ROOT)}:{node.lineno}: {text}: {word}", flush=True)
            return by is not None

        with ThreadPoolExecutor(given.workers) as pool:
            seeds = [rng.randrange(2**32) for _ in range(given.count)]
            results = [one for one in pool.map(tried, seeds) if one is not None]
    print(f"{sum(results)} of {len(results)} changes were caught")


if __name__ == "__main__":
    main()
