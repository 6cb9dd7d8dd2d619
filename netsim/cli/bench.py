"""`netsim bench`: the speed of standard cases on this machine."""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netsim.cli.names import Name
from netsim.cli.options import PATH, json_option, load_experiment, print_json, together
from netsim.common.steps import format_duration
from netsim.common.writing import write_text
from netsim.errors import InputError
from netsim.frozen import frozen
from netsim.model.trees import most_hosts
from netsim.units import format_bytes, format_number, format_time, parse_bytes

if TYPE_CHECKING:
    from netsim.common.terminal import Wide
    from netsim.experiment import Point
    from netsim.results.run_result import RunResult
    from netsim.running.profile import Profile
    from netsim.validation.against import Comparison, Turn

TRANSPORTS = ("ndp", "roce")
HOSTS = (128, 8192)
HOPS = 100_000_000
"""Estimated packet-hops of a case: up to ten seconds on one core. Shorter runs are slower: more of
their time goes into touching memory for the first time."""

TOPOLOGIES = {"leaf-spine": 2, "three-tier": 3, "four-tier": 4}
"""Fully provisioned fat tree -> number of tiers."""

PAYLOAD_BYTES = 4096

HEADERS = (
    ("transport", 0), ("topology", 3), ("hosts", 0), ("bytes\nper host", 2), ("threads", 0),
    ("packet-\nhops", 1), ("M packet-\nhops/s", 0), ("speed-up", 4), ("wall", 5), ("compile", 6),
)  # fmt: skip
"""Columns of the table with their rank: the highest is left out first."""

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


Selected = tuple[tuple[str, ...], tuple[str, ...], tuple[int, ...], tuple[int, ...], str | None]
"""Transports, topologies, hosts, threads, size."""


PEER_HOSTS, PEER_SIZE = (128,), "2MB"  # default with --against; more may take htsim minutes

COSTS: dict[str, tuple[str, Callable[[float], str]]] = {
    "simulated_s": ("simulated part", format_duration),
    "whole_s": ("whole command", format_duration),
    "processor_s": ("processor time", format_duration),
    "peak_bytes": ("peak memory", lambda size: format_bytes(int(size), 3)),
}


@frozen
class BenchCase:
    """A case to measure."""

    transport: str
    topology: str
    hosts: int
    threads: int
    size: str


against_options = together(
    click.option(
        "--against",
        type=PATH,
        metavar="PROGRAM",
        help="Run also PROGRAM, htsim_ndp, htsim_roce or htsim_uec, which you have built.",
    ),
    click.option("--experiment", metavar="EXPERIMENT", help="Compare on it instead of cases."),
    click.option(
        "--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Change the experiment."
    ),
    click.option("--repeats", type=click.IntRange(1), help="Runs of each simulator (3)."),
    click.option(
        "--time-limit",
        type=click.FloatRange(0, min_open=True),
        metavar="SECONDS",
        help="Longest run of either simulator (3600).",
    ),
)
"""The options of a comparison: `against`, `experiment`, `overrides`, `repeats` and `time_limit`."""


@click.command("bench")
@click.option("--transport", "transports", multiple=True, help="Transport (ndp and roce).")
@click.option("--topology", "topologies", multiple=True, type=Name(TOPOLOGIES), metavar="NAME",
              help=f"Fat tree: {', '.join(TOPOLOGIES)} (leaf-spine).")  # fmt: skip
@click.option("--hosts", multiple=True, type=click.IntRange(4), help="Hosts (128 and 8192).")
@click.option("--threads", multiple=True, type=click.IntRange(1), help="Threads (1 and all cores).")
@click.option("--size", help="Bytes sent by each host, such as 2MB (ten seconds of work).")
@click.option("--profile", "profiled", is_flag=True,
              help="Print a single-threaded profile instead.")  # fmt: skip
