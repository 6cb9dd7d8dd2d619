"""The page of inference: its tables are those of the code."""

from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

from netsim.units import format_time
from netsim.workloads.cli import workload_inference as compared
from netsim.workloads.cli import workload_measured as measured
from netsim.workloads.inference.deployment import Costs, Formats, Options
from netsim.workloads.inference.limits import Limits
from netsim.workloads.inference.load import presets
from netsim.workloads.inference.validation import errors, fitted_groups, groups, predicted
from netsim.workloads.job.keys import keys_of

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "netsim" / "workloads" / "inference" / "README.md").read_text("utf-8")


def missing(wide):
    """Lines of a table that the page does not have."""
    lines = [[column.name for column in wide.columns]]
    lines += [list(row) for row in zip(*(column.cells for column in wide.columns), strict=True)]
    return [line for line in (f"| {' | '.join(one)} |" for one in lines) if line not in PAGE]


@cache
def comparison():
    return compared.find_comparison([])


@pytest.mark.parametrize("group", groups())
def test_measured_times_are_what_the_code_gives(group):
    assert missing(measured.measured_table(group)) == []
    assert measured.told_errors(group) in " ".join(PAGE.split())


def test_other_forms_and_formulas_are_what_the_code_gives():
    assert missing(measured.form_table()) == []
    assert missing(measured.formula_table()) == []


def test_the_comparison_is_what_the_code_gives():
    assert missing(compared.count_table(comparison())) == []
    found = compared.ratio_rows(comparison())
    for model in comparison().models:
        for phase in ("prefill", "decode"):
            assert missing(compared.ratio_table(found, model, phase)) == []
    assert missing(compared.claim_table(found)) == []
    assert missing(compared.limit_table(comparison())) == []


def default_of(field, unit):
    value = field.default
    if unit == "time":
        return f'"{format_time(value)}"'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"


@pytest.mark.parametrize("part", [Formats, Options, Costs, Limits])
def test_every_key_has_its_line(part):
    known = keys_of(part)
    lines = []
    for field in fields(part):
        how = known[field.name]
        default = default_of(field, how.unit)
        lines.append(f"| `{field.name}` | {how.unit} | {default} | {how.doc} |")
    assert [line for line in lines if line not in PAGE] == []


@pytest.mark.parametrize("kind", ["deployments", "costs"])
def test_every_preset_is_named(kind):
    assert [name for name in presets(kind) if f"`{name}`" not in PAGE] == []


def test_what_the_text_says_of_errors():
    text = " ".join(PAGE.split())
    decoding = [row for group in fitted_groups() for row in predicted(group)]
    decoding = [row for row in decoding if row.phase == "decode"]
    assert f"within {100 * errors(decoding)[1]:.0f} % ({len(decoding)} times)" in text
    many = [row for group in fitted_groups() for row in predicted(group, large=True)]
    found = sorted(100 * row.error for row in many if row.deployment.tp > 2)
    assert f"{-found[-1]:.0f} to {-found[0]:.0f} % less" in text
    readme = " ".join((ROOT / "README.md").read_text("utf-8").split())
    assert f"beyond we say up to {-found[0]:.0f} % less than was measured" in readme
    two = [row for row in many if row.deployment.tp == 2]
    assert f"within {100 * errors(two)[1]:.0f} % on two" in text
