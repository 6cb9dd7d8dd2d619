"""Settings for all tests."""

import os

import pytest
from hypothesis import settings

settings.register_profile("netsim", deadline=None)  # compilation makes first examples slow
settings.load_profile("netsim")


@pytest.fixture(scope="session", autouse=True)
def _compiled_code(tmp_path_factory: pytest.TempPathFactory) -> None:
    """All tests of a run share compiled code, among workers and with processes that they start."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    os.environ.setdefault("NETSIM_CACHE_DIR", str(folder / "compiled"))
