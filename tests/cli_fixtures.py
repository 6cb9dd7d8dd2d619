"""Commands run in a directory with two experiments; nothing is simulated."""

import pytest
from click.testing import CliRunner
from fake_simulate import FakeSimulate

from netsim.cli import app

EXPERIMENT = """
name = "small"
{extra}
[topology]
kind = "fat_tree"
hosts_per_leaf = 2
leaves = 4

[transport]
kind = "ndp"

[traffic]
kind = "permutation"
size = {size}

[outputs]
directory = "here/small"
"""


@pytest.fixture
def fake(monkeypatch):
    fake = FakeSimulate()
    fake.install(monkeypatch)
    return fake


@pytest.fixture
def netsim(tmp_path, monkeypatch):
    """Run `netsim …` in a directory with the experiments small.toml and sweep.toml."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(EXPERIMENT.format(extra="", size='"1MB"'))
    sweep = EXPERIMENT.format(extra="seed = [1, 2]", size='"1MB"')
    (tmp_path / "sweep.toml").write_text(sweep)
    return lambda *arguments: CliRunner().invoke(app, list(arguments))
