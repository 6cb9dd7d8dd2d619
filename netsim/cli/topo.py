"""`netsim topo`: count the network that an experiment builds, price it, draw it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netsim.cli.options import experiment_options, json_option, load_experiment, print_json
from netsim.errors import InputError

if TYPE_CHECKING:
    from netsim.cli.topo_table import NetworkSummary
    from netsim.experiment import Point
    from netsim.inventory.failure import Failure
    from netsim.model.network import Network

FAIL = "--fail"


@click.command("topo")
@experiment_options
@click.option(
    "--prices",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A TOML file with prices that replace those of netsim, part by part.",
)
@click.option(
    FAIL,
    "failing",
    multiple=True,
    metavar="NAME",
    help="Show the impact of losing a link or a node, named as in [faults]: "
    '"spine0", "plane1.*", "leaf0 - spine*". May be given many times.',
)
@click.option("--plot", is_flag=True, help="Draw it as well.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File for the drawing; its ending chooses the format. EXPERIMENT_topology.png by default.",
)
@json_option
def command(
    experiment: str,
    overrides: tuple[str, ...],
    seed: str | None,
    prices: Path | None,
    failing: tuple[str, ...],
    plot: bool,
    out: Path | None,
    as_json: bool,
) -> None:
    """Count the network that EXPERIMENT builds: what it is made of, what it carries, what it costs.

    Of a sweep every distinct network is a column.

    \b
    netsim topo p2p_8192 --set 'topology.oversubscription=[1, 2, 4]'
    netsim topo p2p_512 --plot --fail spine0 --fail 'h3 - leaf0'
    """
    from netsim.inventory.prices import read_prices

    table_of_prices = read_prices(prices)
    loaded = load_experiment(experiment, overrides, seed)
    chosen = distinct(loaded.points())
    networks = networks_of(chosen)
    counted = [
        _counted(point, network, label, table_of_prices, failing)
        for (_, point), (label, network) in zip(chosen, networks, strict=True)
    ]
    if as_json:
        print_json([_plain(one) for one in counted])
    else:
        _show(counted)
    if plot or out is not None:
        from netsim.plots import save
        from netsim.plots.network_drawing import Panel, draw_networks

        panels = [Panel(label, network) for label, network in networks]
        path = save(draw_networks(panels), out or Path(f"{loaded.name}_topology.png"))
        click.echo(path, err=as_json)


def _show(counted: Sequence[NetworkSummary]) -> None:
    from netsim.cli.topo_table import notes, topo_table
    from netsim.terminal import show

    show(topo_table(counted))
    for note in notes(counted):
        click.echo(note)


def distinct(points: Sequence[Point]) -> list[tuple[str, Point]]:
    """The first point with each network, and what tells that one from the others."""
    from netsim.experiment.scenario import adapts

    first: dict[str, Point] = {}
    for point in points:
        said = [
            "topology",
            *(("traffic", "flow_classes", "seed") if adapts(point.topology) else ()),
        ]
        run_inputs = {section: point.resolved.get(section) for section in said}
        first.setdefault(json.dumps(run_inputs, sort_keys=True), point)
    chosen = list(first.values())
    told = {"topology"}
    if any(adapts(point.topology) for point in chosen):
        told |= {"traffic", "flow_classes", "seed"}
    return [(_name_among(point, told), point) for point in chosen]


def _name_among(point: Point, told: set[str]) -> str:
    """What a point has on the axes of the sections that are `told`."""
    axes = {axis: value for axis, value in point.axes.items() if axis.partition(".")[0] in told}
    return ", ".join(_told(*axis) for axis in axes.items()) or point.topology.name


def networks_of(chosen: Sequence[tuple[str, Point]]) -> list[tuple[str, Network]]:
    """The networks of points, each with what tells it from the others."""
    from netsim.experiment.scenario import network_of

    return [(label, network_of(point)) for label, point in chosen]


def _told(axis: str, value: Any) -> str:
    name = axis.rpartition(".")[2]
    return str(value) if name == "topology" else f"{name} {value}"


def _counted(
    point: Point, network: Network, label: str, prices: Any, failing: Sequence[str]
) -> NetworkSummary:
    from netsim.cli.topo_table import NetworkSummary
    from netsim.inventory.inventory import inventory
    from netsim.inventory.prices import bill

    found = inventory(network)
    failures = tuple(_failures(point, network, failing)) if failing else ()
    return NetworkSummary(label, found, bill(found, prices), failures)


def _failures(point: Point, network: Network, failing: Sequence[str]) -> Iterator[Failure]:
    from netsim.experiment.place_faults import ports_named
    from netsim.experiment.scenario import prepare
    from netsim.inventory.failure import failure

    port_pairs = prepare(point).port_pairs
    for name in failing:
        try:
            ports = ports_named(name, network)
        except InputError as error:
            raise error.at(file=point.file, key=FAIL) from None
        yield failure(network, name, ports, port_pairs)


def _plain(one: NetworkSummary) -> Any:
    from dataclasses import asdict

    from netsim.results.files import plain

    figures = {
        "label": one.label,
        **asdict(one.inventory),
        "bisection": one.inventory.bisection,
        "oversubscription": one.inventory.oversubscription,
        "diameter": one.inventory.diameter,
        "tiers": one.inventory.tiers,
        "bill": [asdict(row) for row in one.bill],
        "failures": [asdict(row) for row in one.failures],
    }
    return plain(_with_names(figures))


def _with_names(value: Any) -> Any:
    """Named tuples as tables, wherever they stand."""
    if hasattr(value, "_asdict"):
        return {key: _with_names(item) for key, item in value._asdict().items()}
    if isinstance(value, dict):
        return {key: _with_names(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_names(item) for item in value]
    return value
