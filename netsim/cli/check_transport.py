"""`netsim check-transport`: does a transport do what every transport has to?"""

from __future__ import annotations

from functools import partial

import click

from netsim.cli.findings import print_findings


@click.command("check-transport")
@click.argument("transport", metavar="NAME|FILE")
@click.option(
    "--set", "overrides", multiple=True, metavar="PARAM=VALUE", help="A parameter of the transport."
)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=1, help="Seed; 1 by default.")
@click.option("--case", "cases", multiple=True, help="Only this case; may be given several times.")
@click.option("--long", is_flag=True, help="Longer flows: minutes instead of seconds.")
def command(
    transport: str, overrides: tuple[str, ...], seed: int, cases: tuple[str, ...], long: bool
) -> None:
    """Try a transport on small networks: a name, or the path of a Python file.

    Every flow has to arrive: under loss, reordering and trimming too. The result must not depend
    on the number of threads, and handlers must keep to the state that they declare. Fairness and
    utilization are measured. The exit status is 1 if the transport fails a case.

    A row is printed as soon as its case is done. Ctrl-C stops at once.
    """
    from netsim.conformance import Testbed, each
    from netsim.experiment.document import Tree, apply_overrides

    given: Tree = {}
    apply_overrides(given, overrides)
    testbed = Testbed.of(transport, params=given, seed=seed, long=long)
    print_findings(transport, partial(each, testbed, cases or None))
