"""Wording: no former names, a bounded number of stilted phrases, well-formed help texts."""

import re
from functools import cache
from pathlib import Path

import click

from netsim.cli.app import app, commands
from netsim.renames import RENAMED

ROOT = Path(__file__).parent.parent
TABLES = {"CHANGELOG.md", "netsim/renames.py", "tests/test_words.py"}
"""Files that list former names."""

PHRASES = {
    "what became of": 12,
    "becomes of": 17,
    "of which": 96,
    "goes on with": 6,
    "is told": 47,
    "are told": 19,
    "whom": 29,
    "behind it": 20,
    "one behind the other": 18,
    "so many": 105,
    "so much": 18,
    "so often": 3,
    "as well": 56,
    "but for": 29,
    "nothing but": 12,
    "no more than": 4,
    "nobody": 52,
    "for good": 5,
    "anew": 35,
    "under way": 70,
    "gets on": 4,
    "altogether": 5,
    "in place of": 45,
    "beside": 200,
    "stands": 142,
    "may ask for": 6,
    "tells of": 9,
}
"""Phrase -> how often it may occur at most; lower a bound when its phrase has become rarer."""

STILL_USED = {"at_once", "--full", "--directory", "in_flight", "size_of", "waited_ps"}
STILL_USED |= {"load_balancing", "n_classes"}
"""Former names that now mean something else, such as an experiment."""

NO_BEGINNING = {"Of", "What", "Who", "Where", "That", "Those", "Is", "If", "Which", "Likewise"}


@cache
def files():
    """Return the text of code, pages and experiments by path."""
    folders = ("netsim", "experiments", "plots", "topologies", "transports", "docs", "tests")
    found = [*ROOT.glob("*.md"), *(one for name in folders for one in (ROOT / name).rglob("*.*"))]
    named = {path.relative_to(ROOT).as_posix(): path for path in found}
    return {
        name: path.read_text("utf-8")
        for name, path in named.items()
        if path.suffix in (".py", ".md", ".toml") and name not in TABLES
    }


def test_no_former_name_is_used():
    """Only names with an underscore or a leading --, since others are English words, too."""
    old = {
        name.rpartition(".")[2]
        for table in RENAMED.values()
        for name in table
        if "_" in name or "--" in name
    }
    new = {name for table in RENAMED.values() for name in table.values()}
    pattern = re.compile(
        rf"(?<![\w-])({'|'.join(sorted(map(re.escape, old - new - STILL_USED)))})(?![\w-])"
    )
    found = {name: set(pattern.findall(text)) for name, text in files().items()}
    assert {name: names for name, names in found.items() if names} == {}


def test_stilted_phrases_stay_within_bounds():
    pages = [text for name, text in files().items() if not name.startswith("tests/")]
    text = " ".join(" ".join(pages).lower().split())
    counts = {phrase: len(re.findall(rf"\b{phrase}\b", text)) for phrase in PHRASES}
    assert {name: n for name, n in counts.items() if n > PHRASES[name]} == {}


def texts(name, command, parent):
    """Yield (command, option, help) for a command, its options and its subcommands."""
    context = click.Context(command, info_name=name, parent=parent)
    yield name, "", (command.help or "").partition("\n\n")[0]
    for one in command.params:
        if isinstance(one, click.Option) and not one.hidden and one.name != "help":
            yield name, one.opts[0], one.help or ""
    for inner in command.list_commands(context) if isinstance(command, click.Group) else ():
        yield from texts(inner, command.get_command(context, inner), context)


def test_help_texts_follow_the_style():
    context = click.Context(app, info_name="netsim")
    assert [
        (name, option, text)
        for command in commands()
        for name, option, text in texts(command, app.get_command(context, command), context)
        if not (text[:1].isupper() and text.endswith(".")) or text.split()[0] in NO_BEGINNING
    ] == []
