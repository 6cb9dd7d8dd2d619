"""Settings for all tests."""

import os

import pytest
from hypothesis import settings

settings.register_profile("netsim", deadline=None)  # compilation makes first examples slow
settings.load_profile("netsim")


@pytest.fixture(scope="session", autouse=True)
def _compiled_code(request: pytest.FixtureRequest) -> None:
    """Compiled code is shared among workers, processes that tests start, and runs of the tests."""
    cache = request.config.cache
    assert cache is not None
    os.environ.setdefault("NETSIM_CACHE_DIR", str(cache.mkdir("compiled")))
