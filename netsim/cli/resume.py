"""`netsim resume`: go on with a run that was ended before it was done."""

from __future__ import annotations

from pathlib import Path

import click

from netsim.cli.options import json_option, trust_option
from netsim.cli.run import Output, run
from netsim.limits import THREADS


@click.command("resume")
@click.argument("result", type=click.Path(path_type=Path))
@click.option(
    "--threads",
    type=click.IntRange(1, THREADS),
    help="Number of threads; all cores by default. They need not be as many as before.",
)
@click.option(
    "--plot", is_flag=True, help="Save a picture of the flow completion times, fct_cdf.png."
)
@click.option(
    "--check-bounds",
    "checked",
    is_flag=True,
    help="Look for handlers that write past their arrays: slow, one thread.",
)
@trust_option
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
@json_option
def command(
    result: Path,
    threads: int | None,
    plot: bool,
    checked: bool,
    trust: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Go on with a run of which RESULT is the directory of results.

    It has to be one that netsim run --checkpoint was to write: killed, interrupted or cut short by
    the machine. Points that are done are kept, the one that was under way goes on from its last
    checkpoint, and ends with the same result as if nothing had happened. Checkpoints are written
    as before. A checkpoint that is damaged, or of another experiment or other code, is refused.

    RESULT names the experiment, and that its plugins. Those that are not part of netsim are run
    with --trust alone, and so are checkpoints that you have not written on this machine.
    """
    from netsim.running.run_manifest import Checkpoints, read_manifest

    start = read_manifest(result)
    options = {
        "threads": threads,
        "checked": checked,
        "checkpoints": Checkpoints(start, must_fit=True, trust=trust),
    }
    output = Output(plot=plot, quiet=quiet, as_json=as_json)
    run(start.load(trust=trust), result, options, output)
