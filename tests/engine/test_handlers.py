"""The tables of handlers, and the pages that describe them."""

from __future__ import annotations

import re
from pathlib import Path

import netsim.engine.kernels
from netsim.engine.kernels.handlers import (
    ANY_HOST,
    BEFORE,
    HANDLERS,
    NOTHING,
    QUEUE_HANDLERS,
    SWITCH,
)

PAGE = Path(__file__).parents[2] / "transports" / "README.md"


def test_guide_contains_the_handler_table():
    text = PAGE.read_text("utf-8").partition(
        "| handler | runs on | called when |\n|---|---|---|\n"
    )[2]
    rows = [f"| `{h.form}` | {h.runs_on} | {h.called} |" for h in HANDLERS.values()]
    assert text.partition("\n\n")[0].splitlines() == rows


def test_handler_numbers_are_unique_and_map_to_names():
    names = {}
    for table in (HANDLERS, QUEUE_HANDLERS):
        assert table.name_of(NOTHING) == ""
        assert [table.name_of(h.number) for h in table.values()] == list(table)
        names |= {h.number: h.name for h in table.values()}
    assert len(names) == len(HANDLERS) + len(QUEUE_HANDLERS)


def test_handler_arguments_match_where_it_runs():
    for handler in HANDLERS.values():
        has_env = handler.arguments[0] == "env"
        assert has_env == (handler.runs_on != SWITCH)
        if handler.runs_on not in (BEFORE, SWITCH, ANY_HOST):
            assert handler.side == {"source": "tx", "destination": "rx"}[handler.runs_on]


def test_engine_records_each_handler_that_it_calls():
    """So that an error can name the handler."""
    for name in [*HANDLERS, *QUEUE_HANDLERS]:
        kernels = Path(netsim.engine.kernels.__file__).parent.glob("*.py")
        texts = [path.read_text("utf-8") for path in kernels if path.stem != "handlers"]
        call = re.compile(rf"(?<!def )\b{name}\(")
        calling = [text for text in texts if call.search(text)]
        assert calling
        row = {**HANDLERS, **QUEUE_HANDLERS}[name]
        node = "switch" if row.runs_on == SWITCH else "host"
        assert any(f"{node}.handler = IN_{name.upper()}\n" in text for text in calling)
