"""Blind predictions: written before the truth; rejected if they or their cases change."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from netsim.accuracy import blind
from netsim.cli.app import app

CASES = """
[experiment]
transport = "ideal"
[experiment.topology]
kind = "fat_tree"
hosts_per_leaf = 2
leaves = 2
host_rate = "100Gbps"
[experiment.traffic]
kind = "permutation"
size = "1MB"
[quantities.last]
of = "flows.fct_ps.max"
tolerance = 0.01
because = "of a test"
[cases.one]
about = "one megabyte"
[cases.two]
about = "two megabytes"
set = { "traffic.size" = "2MB", "seed" = [1, 2] }
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(CASES)
    return path


def validate(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["validate", *map(str, arguments)])


def add_truth(file: Path, last_us: float) -> None:
    """Add the measured value of the first case."""
    truth = f'truth = {{ last = {last_us} }}\nsource = "here"\nabout = "one megabyte"'
    file.write_text(CASES.replace('about = "one megabyte"', truth))


def test_reveal_fails_only_on_deviations_of_known_cases(file: Path) -> None:
    """A 2 % deviation fails; a case without a measured value needs data."""
    assert validate("--reveal", file).exit_code == 2
    assert validate("--blind", file).exit_code == 0
    written = json.loads((file.parent / "mine.predictions.json").read_text())
    last = {name: values["last"] for name, values in written["predictions"].items()}
    assert (last["one"]["runs"], last["two"]["runs"]) == (1, 2)
    assert last["one"]["unit"] == "us"
    assert last["one"]["mean"] == pytest.approx(88, rel=0.05)  # 81 us at line rate, plus headers
    assert last["two"]["mean"] > 1.8 * last["one"]["mean"]
    for factor, status in ((1.0, 0), (1.02, 1)):
        add_truth(file, factor * last["one"]["mean"])
        shown = validate("--reveal", file)
        assert shown.exit_code == status, shown.output
        assert "needs data" in shown.output
        assert "here; predicted 20" in shown.output
    assert validate("--blind", file).exit_code == 2  # predictions are written once


def test_reveal_rejects_changed_cases_or_predictions(file: Path) -> None:
    assert validate("--blind", file).exit_code == 0
    add_truth(file, 80)
    honest = file.read_text()
    for one, other in (("1MB", "3MB"), ("0.01", "0.5"), ("fct_ps.max", "fct_ps.p50")):
        file.write_text(honest.replace(one, other))
        assert validate("--reveal", file).exit_code == 2
    file.write_text(honest)
    predictions = file.parent / "mine.predictions.json"
    text = predictions.read_text()
    for forged in (text.replace('"mean": ', '"mean": 1'), text.replace("us", "ps"), "[]", "{"):
        predictions.write_text(forged)
        found = validate("--reveal", file)
        assert found.exit_code == 2
        assert "mine.predictions.json" in found.output


def test_damaged_files_never_cause_a_traceback(file: Path) -> None:
    """Replace, duplicate or cut bytes of either file: exit status 0 or 2, never a traceback."""
    assert validate("--blind", file).exit_code == 0
    rng = random.Random(1)
    for path in (file, file.parent / "mine.predictions.json"):
        honest = path.read_bytes()
        for _ in range(150):
            at, length = rng.randrange(len(honest)), rng.randrange(1, 30)
            put = rng.choice((b"", b"[", b"9" * 40, b"nan", b"\xff", honest[at : at + length] * 2))
            path.write_bytes(honest[:at] + put + honest[at + length :])
            found = validate("--reveal", file)
            assert found.exit_code in (0, 2), found.output
            assert isinstance(found.exception, SystemExit | None), path.read_text("latin-1")
        path.write_bytes(honest)


@pytest.mark.parametrize("case", list(blind.cases()), ids=lambda case: case.name)
def test_shipped_cases_are_those_that_were_predicted(case) -> None:
    assert all(row.ours is not None for row in case.measure())


@pytest.mark.parametrize(
    ("one", "other", "key"),
    [
        ("fct_ps.max", "fct_ps", "quantities.last.of"),
        ("fct_ps.max", "nothing.max", "quantities.last.of"),
        ("tolerance = 0.01", "tolerance = -1", "quantities.last.tolerance"),
        ("tolerance = 0.01", "", "quantities.last.tolerance"),
        ("[cases.two]", "[cases.two]\ntruth = { first = 1 }", "cases.two.truth.first"),
        ("[cases.two]", "[cases.two]\ntruth = { last = 1 }", "cases.two.truth"),
        ("[cases.two]", "[cases.two]\nnone = 1", "none"),
        ("[cases.two]", '[cases.two]\nfiles = { "traffic.file" = "a.cm" }', "a.cm"),
        ("1MB", "1 apple", "traffic.size"),
    ],
)
def test_invalid_case_files_are_rejected(file: Path, one: str, other: str, key: str) -> None:
    file.write_text(CASES.replace(one, other))
    found = validate("--blind", file)
    assert found.exit_code == 2
    assert "mine.toml" in found.output
    assert key in found.output
    assert not list(file.parent.glob("*.json"))
