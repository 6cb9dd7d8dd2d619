"""Machine code, linked and called without Numba.

Importing Numba and readying it takes longer than a small run. The code that it compiles needs only
LLVM's linker and functions of Numba that are written in C: helpers for arguments and errors. They
are in extension modules, loaded here by their paths.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from ctypes import PYFUNCTYPE, c_void_p, py_object
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

ENVIRONMENT = "_ZN08NumbaEnv"  # begins the names of variables for a function's Python constants


class NotLinkableError(Exception):
    """Code cannot be kept, or not be linked; says why."""


class MachineCode(NamedTuple):
    """An object file. ``entry`` is its function for Python; ``environments`` has its variables for
    Python constants, ``needed`` the functions that it calls."""

    entry: str
    environments: dict[str, list[Any]]
    needed: list[str]
    content: bytes


def kind_of(argument: Any) -> str:
    """Return the kind of an argument of compiled code: a number, an array or a group of them."""
    if isinstance(argument, np.ndarray):
        flags = argument.flags  # a single row is contiguous both ways, which Numba counts as C
        layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
        kind = f"{argument.ndim}{layout} {flags.aligned} {flags.writeable}"
        return f"{text_of(argument.dtype)} {kind}"
    if isinstance(argument, tuple):
        return f"{type(argument).__name__}({', '.join(map(kind_of, argument))})"
    return type(argument).__name__


text_of = cache(repr)


@cache
def processor() -> str:
    """Return the processor's name and features, for which code is compiled."""
    from llvmlite import binding

    features = ""
    with suppress(RuntimeError):  # LLVM does not know this processor
        features = binding.get_host_cpu_features().flatten()
    return f"{binding.get_process_triple()} {binding.get_host_cpu_name()} {features}"


def machine_code(result: Any) -> MachineCode:
    """Return the code of a function that Numba compiled. Raises NotLinkableError."""
    from numba.core.environment import lookup_environment

    library = result._asdict()["library"]
    if library.has_dynamic_globals:
        raise NotLinkableError("it refers to a large array of a module")
    _, _, (content, _) = library.serialize_using_object_code()
    module = library._final_module
    names = [one.name for one in module.global_variables if one.name.startswith(ENVIRONMENT)]
    environments = {name: list(getattr(lookup_environment(name), "consts", ())) for name in names}
    for constant in (one for constants in environments.values() for one in constants):
        if not isinstance(constant, str | int | float | None):
            raise NotLinkableError(f"it refers to a Python object, {constant!r}")
    declared = (*module.functions, *module.global_variables)
    needed = [one.name for one in declared if one.is_declaration and one.name[:5] != "llvm."]
    return MachineCode(result.fndesc.llvm_cpython_wrapper_name, environments, needed, content)


def linked(code: MachineCode) -> Callable[..., Any]:
    """Return a callable function. Raises an exception of any kind if the code is unusable."""
    from llvmlite import binding

    _add_helpers()
    target = binding.Target.from_triple(binding.get_process_triple())
    machine = target.create_target_machine(jit=True)
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
    missing = [name for name in code.needed if not binding.address_of_symbol(name)]
    if missing:  # LLVM would end the process
        raise NotLinkableError(f"{missing[0]} is missing")
    engine.add_object_file(binding.ObjectFileRef.from_data(code.content))
    engine.finalize_object()
    environments = []
    for name, constants in code.environments.items():
        environment = _extension("numba._dynfunc").Environment({})
        environment.consts.extend(constants)
        environments.append(environment)
        place = engine.get_global_value_address(name)
        if place:
            c_void_p.from_address(place).value = id(environment)
    address = engine.get_function_address(code.entry)
    function = PYFUNCTYPE(py_object, c_void_p, py_object, c_void_p)(address)

    def run(*arguments: Any, _kept: object = (engine, environments)) -> Any:
        return function(None, arguments, None)

    return run


@cache
def _add_helpers() -> None:
    """Make known to the linker what Numba makes known to it."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    helpers = {"_Py_NoneStruct": id(None)}
    for name in ("numba._helperlib", "numba._dynfunc"):
        for helper, address in _extension(name).c_helpers.items():
            helpers[f"numba_{helper}"] = helpers[helper] = address  # such as exp: Numba's choice
    for value in vars(__import__("builtins")).values():
        if isinstance(value, type) and issubclass(value, BaseException):
            helpers[f"PyExc_{value.__name__}"] = id(value)
    for name, address in helpers.items():
        binding.add_symbol(name, address)


@cache
def _extension(name: str) -> ModuleType:
    """Return an extension module of Numba, without importing what is above it."""
    if name in sys.modules:
        return sys.modules[name]
    numba = find_spec("numba")
    places: Iterable[str] = (numba and numba.submodule_search_locations) or ()
    folders = name.split(".")[1:-1]
    found = PathFinder.find_spec(name, [str(Path(place, *folders)) for place in places])
    if found is None or found.loader is None:
        raise ImportError(f"Numba has no {name}")
    module = module_from_spec(found)
    found.loader.exec_module(module)
    return module
