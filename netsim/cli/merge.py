"""`netsim merge`: one sweep of its shards."""

from __future__ import annotations

from pathlib import Path

import click

from netsim.cli.app import FAILED

MAX_NAMED = 5
"""Most points to name."""


@click.command("merge")
@click.argument("shards", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option(
    "--out", type=click.Path(path_type=Path), help="Result directory (SHARD's without .shard)."
)
def command(shards: tuple[Path, ...], out: Path | None) -> None:
    """Merge SHARDS, the result directories of netsim run --shard, into one sweep.

    All shards of the sweep are needed, from the same experiment and the same netsim. The sweep is
    the same as that of a run without shards. The shards stay as they are. The exit status is 1 if
    points without a result are left; netsim run with the same --out simulates them.
    """
    from netsim.results.shard import merge, merge_directory

    directory = out or merge_directory(shards)
    missing = merge(shards, directory)
    click.echo(f"results in {directory}")
    if missing:
        more = ", ..." if len(missing) > MAX_NAMED else ""
        click.echo(f"not finished: {', '.join(missing[:MAX_NAMED])}{more}", err=True)
        raise SystemExit(FAILED)
