"""Topologies pass the suite; a broken one fails with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from raises_input import mentions

from netsim.conformance import CASES, check, failures, templates

RING = Path(templates.__path__[0], "my_topology.py")


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        (RING, {}),
        ("fat_tree", {"leaves": 2, "hosts_per_leaf": 2}),
        ("torus", {"shape": "3x3"}),
        ("dragonfly", {"switches_per_group": 2, "hosts_per_switch": 1}),
        ("multi_plane", {"planes": 2, "plane": {"kind": "torus", "shape": "3x3"}}),
    ],
)
def test_topologies_pass(name: Path | str, settings: dict[str, object]) -> None:
    findings = check(name, "topology", settings=settings)
    assert [finding.case for finding in findings] == [case.name for case in CASES["topology"]]
    assert not failures(findings)


def test_broken_topology_fails_with_the_reason(tmp_path: Path) -> None:
    before = "    builder = NetworkBuilder()\n"
    end = '    return builder.build(f"my_topology_{n}x{each}")\n'
    text = RING.read_text()
    path = tmp_path / "mine.py"
    for old, new, case, words in [
        (end, "", "network", "NoneType"),
        (before, f"{before}    raise InputError('no')\n", "network", "no"),
        (before, f"{before}    params['switches'] = 3\n", "network", "parameters"),
        (before, f"{before}    each = 1 // (each - 1)\n", "parameters", ("hosts_per_switch = 1",
         "ZeroDivision", "line")),
        ("latency_ps)\n    return", "latency_ps + np.random.randint(1, 9999))\n    return",
         "again", "port_delay_ps"),
        ("    builder.reserve", "    np.ones(each << 40)\n    builder.reserve", "network",
         "builder.reserve"),
    ]:  # fmt: skip
        assert old in text
        path.write_text(text.replace(old, new))
        (finding,) = check(path, cases=[case])
        assert finding.failed, (new, finding)
        assert mentions(finding.detail, words), finding.detail
