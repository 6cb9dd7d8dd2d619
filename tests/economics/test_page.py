"""The page of economics: its tables and figures are those of the code."""

from dataclasses import MISSING, fields
from pathlib import Path

import pytest

import netsim.economics
from netsim.cli.economics import find_book, tables
from netsim.cli.wide import Wide
from netsim.economics import compare, load_book, presets
from netsim.economics.book import Failures, Fleet, Gpu, LinkKind, Memory, Package, Wafer
from netsim.job.keys import keys_of

PAGE = (Path(netsim.economics.__file__).parent / "README.md").read_text("utf-8")


def test_the_tables_are_those_of_the_command():
    book = load_book("lite")
    made = [table for table in tables(book, compare(book)) if isinstance(table, Wide)]
    assert len(made) == 4
    for table in made:
        lines = [[column.name for column in table.columns]]
        lines += [list(row) for row in zip(*(one.cells for one in table.columns), strict=True)]
        assert [line for line in lines if f"| {' | '.join(line)} |" not in PAGE] == []


@pytest.mark.parametrize("part", [Wafer, Memory, Package, LinkKind, Failures, Fleet, Gpu])
def test_every_key_has_its_line(part):
    known = keys_of(part)
    for field in fields(part):
        default = "must be given" if field.default is MISSING else f"{field.default:g}"
        how = known[field.name]
        assert f"| `{field.name}` | {how.unit} | {default} | {how.doc} |" in PAGE


def test_figures_in_the_text():
    h100, lite, netbw = compare(load_book("lite"))[:3]
    text = " ".join(PAGE.split())
    assert f"yields {lite.die_yield / h100.die_yield:.1f} times as many" in text
    assert f"costs {100 * lite.usd_per_good_mm2 / h100.usd_per_good_mm2:.0f} % of" in text
    assert f"so that {lite.saved_usd:.0f} USD, a tenth of an H100" in text
    assert 0.09 < lite.saved_usd / h100.usd < 0.11
    price, twice = (one.break_even_usd_per_gbps for one in (lite, netbw))
    assert f"{price:.2f} USD per Gbps at the GPU's end ({twice:.2f} with twice" in text
    assert (lite.spares[1].full, h100.spares[1].full) == (3, 3)
    by_gpu = compare(find_book("lite", Path.cwd(), ["failures.rate_by=gpu"]))[1]
    assert by_gpu.spares[1].full / by_gpu.silicon / h100.spares[1].full == 0.5
    assert (1 - by_gpu.group_up) / (1 - lite.group_up) == pytest.approx(4, rel=0.01)


def test_presets_are_named():
    assert [name for name in presets() if f"`{name}.toml`" not in PAGE] == []
