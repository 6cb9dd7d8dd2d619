"""`netsim check`: validate an experiment and predict its time and memory, or test a plugin; `netsim
new`: create a plugin from a template."""

from __future__ import annotations

import json
import keyword
import math
import os
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netsim.cli.app import FAILED, FailedRun
from netsim.cli.interrupt import end_now
from netsim.cli.names import PLURAL, Name, complete, complete_name, lines_of
from netsim.cli.options import (
    change_options,
    json_option,
    load_experiment,
    option_seconds,
    print_json,
)
from netsim.common.discovery import FOLDERS, built_in
from netsim.common.steps import Steps, format_duration
from netsim.common.writing import write_new, writing_to
from netsim.errors import InputError, did_you_mean
from netsim.units import listed, written

if TYPE_CHECKING:
    from netsim.conformance import Finding, Testbed
    from netsim.experiment import Point
    from netsim.running.estimate import Code, Estimate

START_S = 1.0  # time to start the interpreter and load libraries
BUILD_S = 5.0  # processor time after which no further point is built
MIN_DETAIL = 20  # minimum width of the last column of findings on a terminal
NAMED_POINTS = 2  # named points per assumption; more are counted

KINDS = (*FOLDERS, "experiment")
PLURALS = {plural: kind for plural, kind in PLURAL.items() if kind in KINDS}
OF_PLUGINS = {"cases": "--case", "long": "--long"}
OF_EXPERIMENTS = {"ranks": "--ranks", "budget": "--budget", "every": "--all"}
"""Options that only experiments, or only plugins, take: parameter -> option as typed."""


@click.command("check")
@click.argument("kind", metavar="[KIND] NAME|FILE", shell_complete=complete("experiments", KINDS))
@click.argument("name", metavar="", required=False, shell_complete=complete_name)
@change_options
@click.option("--ranks", type=click.IntRange(1), metavar="N",
              help="Predict memory for N ranks of --mpi.")  # fmt: skip
@click.option(
    "--budget",
    metavar="TIME",
    default="60s",
    show_default=True,
    help="Propose the sample of a training job that distorts least in this time of simulation.",
)
@click.option("--all", "every", is_flag=True, help="Build every point, however long it takes.")
@click.option("--case", "cases", multiple=True, help="Run only this case of a plugin; repeatable.")
@click.option("--long", is_flag=True,
              help="Use longer flows, or more hosts, for a plugin: minutes.")  # fmt: skip
@json_option
def command(kind: str, name: str | None, **options: Any) -> None:
    """Check an experiment or a plugin.

    An experiment is given by name or TOML file: print every value, and predict run time and memory.
    The keys of all points are checked. Networks and traffic are built, point by point, for 5 s of
    processor time; the remaining points are listed. Points that exceed the memory of this machine
    are an error, unless --ranks is given.

    A plugin is given by name or Python file: test it on small networks. KIND is needed only for a
    name of two kinds. --set changes its parameters; for a queue discipline or routing algorithm,
    keys of [fabric]. The exit status is 1 if a case fails.

    \b
    netsim check p2p_512
    netsim check mine.py
    netsim check traffic poisson --set sizes=4096B --set load=0.5 --set n_flows=5000
    """
    context = click.get_current_context()
    if name is None:
        name, kind = kind, _kind_of(kind)
    else:
        kind = Name(KINDS, PLURALS).convert(kind, None, None)
    of_others = OF_PLUGINS if kind == "experiment" else OF_EXPERIMENTS
    for option, written_as in of_others.items():
        if context.get_parameter_source(option) is click.core.ParameterSource.COMMANDLINE:
            of = "plugins" if kind == "experiment" else "experiments"
            raise InputError(f"applies only to {of}", key=written_as)
    if kind == "experiment":
        del options["cases"], options["long"]
        check_experiment(name, **options)
        return
    from netsim.conformance import load_testbed
    from netsim.experiment.document import apply_overrides

    settings: dict[str, Any] = {}
    apply_overrides(settings, options["overrides"])
    found = load_testbed(
        name, kind, settings=settings, seed=_plugin_seed(options["seed"]), long=options["long"]
    )
    check_plugin(name, found, options["cases"] or None, as_json=options["as_json"])


