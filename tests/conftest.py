"""Settings for all tests."""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling

settings.register_profile("netsim", deadline=None)  # compilation makes first examples slow
settings.load_profile("netsim")

gc.set_threshold(50_000, 10, 10)  # saves a fifth of the time of tests that parse all sources


@pytest.fixture(scope="session", autouse=True)
def _compiled_code(request: pytest.FixtureRequest) -> None:
    """Share compiled code among workers, child processes and test runs."""
    if "NETSIM_CACHE_DIR" in os.environ:
        return
    cache = getattr(request.config, "cache", None)
    made = request.getfixturevalue("tmp_path_factory").mktemp if cache is None else cache.mkdir
    os.environ["NETSIM_CACHE_DIR"] = str(made("compiled"))


@pytest.fixture
def plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable compilation, which would take longer than the small simulation."""
    monkeypatch.setattr("netsim.engine.engine.jit_enabled", lambda: False)


SLOW_GROUPS = {
    "slow_reference": ("_against_reference.py", "test_partitioned.py"),
    "slow_experiments": (
        "_experiments.py",
        "test_validate.py",
        "test_reproduce.py",
        "test_studies.py",
    ),
    "slow_rest": ("",),
}
"""Group of slow tests -> suffixes of its files; the first match counts."""


LONG = (
    "test_against_reference.py",
    "test_compiled.py",
    "test_compiled_mistakes.py",
    "test_compiled_serving.py",
    "test_conformance.py",
    "test_fuzz.py",
    "test_shipped_experiments.py",
    "test_why.py",
)
"""Files that take longest."""


def pytest_runtest_setup() -> None:
    """Tables are not cut to the width of the terminal that runs the tests."""
    os.environ.pop("COLUMNS", None)


def pytest_sessionfinish() -> None:
    """Skip garbage collection at pytest's end, which takes seconds once Numba has compiled: a
    worker that takes more than five is interrupted."""
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark slow tests with their group, and begin with long files: no worker ends alone."""
    items.sort(key=lambda item: item.path.name not in LONG)
    for item in items:
        if item.get_closest_marker("slow"):
            groups = (name for name, ends in SLOW_GROUPS.items() if item.path.name.endswith(ends))
            item.add_marker(next(groups))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """Run the tests of a file in one worker; two workers would compile the same code twice."""
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False  # files with most tests are not those that take longest
    return LoadFileScheduling(config, log) if config.getvalue("dist") == "load" else None
