"""`netsim bench`: the speed of standard cases on this machine."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netsim.cli.names import Name
from netsim.cli.options import json_option, print_json
from netsim.cli.progress import format_duration
from netsim.errors import InputError
from netsim.model.trees import most_hosts
from netsim.units import format_bytes, format_number, parse_bytes
from netsim.writing import write_text

if TYPE_CHECKING:
    from netsim.experiment import Point
    from netsim.results.run_result import RunResult

TRANSPORTS = ("ndp", "roce")
HOSTS = (128, 8192)
HOPS = 240_000_000
"""Packet-hops of a case, by the estimate below: up to half a minute on one core. In less, memory
is touched for the first time and rings grow, and the speed is not yet that of a long run."""

TOPOLOGIES = {"leaf-spine": 2, "three-tier": 3, "four-tier": 4}
"""Fully provisioned fat trees, and their tiers."""

PAYLOAD_BYTES = 4096

HEADERS = (
    ("transport", 0), ("topology", 3), ("hosts", 0), ("bytes\nper host", 2), ("threads", 0),
    ("packet-\nhops", 1), ("M packet-\nhops/s", 0), ("speed-up", 4), ("wall", 5), ("compile", 6),
)  # fmt: skip
"""Columns of the table, and which of them give way first."""

CASE = """\
name = "bench"
seed = 1

[topology]
kind = "fat_tree"
{shape}

[transport]
kind = "{transport}"

[traffic]
kind = "permutation"
size = "{size}"
"""


@dataclass(frozen=True)
class BenchCase:
    """One measurement."""

    transport: str
    topology: str
    hosts: int
    threads: int
    size: str


@click.command("bench")
@click.option(
    "--transport", "transports", multiple=True, help="Transport; ndp and roce by default."
)
@click.option(
    "--topology",
    "topologies",
    multiple=True,
    type=Name(TOPOLOGIES),
    metavar="NAME",
    help=f"Fat tree, one of {', '.join(TOPOLOGIES)}; leaf-spine by default.",
)
@click.option(
    "--hosts", multiple=True, type=click.IntRange(4), help="Hosts; 128 and 8192 by default."
)
@click.option(
    "--threads", multiple=True, type=click.IntRange(1), help="Threads; 1 and all cores by default."
)
@click.option(
    "--size", help="Bytes sent by each host, such as 2MB (default: up to half a minute of work)."
)
@click.option(
    "--profile", "profiled", is_flag=True, help="Print a single-threaded profile instead."
)
@json_option
def command(
    transports: tuple[str, ...],
    topologies: tuple[str, ...],
    hosts: tuple[int, ...],
    threads: tuple[int, ...],
    size: str | None,
    profiled: bool,
    as_json: bool,
) -> None:
    """Measure packet-hops per second of standard cases, the time to compile set apart.

    The eight cases that are measured by default take about four minutes in all on two cores.

    A packet-hop is one packet, data or control, that crosses one link. In every case each host of
    a fully provisioned fat tree sends to one other host, all at once. In trees of three
    and four tiers all switches have the same number of ports: 128, 8192 and 65536 hosts make three
    tiers, 8192 four. --transport, --topology, --hosts and --threads may be given several times.

    --profile takes the time of every step of a run and of what is done inside the windows. The
    first run of it with a transport compiles, since the clock is read in code of its own.
    """
    from netsim.terminal import Column, Wide, show

    cores = available_cores()
    machine = f"{processor()}, {cores} cores, Python {platform.python_version()}"
    if profiled and as_json:
        raise InputError("does not go with --profile", key="--json", code="conflict")
    if not as_json:
        click.echo(machine)
    if profiled:
        if threads:
            hint = "a profile is of one thread"
            raise InputError("does not go with --profile", key="--threads", hint=hint)
        _profile(cases(transports, topologies, hosts, (1,), size))
        return
    chosen = threads or tuple(sorted({1, cores}))
    measured: list[dict[str, Any]] = []
    rows: list[list[str]] = []
    slowest: dict[tuple[str, str, int], float] = {}
    for case in cases(transports, topologies, hosts, chosen, size):
        click.echo(f"{_title(case)}, threads: {case.threads}", err=True)
        summary = measure(case).summary
        speed = float(summary["packet_hops_per_s"])
        base = slowest.setdefault((case.transport, case.topology, case.hosts), speed)
        rows.append(_cells(case, summary, speed / base))
        figures = ("packet_hops", "packet_hops_per_s", "wall_s", "compile_s")
        measured.append({**asdict(case), **{name: summary[name] for name in figures}})
    if as_json:
        print_json({"machine": machine, "cases": measured})
        return
    columns = [
        Column(header, [row[index] for row in rows], rank, left=index < 2)
        for index, (header, rank) in enumerate(HEADERS)
    ]
    show(Wide(columns, elsewhere="a wider terminal or a pipe shows them"))


def cases(
    transports: tuple[str, ...],
    topologies: tuple[str, ...],
    hosts: tuple[int, ...],
    threads: tuple[int, ...],
    size: str | None,
) -> Iterator[BenchCase]:
    """Every combination, the number of threads varying fastest; defaults for what is empty."""
    standard = (transports or TRANSPORTS, topologies or ("leaf-spine",), hosts or HOSTS)
    for transport, topology, count, workers in product(*standard, threads):
        yield BenchCase(transport, topology, count, workers, size or standard_size(topology, count))


def standard_size(topology: str, hosts: int) -> str:
    """Bytes per host for HOPS packet-hops, written with their unit.

    A packet to the far side of the tree and its acknowledgment cross two links a tier each.
    """
    packets = HOPS // (4 * TOPOLOGIES[topology] * hosts)
    return f"{max(1, packets) * PAYLOAD_BYTES}B"


def tree_shape(topology: str, hosts: int) -> str:
    """The lines of [topology] for a tree of so many hosts.

    Of leaves and spines the most nearly square one, 8 x 16 for 128 hosts; of more tiers the one of
    switches with the same number of ports. Raises InputError if there is none.
    """
    tiers = TOPOLOGIES[topology]
    if tiers > 2:
        radix = 2 * round((hosts / 2) ** (1 / tiers))
        if most_hosts(tiers, radix) != hosts:
            near = (f"{most_hosts(tiers, max(4, radix + d)):,}" for d in (-2, 0, 2))
            raise InputError(
                f"{hosts:,} hosts make no tree of {tiers} tiers of equal switches",
                key="--hosts",
                hint=" or ".join(dict.fromkeys(near)),
            )
        return f"tiers = {tiers}\nradix = {radix}"
    for per_leaf in range(int(hosts**0.5), 1, -1):
        if hosts % per_leaf == 0:
            return f"hosts_per_leaf = {per_leaf}\nleaves = {hosts // per_leaf}"
    raise InputError(f"{hosts} hosts cannot be shared out evenly among leaves", key="--hosts")


def case_point(case: BenchCase, directory: Path) -> Point:
    """The case as an experiment's only point; its file is written to `directory`."""
    from netsim.experiment import Experiment

    text = CASE.format(
        shape=tree_shape(case.topology, case.hosts),
        transport=_from_here(case.transport),
        size=case.size,
    )
    path = directory / "bench.toml"
    write_text(path, text)
    (point,) = Experiment.load(path, []).points()
    return point