def _kind_of(name: str) -> str:
    """Return the kind of a plugin, or "experiment". Raises InputError for a plugin of two kinds."""
    base = name.partition(":")[0]
    if base.endswith(".py"):
        from netsim.conformance import kind_of

        return kind_of(base)
    if name.endswith(".toml") or name in built_in():
        return "experiment"
    from netsim.plugins import registry

    kinds = [kind for kind in FOLDERS if base in dict(lines_of(FOLDERS[kind]))]
    if len(kinds) > 1:
        example = " or ".join(f"netsim check {kind} {name}" for kind in kinds)
        raise InputError(f"{written(name)} is the name of a {' and a '.join(kinds)}", hint=example)
    if kinds or Path(name).exists():
        return kinds[0] if kinds else "experiment"
    every = [one for kind in FOLDERS for one in registry.names(kind)]
    hint = did_you_mean(base, [*built_in(), *every])
    raise InputError(f"no experiment or plugin is named {written(name)}", hint=hint)


def check_plugin(
    subject: str, testbed: Testbed, cases: Sequence[str] | None, *, as_json: bool
) -> None:
    """Run the cases and print each finding when it is known, or all as JSON. Raises FailedRun if
    `subject`, a file or a name, fails a case."""
    from netsim.conformance import each, failures

    def hung(finding: Finding) -> None:
        click.echo(_row(finding.case, finding.status, finding.detail))
        click.echo(f"error: {finding.detail}; remaining cases are skipped", err=True)
        end_now(FAILED)

    findings: list[Finding] = []
    with Steps():
        for finding in each(
            testbed,
            cases,
            starting=lambda case: click.echo(f"{case.name}: {case.about}", err=True),
            on_hang=hung,
        ):
            if not findings and not as_json:
                click.echo(_row("case", "result", "detail"))
            findings.append(finding)
            if not as_json:
                click.echo(_row(finding.case, finding.status, finding.detail))
    if as_json:
        rows = [asdict(finding) for finding in findings]
        print_json({"plugin": subject, "kind": testbed.KIND, "findings": rows})
    failed = failures(findings)
    if failed:
        raise FailedRun(f"{subject} fails {len(failed)} of {len(findings)} cases")


def _row(case: str, status: str, detail: str) -> str:
    """Format a row in aligned columns, wrapped on a terminal."""
    from netsim.conformance import CASES, STATUSES

    first = max(len(known.name) for cases in CASES.values() for known in cases)
    second = max(map(len, STATUSES))
    start = f"{case:{first}}  {status:{second}}  "
    if not sys.stdout.isatty():
        return start + " ".join(detail.split())
    width = max(shutil.get_terminal_size().columns, len(start) + MIN_DETAIL)
    indent = " " * len(start)
    return textwrap.fill(detail, width, initial_indent=start, subsequent_indent=indent)


def _plugin_seed(given: str | None) -> int:
    if given is None:
        return 1
    if not given.isdecimal() or int(given) >= 2**32:
        raise InputError(f"{written(given)} is not a seed", key="--seed", hint="0 to 4294967295")
    return int(given)


