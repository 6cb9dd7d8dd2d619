"""The [faults.NAME] sections: which links, and what goes wrong on them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from pydantic import ValidationError

from netsim.errors import CombinedInputError, InputError
from netsim.experiment.document import Tree
from netsim.experiment.model import FaultUse
from netsim.experiment.schema import LINK_PATTERN, FaultSection, problems
from netsim.limits import INT64
from netsim.model.faults import LinkFault, LinkFaults, combine
from netsim.model.network import Network
from netsim.units import format_time


def resolve_faults(table: Tree) -> tuple[FaultUse, ...]:
    """The faults of a [faults] table; `InputError`s with keys, without a file."""
    faults: list[FaultUse] = []
    errors: list[InputError] = []
    for name, fields in table.items():
        key = f"faults.{name}"
        try:
            faults.append(_fault(name, FaultSection.model_validate(fields)))
        except ValidationError as error:
            errors += problems(error, FaultSection, key)
        except InputError as error:
            errors.append(error.at(key=key))
    if errors:
        raise CombinedInputError(errors)
    return tuple(faults)


def describe_faults(faults: Sequence[FaultUse]) -> dict[str, Any]:
    """The [faults] table that says the same, every key written."""
    described: dict[str, Any] = {}
    for fault in faults:
        table: dict[str, Any] = {
            "links": fault.links,
            "loss": fault.loss,
            "bit_error_rate": fault.bit_error_rate,
        }
        for down, up in fault.outages_ps:
            table["down"] = format_time(down)
            table["up"] = "none" if up >= INT64 else format_time(up)
        described[fault.name] = table
    return described


def link_faults(faults: Iterable[FaultUse], network: Network) -> LinkFaults | None:
    """The faults of every link of a network, None if there are none.

    Raises InputError, without a file, if a section means no link.
    """
    found = [
        LinkFault(_ports(fault, network), fault.loss, fault.bit_error_rate, fault.outages_ps)
        for fault in faults
    ]
    return combine(found, network.n_ports) if found else None


def _fault(name: str, section: FaultSection) -> FaultUse:
    outages: tuple[tuple[int, int], ...] = ()
    if section.down is not None:
        outages = ((section.down, INT64 if section.up is None else section.up),)
        if section.up is not None and section.up <= section.down:
            raise InputError("the link comes up before it goes down", hint="down is before up")
    elif section.up is not None:
        raise InputError("the link comes up but never goes down", hint='such as down = "1ms"')
    if not outages and not section.model_fields_set & {"loss", "bit_error_rate"}:
        raise InputError("nothing goes wrong", hint="loss, bit_error_rate, or down and up")
    return FaultUse(name, section.links, section.loss, section.bit_error_rate, outages)


def _ports(fault: FaultUse, network: Network) -> np.ndarray:
    match = LINK_PATTERN.fullmatch(fault.links)
    assert match is not None
    if match["arrow"] is None:
        return np.arange(network.n_ports)
    names = [network.node_name(node) for node in range(network.n_nodes)]
    near, far = (
        np.array([fnmatchcase(name, match[end]) for name in names], bool) for end in ("a", "b")
    )
    node, neighbour = network.port_node, network.port_node[network.port_peer]
    chosen = near[node] & far[neighbour]
    if match["arrow"] == "-":
        chosen |= far[node] & near[neighbour]
    if not chosen.any():
        shown = ", ".join([*names[:1], *names[network.n_hosts : network.n_hosts + 1], names[-1]])
        raise InputError(
            f'"{fault.links}" matches no link of this network',
            key=f"faults.{fault.name}.links",
            hint=f"its nodes are named like {shown}",
        )
    return np.flatnonzero(chosen)