def _from_here(transport: str) -> str:
    """The path of a transport's file as seen from anywhere; a name is left as it is."""
    from netsim.plugins.registry import split_preset

    path, preset = split_preset(transport)
    if not path.endswith(".py"):
        return transport
    absolute = Path(path).resolve().as_posix()
    return f"{absolute}:{preset}" if preset else absolute


def _fitting_point(case: BenchCase) -> Point:
    """The case's point; refused if it does not fit into memory."""
    from netsim.running.estimate import estimate, require_memory

    with tempfile.TemporaryDirectory() as directory:
        point = case_point(case, Path(directory))
    require_memory(estimate(point), what=f"bench, {case.hosts} hosts")
    return point


def _profile(chosen: Iterator[BenchCase]) -> None:
    """Print where the time of each case goes."""
    from netsim.cli.profile import figures, profile_table
    from netsim.running.profile import profile
    from netsim.terminal import show

    for case in chosen:
        measured = profile(_fitting_point(case))
        size = format_bytes(parse_bytes(case.size), 3)
        hops = format_count(measured.counts.hops)
        click.echo(f"\n{_title(case)}, {size} each: {hops} packet-hops")
        show(profile_table(measured))
        for line in figures(measured):
            click.echo(line)


def _title(case: BenchCase) -> str:
    return f"{case.transport}, {case.topology}, {case.hosts:,} hosts"


def measure(case: BenchCase) -> RunResult:
    """Run one case; refused if it does not fit into memory."""
    from netsim.running.point import simulate

    point = _fitting_point(case)
    return simulate(point, threads=case.threads, progress=None, should_stop=None)


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processor() -> str:
    """What the processor calls itself."""
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _cells(case: BenchCase, summary: dict[str, Any], speed_up: float) -> list[str]:
    return [
        case.transport,
        case.topology,
        f"{case.hosts:,}",
        format_bytes(parse_bytes(case.size), 3),
        str(case.threads),
        format_count(summary["packet_hops"]),
        f"{summary['packet_hops_per_s'] / 1e6:.1f}",
        f"{speed_up:.2f}",
        format_duration(summary["wall_s"]),
        format_duration(summary["compile_s"]),
    ]


def format_count(number: int) -> str:
    """A count with three significant digits: 353 M."""
    for scale, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= scale:
            return f"{format_number(number / scale, 3)} {letter}"
    return str(number)