@against_options
@json_option
def command(
    transports: tuple[str, ...],
    topologies: tuple[str, ...],
    hosts: tuple[int, ...],
    threads: tuple[int, ...],
    size: str | None,
    profiled: bool,
    as_json: bool,
    **versus: Any,
) -> None:
    """Measure packet-hops per second of standard cases, without compilation.

    The eight default cases take about a minute on two cores.

    A packet-hop is one packet, data or control, that crosses one link. In every case each host of
    a fully provisioned fat tree sends to one other host, all at once. Switches of trees with three
    and four tiers have equal numbers of ports, so only some numbers of hosts are possible: 128,
    8192 and 65536 for three tiers, 8192 for four. --transport, --topology, --hosts and --threads
    are repeatable.

    --profile times each step of a run and each part of the time windows. It compiles the transport
    again on first use, since reading the clock needs separate code.

    --against alternates netsim and a program of htsim on the same input: by default, 128 hosts that
    send 2 MB each; with --experiment, that experiment. It prints the medians of times, memory and
    completion times of both.
    """
    from netsim.common.memory import available_cores
    from netsim.common.terminal import Column, Wide, show

    cores = available_cores()
    machine = f"{processor()}, {cores} cores, Python {platform.python_version()}"
    if profiled and as_json:
        raise InputError("conflicts with --profile", key="--json", code="conflict")
    if not as_json:
        click.echo(machine)
    if versus["against"] is not None:
        if profiled:
            raise InputError("conflicts with --profile", key="--against", code="conflict")
        selected = (transports, topologies, hosts, threads or (cores,), size)
        _compare(selected, machine, as_json, **versus)
        return
    if unused := [name for name, value in versus.items() if value]:
        key = "--set" if unused[0] == "overrides" else f"--{unused[0].replace('_', '-')}"
        raise InputError("needs --against PROGRAM", key=key, code="no_effect")
    if profiled:
        if threads:
            hint = "profiles are single-threaded"
            raise InputError("conflicts with --profile", key="--threads", hint=hint)
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
        print_json({**_stamp(machine), "cases": measured})
        return
    columns = [
        Column(header, [row[index] for row in rows], rank, left=index < 2)
        for index, (header, rank) in enumerate(HEADERS)
    ]
    show(Wide(columns, elsewhere="widen the terminal or use a pipe"))


def _stamp(machine: str) -> dict[str, Any]:
    """Return the date, machine and versions of a measurement."""
    from netsim.validation.run import stamp

    return {**stamp(), "machine": machine, "numba": version("numba")}


def cases(
    transports: tuple[str, ...],
    topologies: tuple[str, ...],
    hosts: tuple[int, ...],
    threads: tuple[int, ...],
    size: str | None,
) -> Iterator[BenchCase]:
    """Yield every combination, threads varying fastest, with defaults for empty lists."""
    standard = (transports or TRANSPORTS, topologies or ("leaf-spine",), hosts or HOSTS)
    for transport, topology, count, workers in product(*standard, threads):
        yield BenchCase(transport, topology, count, workers, size or standard_size(topology, count))


def standard_size(topology: str, hosts: int) -> str:
    """Return the bytes per host that make HOPS packet-hops, with their unit. A packet to the far
    side of the tree and its acknowledgment each cross two links per tier."""
    packets = HOPS // (4 * TOPOLOGIES[topology] * hosts)
    return f"{max(1, packets) * PAYLOAD_BYTES}B"


def tree_shape(topology: str, hosts: int) -> str:
    """Return the lines of [topology] for a tree with this number of hosts.

    Leaves are as near to square as possible (8 x 16 for 128 hosts); higher trees have equal
    switches. Raises InputError if there is no such tree.
    """
    tiers = TOPOLOGIES[topology]
    if tiers > 2:
        radix = 2 * round((hosts / 2) ** (1 / tiers))
        if most_hosts(tiers, radix) != hosts:
            near = (f"{most_hosts(tiers, max(4, radix + d)):,}" for d in (-2, 0, 2))
            raise InputError(
                f"no tree of {tiers} tiers with equal switches has {hosts:,} hosts",
                key="--hosts",
                hint=" or ".join(dict.fromkeys(near)),
            )
        return f"tiers = {tiers}\nradix = {radix}"
    for per_leaf in range(int(hosts**0.5), 1, -1):
        if hosts % per_leaf == 0:
            return f"hosts_per_leaf = {per_leaf}\nleaves = {hosts // per_leaf}"
    raise InputError(f"{hosts} hosts cannot be divided evenly among leaves", key="--hosts")


def case_point(case: BenchCase, directory: Path) -> Point:
    """Write the case as an experiment to `directory` and return its only point."""
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


def _compare(
    selected: Selected,
    machine: str,
    as_json: bool,
    against: Path,
    experiment: str | None,
    overrides: tuple[str, ...],
    repeats: int | None,
    time_limit: float | None,
) -> None:
    """Compare with another simulator on the selected cases, or on an experiment."""
    from netsim.common.terminal import show

    if experiment is not None and (any(selected[:3]) or selected[4]):
        raise InputError("conflicts with the selection of cases", key="--experiment")
    if experiment is None and overrides:
        raise InputError("needs --experiment", key="--set", code="no_effect")
    described = []
    with tempfile.TemporaryDirectory() as directory:
        if experiment is None:
            points = _case_points(against, selected, Path(directory))
        else:
            point = experiment_point(experiment, overrides)
            points = ((point, threads) for threads in selected[3])
        for subject, found in comparisons(against, points, overrides, repeats, time_limit):
            described.append({**subject, **comparison_json(against, found)})
            if not as_json:
                click.echo(f"\n{subject['title']}, runs of each: {len(found.netsim)}")
                show(cost_table(against, found))
                show(completion_table(against, found))
    if as_json:
        print_json({**_stamp(machine), "comparisons": described})


