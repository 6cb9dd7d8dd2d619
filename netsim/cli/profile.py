"""What `netsim bench --profile` prints: where the time of a case went."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from netsim.cli.progress import format_duration
from netsim.running import profile as steps

if TYPE_CHECKING:
    from rich.table import Table

    from netsim.running.profile import Profile

ABOUT = {
    steps.PREPARE: "network, flows, ideal times",
    steps.BUILD: "modules, the state of the engine",
    steps.CODE: "compiled, or read from the disk",
    steps.DRIVE: "windows, of these",
    steps.COLLECT: "tables, figures, conservation",
    steps.WRITE: "files",
}


def profile_table(profile: Profile) -> Table:
    """A row for each step, and for each part of the windows."""
    from netsim.terminal import plain_table

    table = plain_table("step", "", "time", "share", "ns a packet-hop")
    for column in table.columns[2:]:
        column.justify = "right"
    whole_s = sum(profile.seconds.values())
    for name, about, seconds in _rows(profile):
        in_windows = name in ("", steps.DRIVE)
        a_hop = f"{seconds * 1e9 / max(1, profile.counts.hops):.1f}" if in_windows else ""
        table.add_row(name, about, format_duration(seconds), f"{seconds / whole_s:.1%}", a_hop)
    return table


def _rows(profile: Profile) -> Iterator[tuple[str, str, float]]:
    windows = profile.windows
    for name in steps.STEPS:
        yield name, ABOUT[name], profile.seconds[name]
        if name == steps.DRIVE:
            yield "", "  switches", windows.switches_s
            yield "", "  hosts", windows.hosts_s
            yield "", "  finding active nodes", windows.find_s
            yield "", "  handing over what was sent", windows.publish_s
            yield "", "  enlarging rings, looking round", profile.rest_s


def figures(profile: Profile) -> Iterator[str]:
    """Lines below the table."""
    drive_s, counts, windows = profile.seconds[steps.DRIVE], profile.counts, profile.windows
    yield f"{counts.hops / drive_s / 1e6:.1f} M packet-hops/s by one worker"
    n = max(1, counts.windows)
    yield (
        f"{counts.windows:,} windows; at work in each: {windows.switch_steps / n:,.1f} switches "
        f"and {windows.host_steps / n:,.1f} hosts, {counts.hops / n:,.0f} packet-hops"
    )
    yield (
        f"serial: {profile.serial_s / drive_s:.1%} of the windows, which threads make "
        f"{drive_s / profile.serial_s:,.1f} times as fast at most"
    )
