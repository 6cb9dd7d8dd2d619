"""What a routing algorithm may do with packets, for the search for deadlocks."""

from __future__ import annotations

from netsim.engine.compiling.plugin_file import functions_of, plugin_parameters
from netsim.engine.compiling.routing_declarations import read_routing
from netsim.engine.kernels.routing_services import set_via
from netsim.model.deadlock import Choices
from netsim.plugins.registry import PluginSpec

AT_SOURCE = "at_source"


def choices_of(use: PluginSpec) -> Choices:
    """Return what a routing algorithm may do. One that can set vias at other switches than the
    first may do so at all."""
    routing = read_routing(use.module, plugin_parameters(use.plugin, use.params), use.plugin.name)
    later = [handler for name, handler in routing.handlers.items() if name != AT_SOURCE]
    return Choices(
        via=bool(routing.features["VIA"]), anywhere=set_via in functions_of(use.module, later)
    )