def _case_points(program: Path, selected: Selected, directory: Path) -> Iterator[tuple[Point, int]]:
    """Yield the point of each selected case to compare on, and its number of threads."""
    transports, topologies, hosts, threads, size = selected
    standard = transports or (standard_transport(program),)
    for case in cases(standard, topologies, hosts or PEER_HOSTS, threads, size or PEER_SIZE):
        yield case_point(case, directory), case.threads


def _from_here(transport: str) -> str:
    """Return the absolute path of a transport's file, or its name."""
    from netsim.plugins.registry import split_preset

    path, preset = split_preset(transport)
    if not path.endswith(".py"):
        return transport
    absolute = Path(path).resolve().as_posix()
    return f"{absolute}:{preset}" if preset else absolute


def _fitting_point(case: BenchCase) -> Point:
    """Return the case's point. Raises InputError if memory is too small."""
    from netsim.running.estimate import estimate, require_memory

    with tempfile.TemporaryDirectory() as directory:
        point = case_point(case, Path(directory))
    require_memory(estimate(point), what=f"bench, {case.hosts} hosts")
    return point


def _profile(chosen: Iterator[BenchCase]) -> None:
    """Print the profile of each case."""
    from netsim.common.terminal import show
    from netsim.running.profile import profile

    for case in chosen:
        measured = profile(_fitting_point(case))
        size = format_bytes(parse_bytes(case.size), 3)
        hops = format_count(measured.counts.hops)
        click.echo(f"\n{_title(case)}, {size} each: {hops} packet-hops")
        show(profile_table(measured))
        for line in profile_lines(measured):
            click.echo(line)


def _title(case: BenchCase) -> str:
    return f"{case.transport}, {case.topology}, {case.hosts:,} hosts"


def measure(case: BenchCase) -> RunResult:
    """Run a case. Raises InputError if memory is too small."""
    from netsim.running.point import simulate

    point = _fitting_point(case)
    return simulate(point, threads=case.threads, progress=None, should_stop=None)


def processor() -> str:
    """Return the processor's name."""
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
    """Format a count with three significant digits: 353 M."""
    for scale, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= scale:
            return f"{format_number(number / scale, 3)} {letter}"
    return str(number)


def profile_table(profile: Profile) -> Wide:
    """Return a table with a row for each step and each part of the windows."""
    from netsim.common.terminal import rows_table
    from netsim.running import profile as steps

    rows = []
    whole_s = sum(profile.seconds.values())
    for name, about, seconds in _profile_rows(profile):
        in_windows = name in ("", steps.DRIVE)
        a_hop = f"{seconds * 1e9 / max(1, profile.counts.hops):.1f}" if in_windows else ""
        rows.append((name, about, format_duration(seconds), f"{seconds / whole_s:.1%}", a_hop))
    return rows_table(("step", "", "time", "share", "ns per packet-hop"), rows, left=2)


def _profile_rows(profile: Profile) -> Iterator[tuple[str, str, float]]:
    from netsim.running import profile as steps

    about = {
        steps.PREPARE: "network, flows, ideal times",
        steps.BUILD: "modules, engine state",
        steps.CODE: "compile, or load from the cache",
        steps.DRIVE: "simulate windows, in parts:",
        steps.COLLECT: "tables, metrics, conservation",
        steps.WRITE: "files",
    }
    windows = profile.windows
    for name in steps.STEPS:
        yield name, about[name], profile.seconds[name]
        if name == steps.DRIVE:
            yield "", "  switches", windows.switches_s
            yield "", "  hosts", windows.hosts_s
            yield "", "  find active nodes", windows.find_s
            yield "", "  hand over sent packets", windows.publish_s
            yield "", "  start calls, check progress", profile.rest_s


