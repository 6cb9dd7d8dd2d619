"""What a topology's file gives: the network that was asked for, and still whole."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from netsim.errors import InputError
from netsim.model.network import Network
from netsim.plugins.calls import call
from netsim.plugins.registry import PluginSpec
from netsim.units import shortened


def built(use: PluginSpec, function: str, *args: Any) -> Network:
    """The network that a function of a plugin gives.

    Raises InputError, with the plugin's file, if that fails or what it gives is no network.
    """
    made = call(use, function, *args)
    if not isinstance(made, Network):
        message = f"{function}() gives {shortened(repr(made))}"
        raise InputError(message, file=str(use.plugin.path), hint="a Network")
    require_whole(made, use, function)
    return made


def require_whole(network: Network, use: PluginSpec, function: str) -> None:
    """Raise InputError if a function of a plugin has left a network that is not whole."""
    if what := _missing(network):
        message = f"{function}() leaves a Network without {what}"
        hint = "what NetworkBuilder.build() gives, as it is"
        raise InputError(message, file=str(use.plugin.path), hint=hint)


def _missing(network: Network) -> str:
    """What is not there of a network, or is not what it was built as; "" if all is."""
    values = vars(network)
    for field in fields(Network):
        if field.name not in values:
            return f"its {field.name}"
        value, kind = values[field.name], str(field.type)
        of_kind = not kind.startswith("NDArray") or "None" in kind or isinstance(value, np.ndarray)
        if not of_kind or (kind == "int" and not isinstance(value, int)):
            return f"its {field.name}"
    if not 0 < network.n_hosts <= network.n_nodes == network.node_first_port.size - 1:
        return "its nodes"
    n_ports = network.port_node.size
    sizes = {one.size for one in (network.port_peer, network.port_rate_bps, network.port_delay_ps)}
    if sizes != {n_ports} or int(network.node_first_port[-1]) != n_ports:
        return "its ports"
    return ""
