"""`netsim reproduce`: a figure of the paper, with what the paper states beside it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

if TYPE_CHECKING:
    from netsim.cli.wide import Wide

EXPERIMENT = "topologies"
FIGURES = ("fig4",)


class Stated(NamedTuple):
    """A topology as the paper describes it, and its counts there; None where it gives none."""

    name: str
    hosts: int
    radix: int
    tiers: int
    planes: int
    chips: float | None
    cables: float | None


STATED = (
    Stated("fat tree, 64 x 800G", 800_000, 64, 4, 1, 87_500, 2.4e6),
    Stated("4 planes, 256 x 200G", 800_000, 256, 3, 4, None, 2.4e6 * 2 / 3),
    Stated("76 rails of 4 planes", 800_000, 256, 2, 4, 39_000, 800e3),
)
"""Section 6.1 of "I've Got 99 Problems But FLOPS Ain't One" (HotNets 2024)."""


@click.command("reproduce")
@click.argument("figure", type=click.Choice(FIGURES))
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File to write; its ending chooses the format. FIGURE.png by default.",
)
def command(figure: str, out: Path | None) -> None:
    """Make FIGURE of "I've Got 99 Problems But FLOPS Ain't One" (HotNets 2024) again.

    \b
    fig4   candidate topologies: a fat tree, planes, rails with scale-up networks,
           drawn with 128 hosts each; their counts at 800,000 hosts beside the paper's
    """
    from netsim.cli.topo import distinct, networks_of
    from netsim.cli.wide import show
    from netsim.experiment import Experiment, built_in
    from netsim.plots import save
    from netsim.plots.network_drawing import Panel, draw_networks

    chosen = distinct(Experiment.load(built_in()[EXPERIMENT]).points())
    panels = [Panel(label, network) for label, network in networks_of(chosen)]
    path = save(draw_networks(panels), out or Path(f"{figure}.png"))
    show(counts_table())
    click.echo(
        "Chips are planes x (2 tiers - 1) x hosts / ports, cables between switches (tiers - 1) x "
        "hosts: one of 800 Gbps holds the links of all planes. 76 rails of the paper's 11,000 GPUs "
        "each are 836,000 hosts, which take 39,188 chips."
    )
    click.echo(f"netsim topo {EXPERIMENT} counts the networks that are drawn.")
    click.echo(path)


class Counts(NamedTuple):
    """Switch chips, and cables between switches, one of which holds the links of all planes."""

    chips: float
    cables: float


def counts(stated: Stated) -> Counts:
    """Those of a network by formula.

    Rails only part the hosts among trees of fewer tiers: all of them together have as many chips
    and cables as one tree of those tiers would.
    """
    from netsim.model.clos import fabric_cables_needed, switches_needed

    chips = stated.planes * switches_needed(stated.hosts, stated.tiers, stated.radix)
    return Counts(float(chips), fabric_cables_needed(stated.hosts, stated.tiers))


def counts_table() -> Wide:
    """Chips and cables of the paper's networks by formula, beside what it states."""
    from netsim.cli.wide import Column, Wide

    ours = [counts(one) for one in STATED]
    columns = [
        Column("800,000 hosts", [one.name for one in STATED], left=True),
        Column("tiers", [str(one.tiers) for one in STATED]),
    ]
    for name in ("chips", "cables"):
        mine = [getattr(one, name) for one in ours]
        paper = [getattr(one, name) for one in STATED]
        columns.append(Column(name, [f"{value:,.0f}" for value in mine]))
        columns.append(
            Column("paper", ["-" if value is None else f"{value:,.0f}" for value in paper])
        )
        columns.append(
            Column(
                "difference",
                [
                    "-" if there is None else f"{100 * (here / there - 1):+.1f} %"
                    for here, there in zip(mine, paper, strict=True)
                ],
            )
        )
    return Wide(columns)
