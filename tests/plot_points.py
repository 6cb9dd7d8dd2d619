"""Results with made-up times for tests of figures, and access to drawn curves."""

import pytest
from fakes import FakePoint, fake_result

from netsim.results import load, provenance, write_result

TREE = {"kind": "fat_tree", "hosts_per_leaf": 4, "leaves": 4, "spines": 4}


@pytest.fixture
def make(tmp_path, monkeypatch):
    without_commits(monkeypatch)

    def result(name="tiny", axes=None, transport="ndp", **options):
        point = FakePoint(name=name, axes=axes or {}, transport_name=transport)
        return load(write_result(tmp_path / name, point, fake_result(**options)))

    return result


@pytest.fixture
def point(tmp_path, monkeypatch):
    without_commits(monkeypatch)

    def write(transport, seed=1, traffic=None, topology=None, axes=None, fair_ps=None, **options):
        kind = transport.split(":")[0]
        traffic = {"kind": "permutation", "size": "2MB", "load": 1.0} | (traffic or {})
        name = f"p{len(list(tmp_path.iterdir()))}"
        axes = {"transport": transport, "seed": seed} | (axes or {})
        made = FakePoint(name=name, axes=axes, seed=seed, transport_name=kind)
        made.resolved["topology"] = TREE | (topology or {})
        made.resolved["traffic"] = {k: v for k, v in traffic.items() if v is not None}
        made.resolved["transport"] = {"kind": transport} | options.pop("params", {})
        faked = fake_result(**({"n_flows": 100, "seed": seed} | options))
        result = load(write_result(tmp_path / name, made, faked))
        if fair_ps is not None:
            result.summary["fair_ps"] = fair_ps
        return result

    return write


def without_commits(monkeypatch):
    """Write results without the state of netsim's repository, which takes 70 of 73 ms."""
    monkeypatch.setattr(provenance, "commits", lambda _: [])


def curve(figure, label):
    (line,) = [one for one in figure.axes[0].get_lines() if one.get_label() == label]
    return line.get_xdata(), line.get_ydata()


def varied(make, axis, value, transport="ndp", seed=1, **options):
    """Return a point of a sweep over `axis`, with its value also in the resolved experiment."""
    name = f"{transport},{axis}={value},{seed}".replace("/", "_")
    axes = {"transport": transport, axis: value, "seed": seed}
    result = make(name, axes, transport=transport.partition(":")[0], seed=seed, **options)
    result.experiment["seed"] = seed
    section, _, key = axis.partition(".")
    result.experiment["resolved"].setdefault(section, {})[key] = value
    return result
