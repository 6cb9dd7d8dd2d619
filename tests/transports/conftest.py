"""Quick tests of transports run as plain Python, slow ones compiled: see `tests/conftest.py`."""

import pytest

SHARED = "test_bare_names.py"  # compiled with code that tests of the engine also need


@pytest.fixture(autouse=True)
def _plain_if_quick(request: pytest.FixtureRequest) -> None:
    """Compiling a transport takes longer than a thousand of its packets as plain Python."""
    if request.path.name != SHARED and not request.node.get_closest_marker("slow"):
        request.getfixturevalue("plain_python")