def check_experiment(
    experiment: str,
    *,
    overrides: tuple[str, ...],
    seed: str | None,
    ranks: int | None,
    budget: str,
    every: bool,
    as_json: bool,
) -> None:
    """Print an experiment in full, and its predicted cost."""
    from netsim.cli.tables import estimate_table
    from netsim.common.terminal import show
    from netsim.experiment.resolve_fabric import report_queue_sizes
    from netsim.results.files import plain
    from netsim.running.estimate import code_needed, require_memory
    from netsim.units import format_bytes

    loaded = load_experiment(experiment, overrides, seed)
    everything = loaded.points()
    budget_s = option_seconds(budget, "--budget")
    with Steps():
        points, estimates, skipped = predicted(everything, math.inf if every else BUILD_S, budget_s)

    def require_room() -> None:
        for point, one in zip(points, estimates, strict=True):
            if ranks is None:
                require_memory(one, what=point.file)

    if as_json:
        code = code_needed(points, [one.feature_set for one in estimates])
        print_json(
            {
                "seconds": seconds(estimates, code),
                "skipped": [point.name for point in skipped],
                "points": [
                    described(*both) | memory_of_ranks(both[1], ranks)
                    for both in zip(points, estimates, strict=True)
                ],
            }
        )
        require_room()
        return
    click.echo(json.dumps(plain(everything[0].resolved), indent=2, ensure_ascii=False))
    if len(everything) > 1:
        click.echo(f"\nThis is the first of {len(everything)} points. Axes:")
        for axis, values in loaded.axes.items():
            click.echo(f"  {axis} = {', '.join(str(value) for value in values)}")
    for line in report_queue_sizes(points):
        click.echo(line)
    for note in dict.fromkeys(note for one in estimates for note in one.notes):
        click.echo(note)
    for pfc in dict.fromkeys(one.pfc for one in estimates if one.pfc):
        click.echo(f"PFC: {pfc}")
    for note in dict.fromkeys(note for one in estimates for note in one.far):
        click.echo(f"Size: {note}")
    show(estimate_table([point.name for point in points], estimates))
    click.echo(total_line(estimates, code_needed(points, [one.feature_set for one in estimates])))
    for advice in estimates[0].advice:
        of_first = f" of {points[0].name}" if len(points) > 1 else ""
        click.echo(f"Sample{of_first}: {advice}")
    if skipped:
        names = listed([point.name for point in skipped], NAMED_POINTS)
        click.echo(
            f"Without {len(skipped)} of {len(everything)} points, which were not built after "
            f"{BUILD_S:.0f} s: {names} (--all builds them)"
        )
    for names, assumptions in assumed(points, estimates):
        click.echo(f"Assumed{names}: {assumptions}")
    largest = max(estimates, key=lambda one: one.memory_bytes)
    if of_ranks := memory_of_ranks(largest, ranks):
        first, other = (format_bytes(n_bytes, 3) for n_bytes in of_ranks["memory_of_ranks"])
        point = f", {points[estimates.index(largest)].name}" if len(points) > 1 else ""
        click.echo(
            f"With --mpi on {ranks:,} ranks{point}: about {first} on rank 0, "
            f"which gathers the result, and {other} on each other rank."
        )
    require_room()


def predicted(
    points: Sequence[Point], build_s: float, budget_s: float | None
) -> tuple[list[Point], list[Estimate], list[Point]]:
    """Return the points that could be built in that processor time, at least one, with their
    predictions, and the others."""
    from netsim.running.estimate import estimate_each

    found: dict[int, Estimate] = {}
    end = time.process_time() + build_s
    for point, one in estimate_each(points, budget_s):
        found[point.index] = one
        if time.process_time() > end:
            break
    built = [point for point in points if point.index in found]
    rest = [point for point in points if point.index not in found]
    return built, [found[point.index] for point in built], rest


def memory_of_ranks(estimate: Estimate, ranks: int | None) -> dict[str, tuple[int, int]]:
    """Return the memory of rank 0 and of each other rank, as an item of the prediction."""
    if ranks is None:
        return {}
    return {"memory_of_ranks": estimate.memory.of_ranks(ranks)}


def total_line(estimates: Sequence[Estimate], code: Code) -> str:
    """Return one line with the predicted time of all points and its parts."""
    running = sum(one.seconds for one in estimates)
    around = START_S + sum(one.setup_seconds for one in estimates)
    kinds = f"{code.needed} combination{'s' * (code.needed != 1)} of transport and fabric"
    missing = f"{code.missing} of {kinds} to compile" if code.missing else f"{kinds} to load"
    return (
        f"Total: about {format_duration(seconds(estimates, code))}: "
        f"{format_duration(running)} of simulation, {format_duration(code.seconds)} of code "
        f"({missing}), {format_duration(around)} to set up and write."
    )


