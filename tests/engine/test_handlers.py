"""The table of handlers, and the pages that describe them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import netsim.engine.kernels
from netsim import transport
from netsim.engine.kernels.handlers import ANY_HOST, BEFORE, HANDLERS, NOTHING, SWITCH, handler_name

PAGE = Path(__file__).parents[2] / "transports" / "README.md"


def test_the_page_for_authors_has_the_table():
    text = PAGE.read_text("utf-8").partition("| handler | runs on | called |\n|---|---|---|\n")[2]
    rows = [f"| `{h.form}` | {h.runs_on} | {h.called} |" for h in HANDLERS.values()]
    assert text.partition("\n\n")[0].splitlines() == rows


def test_the_module_for_authors_has_the_table():
    rows = re.findall(r"^``(.+?\))`` +(.+)$", str(transport.__doc__), re.MULTILINE)
    told = [(form, called.replace("``", "`")) for form, called in rows]
    assert told == [(h.form, h.called) for h in HANDLERS.values()]
    required = " and ".join(f"``{h.name}``" for h in HANDLERS.values() if h.required)
    assert f"Only {required} are required." in str(transport.__doc__)


def test_a_handler_has_a_number_by_which_it_is_told():
    assert handler_name(NOTHING) == ""
    assert [handler_name(h.number) for h in HANDLERS.values()] == list(HANDLERS)


def test_what_a_handler_is_given_fits_where_it_runs():
    for handler in HANDLERS.values():
        has_env = handler.arguments[0] == "env"
        assert has_env == (handler.runs_on != SWITCH)
        if handler.runs_on not in (BEFORE, SWITCH, ANY_HOST):
            assert handler.side == {"source": "tx", "destination": "rx"}[handler.runs_on]


@pytest.mark.parametrize("name", HANDLERS)
def test_the_engine_calls_every_handler_and_says_so(name):
    """Of one that runs on a host the number is noted first."""
    kernels = Path(netsim.engine.kernels.__file__).parent.glob("*.py")
    texts = [path.read_text("utf-8") for path in kernels if path.stem != "handlers"]
    call = re.compile(rf"(?<!def )\b{name}\(")
    calling = [text for text in texts if call.search(text)]
    assert calling
    if HANDLERS[name].runs_on != SWITCH:
        assert any(f"host.doing = IN_{name.upper()}\n" in text for text in calling)
