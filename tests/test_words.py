"""Help texts follow the style: a sentence that begins with a verb or a noun."""

import click

from netsim.cli.app import app, commands

NO_BEGINNING = {"Of", "What", "Who", "Where", "That", "Those", "Is", "If", "Which", "Likewise"}


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
