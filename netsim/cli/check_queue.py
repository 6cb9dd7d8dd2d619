"""`netsim check-queue`: does a queue discipline do what every one has to?"""

from __future__ import annotations

from functools import partial

import click

from netsim.cli.findings import print_findings


@click.command("check-queue")
@click.argument("queue", metavar="NAME|FILE")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="A key of [fabric].")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=1, help="Seed; 1 by default.")
@click.option("--case", "cases", multiple=True, help="Only this case; may be given several times.")
@click.option("--long", is_flag=True, help="Longer flows: minutes instead of seconds.")
def command(
    queue: str, overrides: tuple[str, ...], seed: int, cases: tuple[str, ...], long: bool
) -> None:
    """Try a queue discipline on small networks: a name, or the path of a Python file.

    Every packet that is sent has to arrive, to be dropped or to be cut, and to be counted. Nothing
    may wait for ever, no port be idle while packets wait, unless the discipline shapes, and packets
    of a flow stay in order, unless it takes them from elsewhere than the head. The result must not
    depend on the number of threads. The exit status is 1 if the discipline fails a case.

    A row is printed as soon as its case is done. Ctrl-C stops at once.
    """
    from netsim.conformance import QueueTestbed, each
    from netsim.experiment.document import Tree, apply_overrides

    given: Tree = {}
    apply_overrides(given, overrides)
    testbed = QueueTestbed.with_queue(queue, keys=given, seed=seed, long=long)
    print_findings(queue, partial(each, testbed, cases or None))
