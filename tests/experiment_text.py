"""Small experiment files for tests, and loading them."""

from pathlib import Path
from textwrap import dedent

import pytest

from netsim.errors import InputError
from netsim.experiment import Experiment

GOOD = {
    "top": 'transport = "ndp"',
    "topology": 'kind = "fat_tree"\nhosts_per_leaf = 4\nleaves = 4',
    "traffic": 'kind = "permutation"',
}

TRANSPORT = '''
"""Mine: the least that is a transport."""

PARAMS = []


def ready(env, now, tx):
    return now


def build_packet(env, now, tx, pkt):
    pkt.seq = 0


'''


def text(extra: str = "", /, **sections: str) -> str:
    """Return a small valid experiment, with lines added or whole sections replaced."""
    parts = {**GOOD, **sections}
    lines = [parts.pop("top"), dedent(extra)]
    for name, body in parts.items():
        lines += [f"[{name}]", dedent(body)]
    return "\n".join(lines)


def load(tmp_path: Path, content: str, *overrides: str) -> Experiment:
    path = tmp_path / "e.toml"
    path.write_text(content)
    return Experiment.load(path, overrides)


def messages(tmp_path: Path, content: str, *overrides: str) -> list[str]:
    """Return the lines of the error that loading raises, without the file's directory."""
    with pytest.raises(InputError) as caught:
        load(tmp_path, content, *overrides)
    return [line.replace(f"{tmp_path}/", "") for line in str(caught.value).splitlines()]
