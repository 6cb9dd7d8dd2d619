"""`netsim calibrate`: make a machine from measured collectives."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netsim.cli.options import json_option, print_json, set_option, show_lines
from netsim.common.terminal import Column, Wide, show
from netsim.errors import InputError
from netsim.units import format_time, parse_bytes

if TYPE_CHECKING:
    from netsim.workloads.job.calibration import Gap, Prediction, Summary

DRAWS = True

REDUCES = re.compile(r"\b(H100|H200|H800|H20|GH200|B200|B300|GB200|GB300)\b")
"""GPUs whose scale-up switches reduce (NVLS)."""


@click.command("calibrate")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--machine", default="h100_80gb", show_default=True, metavar="NAME",
              help="Machine with all other values: a preset or a file.")  # fmt: skip
@set_option("scale_out.rate=200Gbps", "value of that machine")
@click.option(
    "--shape",
    metavar="NODESxGPUS",
    help="Nodes and GPUs per node of files that do not list their ranks: 2x8.",
)
@click.option("--nodes-per-domain", type=click.IntRange(1, 10_000), default=1, show_default=True,
              help="Nodes of a scale-up network: 18 for 72 GPUs, 4 per node.")  # fmt: skip
@click.option(
    "--predict",
    nargs=2,
    metavar="NODESxGPUS SIZE",
    help="Predict one time, with the interval that left-out measurements give it.",
)
@click.option("--out", metavar="FILE", help="Write the machine to this TOML file.")
@click.option("--plot", metavar="FILE", help="Plot the errors of left-out sizes to this file.")
@json_option
def command(
    files: tuple[str, ...],
    machine: str,
    overrides: tuple[str, ...],
    shape: str | None,
    nodes_per_domain: int,
    predict: tuple[str, str] | None,
    **outputs: Any,
) -> None:
    """Make a machine from FILEs: collectives measured by nccl-tests or rccl-tests.

    FILEs are the text that the tests print, or their JSON, with any sizes, collectives and numbers
    of nodes. Prints the errors of the fit, and of held-out sizes and node counts.

    \b
    netsim calibrate all_reduce_2.txt all_reduce_8.txt --machine h100_80gb --out mine.toml
    netsim workload show llama3_405b --set machine=./mine.toml
    netsim calibrate all_reduce_2.txt all_reduce_8.txt --predict 16x8 1GB
    """
    from netsim.common.inputs import user_path
    from netsim.common.writing import write_text, writing_to
    from netsim.params import read_table
    from netsim.plots import save
    from netsim.workloads.job import calibration
    from netsim.workloads.job.machine import Machine
    from netsim.workloads.plots.jobs import calibration_errors

    here = Path.cwd()
    out, plot, as_json = outputs["out"], outputs["plot"], outputs["as_json"]
    given = calibration.parse_shape(shape) if shape else None
    base = _base(machine, here, overrides)
    link = read_table(Machine, base)
    found = [calibration.read_measured(user_path(name, here), given) for name in files]
    if sum(len(one.rows) for one in found) > calibration.MAX_ROWS:
        raise InputError(f"more than {calibration.MAX_ROWS:,} measurements", file=files[-1])
    rows = [_in_domains(row, nodes_per_domain) for one in found for row in one.rows]
    devices = " ".join(device for one in found for device in one.devices)
    reduces = link.scale_up.in_network_reduction or bool(REDUCES.search(devices))
    rates = calibration.Rates(link.scale_up.rate, link.scale_out.rate, reduces)
    left = calibration.left_out(rows, rates)
    fits = calibration.with_spreads(calibration.fitted(rows, rates), left)
    changes = list(calibration.gaps(rows))
    tables = list(calibration.summaries(rows, fits, rates, left)) if out or not predict else []
    if out:
        with writing_to(out):
            made = calibration.machine_toml(base, fits, found, tables, changes)
            write_text(user_path(out, here), made)
    if plot:
        save(calibration_errors(left.sizes), user_path(plot, here))
    if predict:
        asked = calibration.parse_shape(predict[0], "--predict"), parse_bytes(predict[1])
        at = _in_domains(calibration.Measurement("", *asked, 0.0), nodes_per_domain)
        told = list(calibration.predictions(fits, rates, at.shape, at.size_bytes))
        if not told:
            between = "between" if at.shape.nodes > 1 else "inside"
            message = f"no collective was measured {between} nodes"
            raise InputError(message, key="--predict", file=files[0])
        if as_json:
            print_json({"predictions": [_record(one) for one in told]})
        else:
            show_lines(_predicted(prediction, predict) for prediction in told)
    elif as_json:
        errors = [
            {**one.row._asdict(), "shape": list(one.row.shape), "error": one.error}
            for one in calibration.residuals(fits, rows, rates)
        ]
        print_json(
            {
                "summaries": [one._asdict() for one in tables],
                "changes": [one._asdict() | {"shape": list(one.shape)} for one in changes],
                "residuals": errors,
            }
        )
    else:
        show(_table(tables))
        if changes:
            show(_changes(changes))
        show_lines(
            f"{one.name}: left out {n} {why}"
            for one in found
            for why, n in sorted(one.left_out.items())
        )
        show_lines(f"wrote {name}" for name in (out, plot) if name)


def _record(one: Prediction) -> dict[str, Any]:
    """Return a prediction for JSON, in us."""
    found = one.estimate
    times = {
        f"{name}_us": ps if ps is None else ps / 1e6
        for name, ps in (("time", found.time_ps), ("low", found.low_ps), ("high", found.high_ps))
    }
    return {
        "what": one.what,
        **times,
        "left_out": found.spread.left_out if found.spread else "",
        "n_left_out": found.spread.times if found.spread else 0,
    }


def _predicted(one: Prediction, asked: tuple[str, str]) -> str:
    found = one.estimate
    text = f"{one.what} of {asked[1]} on {asked[0]}: {_duration(found.time_ps)}"
    if found.low_ps is None or found.high_ps is None or found.spread is None:
        return f"{text}, without an interval: no measurement left out of a fit is like it"
    which = f"{found.spread.times:,} left-out {found.spread.left_out.replace('_', ' ')}"
    ends = f"{_duration(found.low_ps)} to {_duration(found.high_ps)}"
    return f"{text}, 90 % interval {ends} ({which})"


def _duration(time_ps: float) -> str:
    return format_time(round(time_ps), 4)


def _base(name: str, directory: Path, overrides: Sequence[str]) -> dict[str, Any]:
    """Return the table of a machine, without any curves."""
    from netsim.common.inputs import locate, read_toml
    from netsim.workloads.job.load import changed, presets, read_preset
    from netsim.workloads.job.machine import Machine

    known = presets("machines")
    path = locate(name, directory, known, "machine")
    tree = read_preset(path, Machine) if path in known.values() else read_toml(path)
    tree = changed(tree, overrides)
    for link in ("scale_up", "scale_out"):
        if isinstance(tree.get(link), dict):
            tree[link].pop("measured", None)
    return tree


def _in_domains(row: Any, nodes_per_domain: int) -> Any:
    """Return a measurement whose nodes are scale-up domains of several nodes."""
    from netsim.workloads.job.machine import Shape

    nodes, per_node = row.shape
    together = min(nodes, nodes_per_domain)
    if nodes % together:
        message = f"{nodes} nodes do not fill scale-up networks of {together}"
        raise InputError(message, file=row.file, hint="--nodes-per-domain")
    return row._replace(shape=Shape(nodes // together, per_node * together))


def _table(found: Sequence[Summary]) -> Wide:
    from netsim.workloads.job.calibration import BANDS

    columns = [Column("errors", [one.name for one in found], left=True)]
    for k, (_, name) in enumerate(BANDS):
        bands = [one.bands[k] for one in found]
        columns.append(Column(f"{name}: times", [str(n) for n, _, _ in bands]))
        for label, which in (("median", 1), ("worst", 2)):
            cells = [f"{100 * one[which]:.1f} %" if one[0] else "-" for one in bands]
            columns.append(Column(label, cells))
    return Wide(columns)


def _changes(found: Sequence[Gap]) -> Wide:
    from netsim.workloads.job.calibration import CHANGE

    some = [(f"{a.what} on {a.shape.nodes} x {a.shape.per_node}", a.text) for a in found]
    lines = {name: ", ".join(text for of, text in some if of == name) for name, _ in some}
    columns = [
        Column("collective", list(lines), left=True),
        Column(f"{CHANGE} begins between", list(lines.values()), left=True),
    ]
    return Wide(columns)
