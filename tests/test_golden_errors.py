"""Every bad input raises the errors in the golden file, all at once, each on one line."""

import pytest
from golden_errors import READERS, errors_of, read_golden

GOLDEN = read_golden()


@pytest.mark.parametrize("kind", GOLDEN)
def test_bad_inputs_raise_the_golden_errors(kind, tmp_path):
    for number, case in enumerate(GOLDEN[kind]["cases"]):
        (directory := tmp_path / str(number)).mkdir()
        errors = errors_of(kind, GOLDEN[kind]["base"], case, directory)
        given = {name: value for name, value in case.items() if name != "errors"}
        assert errors, f"accepted: {given}"
        assert errors == case["errors"], given


def test_every_reader_has_bad_inputs():
    assert GOLDEN.keys() == READERS.keys()
    assert sum(len(group["cases"]) for group in GOLDEN.values()) >= 300
