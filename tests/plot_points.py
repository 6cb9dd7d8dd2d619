"""Results with made-up times for tests of figures, and what is drawn of them."""

import pytest
from fakes import FakePoint, fake_result

from netsim import load
from netsim.results import write_result


@pytest.fixture
def make(tmp_path):
    def result(name="tiny", axes=None, transport="ndp", **options):
        point = FakePoint(name=name, axes=axes or {}, transport_name=transport)
        return load(write_result(tmp_path / name, point, fake_result(**options)))

    return result


def curve(figure, label):
    (line,) = [one for one in figure.axes[0].get_lines() if one.get_label() == label]
    return line.get_xdata(), line.get_ydata()


def varied(make, axis, value, transport="ndp", seed=1, **options):
    """A point of a sweep over `axis`, its value in the resolved experiment as well."""
    name = f"{transport},{axis}={value},{seed}".replace("/", "_")
    axes = {"transport": transport, axis: value, "seed": seed}
    result = make(name, axes, transport=transport.partition(":")[0], seed=seed, **options)
    result.experiment["seed"] = seed
    section, _, key = axis.partition(".")
    result.experiment["resolved"].setdefault(section, {})[key] = value
    return result