def profile_lines(profile: Profile) -> Iterator[str]:
    """Yield the lines below the profile's table."""
    from netsim.running import profile as steps

    drive_s, counts, windows = profile.seconds[steps.DRIVE], profile.counts, profile.windows
    yield f"{counts.hops / drive_s / 1e6:.1f} M packet-hops/s by one thread"
    n = max(1, counts.windows)
    yield (
        f"{counts.windows:,} windows; active in each: {windows.switch_steps / n:,.1f} switches "
        f"and {windows.host_steps / n:,.1f} hosts, {counts.hops / n:,.0f} packet-hops"
    )
    yield (
        f"serial: {profile.serial_s / drive_s:.1%} of the windows, so threads speed them up by at "
        f"most {drive_s / profile.serial_s:,.1f}"
    )


def experiment_point(experiment: str, overrides: Sequence[str]) -> Point:
    """Return the only point of an experiment. Raises InputError if it is a sweep."""
    loaded = load_experiment(experiment, overrides, seed=None)
    points = loaded.points()
    if len(points) > 1:
        hint = " ".join(f"--set {axis}=VALUE" for axis in loaded.axes)
        raise InputError(f"a sweep of {len(points)} points", file=experiment, hint=hint)
    return points[0]


def standard_transport(program: Path) -> str:
    """Return the transport of a program, with netsim's preset for the rate of the cases."""
    from netsim.validation.htsim import find_peer

    return f"{find_peer(program).transport}:800g"


def comparisons(
    program: Path,
    points: Iterator[tuple[Point, int]],
    overrides: Sequence[str],
    repeats: int | None,
    time_limit: float | None,
) -> Iterator[tuple[dict[str, Any], Comparison]]:
    """Compare on points, each with its number of threads; yield the subject and the comparison."""
    from netsim.validation.against import Limits, compare
    from netsim.validation.htsim import find_peer, peer_input

    peer = find_peer(program)
    if not program.is_file():
        raise InputError("no such program", file=str(program), code="unreadable")
    for point, threads in points:
        given = peer_input(peer, point)
        subject = {
            "transport": point.transport.name,
            "hosts": given.n_hosts,
            "flows": given.flows.total(),
            "bytes": given.total_bytes,
            "threads": threads,
        }
        title = (
            f"{point.name}, {point.transport.name}: {given.n_hosts:,} hosts, "
            f"{given.flows.total():,} flows, {format_bytes(given.total_bytes, 3)}, "
            f"threads: {threads}"
        )
        click.echo(title, err=True)
        limits = Limits(repeats or 3, threads, time_limit or 3600.0)
        changes = [word for change in overrides for word in ("--set", change)]
        own = [str(Path(point.file).resolve()), *changes]
        yield {"title": title, **subject}, compare(own, program, given, limits, _note_turn)


def _note_turn(who: str, turn: Turn) -> None:
    whole_s, simulated_s = turn["whole_s"], turn["simulated_s"]
    text = f"{who}: {format_duration(whole_s)}, {format_duration(simulated_s)} of it simulated"
    click.echo(text, err=True)


def comparison_json(program: Path, found: Comparison) -> dict[str, Any]:
    """Return a comparison as JSON, with every run."""
    from netsim.validation.against import COMPLETION

    def medians(name: str, *keys: str) -> dict[str, float]:
        return dict(zip(keys, found.medians(name), strict=False))

    def run(turn: Turn) -> dict[str, Any]:
        completion = {name: turn[name] for name in COMPLETION}
        return {**{name: turn[name] for name in COSTS}, "completion_us": completion}

    return {
        "program": str(program),
        "costs": {name: medians(name, "netsim", "peer", "ratio") for name in COSTS},
        "completion_us": {name: medians(name, "netsim", "peer") for name in COMPLETION},
        "runs": {
            who: [run(turn) for turn in turns]
            for who, turns in (("netsim", found.netsim), ("peer", found.peer))
        },
    }


def cost_table(program: Path, found: Comparison) -> Wide:
    """Return the times and memory of both simulators, and their ratios."""
    from netsim.common.terminal import rows_table

    rows = []
    for name, (text, formatted) in COSTS.items():
        own, other, ratio = found.medians(name)
        rows.append([text, formatted(own), formatted(other), format_number(ratio, 3)])
    return rows_table(("", "netsim", program.name, "ratio"), rows)


def completion_table(program: Path, found: Comparison) -> Wide:
    """Return the completion times of both simulators, and how much they differ."""
    from netsim.common.terminal import rows_table
    from netsim.validation.against import COMPLETION

    rows = []
    for name in COMPLETION:
        own, other, _ = found.medians(name)
        times = [format_time(round(time_us * 1e6), 4) for time_us in (own, other)]
        rows.append([name, *times, f"{own / other - 1:+.1%}"])
    return rows_table(("completion", "netsim", program.name, "difference"), rows)
