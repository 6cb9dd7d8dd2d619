"""`netsim trace --pcap`: a capture of links, of a node or of a flow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netsim.cli.options import flow_number, print_json
from netsim.cli.trace_output import TraceOutputs
from netsim.errors import InputError

if TYPE_CHECKING:
    from netsim.results import Result

LIMIT = 10_000
"""Default of --limit: packets."""

OPTIONS = {
    "pcap": click.option(
        "--pcap",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Write packets to this pcapng file, for Wireshark: those of --flow, those of --at, or "
        f"those of the flow there; at most --limit ({LIMIT:,}).",
    ),
    "at": click.option(
        "--at",
        metavar="LINKS",
        help='With --pcap: a link "leaf0 -> h3", both directions "leaf0 - h3", or a node "leaf0"; '
        "* matches any text.",
    ),
}
WITH = ("flow", "from", "to", "experiment-dir")


def show(result: Result, asked: Mapping[str, Any], outputs: TraceOutputs) -> None:
    """Write a capture and say what is in it."""
    from netsim.cli.progress import reporter
    from netsim.experiment.place_faults import ports_named
    from netsim.tracing.capture import write_capture
    from netsim.tracing.record import Replay
    from netsim.units import parse_time_ps

    if outputs.csv or outputs.parquet:
        raise InputError("--pcap and --csv or --parquet are mutually exclusive")
    if asked["flow"] is None and asked["at"] is None:
        raise InputError("nothing to capture", key="--pcap", hint="--flow N or --at LINKS")
    times = [parse_time_ps(asked[name]) if asked[name] else None for name in ("from", "to")]
    flows = [] if asked["flow"] is None else [flow_number(result, asked["flow"])]
    report = None if outputs.quiet or outputs.as_json else reporter()
    try:
        replay = Replay.of(
            result,
            asked["experiment-dir"],
            trust=asked["trust"],
            progress=report.watch(result.name) if report else None,
        )
        ports = []
        if asked["at"] is not None:
            try:
                ports = ports_named(asked["at"], replay.scenario.network).tolist()
            except InputError as error:
                raise error.at(file=str(result.path), key="--at") from None
        most = LIMIT if outputs.limit is None else outputs.limit
        path: Path = asked["pcap"]
        found = write_capture(replay, path, flows, ports, (times[0] or 0, times[1]), most)
    finally:
        if report:
            report.close()
    if outputs.as_json:
        print_json({"file": path, "packets": found.packets, "links": found.links})
    elif not outputs.quiet:
        cut = " (--limit 0 writes all)" if found.is_cut else ""
        click.echo(f"{found.packets:,} packets of {found.links:,} links{cut}\n{path}")