def seconds(estimates: Sequence[Estimate], code: Code) -> float:
    """Return the predicted time of all points, start-up included."""
    return START_S + code.seconds + sum(one.seconds + one.setup_seconds for one in estimates)


PREDICTED = ("seconds", "setup_seconds", "memory_bytes")
"""Properties of `Estimate` that are printed along with its fields."""


def described(point: Point, estimate: Estimate) -> dict[str, Any]:
    """Return a point and its prediction as JSON."""
    figures = {field.name: getattr(estimate, field.name) for field in fields(estimate)}
    del figures["feature_set"], figures["memory"], figures["scenario"]
    figures |= {name: getattr(estimate, name) for name in PREDICTED}
    return {"point": point.name, "axes": point.axes, **figures, "experiment": point.resolved}


def assumed(points: Sequence[Point], estimates: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """Yield each assumption with its points, or "" if it holds for all."""
    names: dict[str, list[str]] = {}
    for point, one in zip(points, estimates, strict=True):
        names.setdefault(one.assumptions, []).append(point.name)
    for assumptions, these in names.items():
        more = len(these) - NAMED_POINTS
        text = "; ".join(these[:NAMED_POINTS]) + (f" and {more} more" if more > 0 else "")
        yield (f" for {text}" if len(names) > 1 else ""), assumptions


# --- netsim new -----------------------------------------------------------------------------------

NEXT = """\
Wrote {plugin}, {test} and {experiment}. Try them:

  netsim check {plugin}
  netsim run {experiment} --plot
  pytest {test}

Then change {plugin}; there is nothing to register. The test needs pytest (pip install pytest).
The guide is {page}: {guide}
"""

ABOVE_NETSIM = ("transport", "topology")  # kinds whose folder is next to netsim/ in the repository


@click.command("new")
@click.argument("kind", type=Name(FOLDERS, {plural: one for one, plural in FOLDERS.items()}))
@click.argument("name")
@click.option("--directory", type=click.Path(path_type=Path, file_okay=False, exists=True),
              default=".", help="Output directory (the current one).")  # fmt: skip
def new_command(kind: str, name: str, directory: Path) -> None:
    """Create NAME.py, a small working plugin, with its test and an experiment.

    KIND is transport, topology, traffic, queue or routing. Existing files are never overwritten.
    """
    paths = written_files(f"my_{kind}", name, directory)
    for path, text in paths.items():
        with writing_to(path):
            write_new(path, text)
    plugin, test, experiment = (os.path.relpath(path) for path in paths)
    folder = FOLDERS[kind]
    page = f"{'' if kind in ABOVE_NETSIM else 'netsim/'}{folder}/README.md"
    guide = files(f"netsim.{folder}") / "README.md"
    click.echo(
        NEXT.format(plugin=plugin, test=test, experiment=experiment, page=page, guide=guide),
        nl=False,
    )


def written_files(word: str, name: str, directory: Path) -> dict[Path, str]:
    """Return path and text of the template `word`, its test and its experiment, as `name`. Raises
    InputError if the name is invalid or taken, or a file exists."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or keyword.iskeyword(name):
        hint = f"letters, digits and underscores, such as {word}"
        raise InputError(f'invalid plugin name "{name}"', hint=hint)
    templates = files("netsim") / "conformance" / "templates"
    texts = {}
    for template in (f"{word}.py", f"test_{word}.py", f"{word}.toml"):
        text = (templates / template).read_text("utf-8")
        texts[directory / template.replace(word, name)] = text.replace(word, name)
    for path in texts:
        if os.path.lexists(path):
            raise InputError("already exists", file=str(path), hint="choose another name")
    if find_spec(name) is not None:
        raise InputError(
            f'"{name}" is an installed Python module',
            hint="the file would hide it: choose another name",
        )
    return texts
