"""The levels and detours that a routing algorithm may choose, for the search for deadlocks."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from netsim.engine.compiling.bindings import Bindings
from netsim.engine.compiling.declarations import (
    RoutingAlgorithm,
    functions_of,
    plugin_parameters,
    read_routing,
)
from netsim.engine.compiling.specialize import Specializer
from netsim.engine.division import WHOLE
from netsim.engine.kernels.fields import RouterRecord
from netsim.engine.kernels.handlers import RoutingEnv
from netsim.engine.kernels.routing import dimension_of, set_level, set_via
from netsim.engine.kernels.specialization_constants import UnboundConstantError
from netsim.engine.link_state import build_routing
from netsim.engine.simulation import Simulation
from netsim.engine.state import build_net
from netsim.errors import InputError
from netsim.model.columns import Ints
from netsim.model.deadlock import Choices
from netsim.model.fabric import Fabric, PacketFormat
from netsim.model.flows import FlowTable
from netsim.model.network import Network

AT_SOURCE, AT_SWITCH, ON_ROUTE = FOLLOWED = ("at_source", "at_switch", "on_route")
"""Handlers that may set levels, called for every packet that they concern."""


def choices_of(fabric: Fabric, network: Network) -> Choices:
    """Return the choices of a fabric's routing algorithm with PFC. One that can set vias after the
    first switch counts as doing so at any switch.

    Raises InputError if its levels cannot be followed before a run.
    """
    use = fabric.routing
    routing = read_routing(use.module, plugin_parameters(use.plugin, use.params), use.plugin.name)
    n_levels = int(getattr(use.module, "LEVELS", 1))
    later = [handler for name, handler in routing.handlers.items() if name != AT_SOURCE]
    return Choices(
        n_levels=n_levels,
        via=routing.via,
        anywhere=set_via in functions_of(use.module, later),
        next_level=_Levels(fabric, network, routing, n_levels).next if n_levels > 1 else None,
    )


def require_dimensions(fabric: Fabric, network: Network) -> None:
    """Raise InputError for a routing algorithm that looks at dimensions of cables (`dimension_of`)
    in a network where no cable joins two switches with hosts, so there are no dimensions."""
    if dimension_of not in vars(fabric.routing.module).values():
        return
    both = np.stack([np.arange(network.n_ports), network.port_peer])
    ends = network.port_node[both] - network.n_hosts
    if not np.isin(ends, network.edge_switch).all(axis=0).any():
        message = f'"{fabric.routing.name}" needs the dimensions of a direct network'
        hint = f"{network.name} has none: use another routing, or a topology such as torus"
        raise InputError(message, key="fabric.routing", hint=hint, code="conflict")


UNKNOWN = (AttributeError, TypeError, IndexError, ArithmeticError, UnboundConstantError)
"""Raised if a handler uses anything that a level must not depend on."""


class _Levels:
    """Calls the handlers that set levels, in plain Python, without anything that a level must not
    depend on: times, draws, state, bytes held, failed links, and fields of packets."""

    def __init__(
        self, fabric: Fabric, network: Network, routing: RoutingAlgorithm, n_levels: int
    ) -> None:
        self.network, self.n_levels = network, n_levels
        self.file = str(routing.module.__file__)
        constants = {"N_LEVELS": self.n_levels, "FAULTS": False, "TIME_SLOT_ROUTING": False}
        plain = Specializer(Bindings(constants, (routing.module,)), "levels", jit=False)
        self.handlers = {}
        for name, handler in routing.handlers.items():
            if set_level in functions_of(routing.module, [handler]):
                if name not in FOLLOWED:
                    raise self._wrong(name, "it may set levels, but is not called for all packets")
                self.handlers[name] = plain.inline(handler)
        none = np.zeros(0, np.int64)
        flows = FlowTable(none, none, none)
        simulation = Simulation(network, flows, fabric, PacketFormat(), uses=(), seed=0)
        self.net = build_net(simulation, routing)
        routers = build_routing(simulation, routing, WHOLE)["routers"]
        fields = [name for name in RouterRecord.__annotations__ if name not in ("salt", "ticks")]
        columns = [routers[name].tolist() for name in fields]
        self.routers: list[Any] = [
            SimpleNamespace(**dict(zip(fields, row, strict=True)))
            for row in zip(*columns, strict=True)
        ]
        from_host = (network.port_peer < network.n_host_ports).astype(int).tolist()
        ports = [SimpleNamespace(number=p, from_host=host) for p, host in enumerate(from_host)]
        self.links: Any = SimpleNamespace(routing_ports=ports, routers=self.routers)
        parameters = plugin_parameters(fabric.routing.plugin, fabric.routing.params)
        self.par: Any = SimpleNamespace(**parameters)

    def next(self, came_by: Ints, level: Ints, leaves_by: Ints, has_via: bool) -> Ints:
        """Return int64[n], the level of each packet on its next link (`Choices.next_level`). Raises
        InputError if a handler fails."""
        rows = zip(came_by.tolist(), level.tolist(), leaves_by.tolist(), strict=True)
        return np.array([self._next(*row, has_via) for row in rows], np.int64)

    def _next(self, came_by: int, level: int, leaves_by: int, has_via: bool) -> int:
        number = int(self.network.port_node[came_by]) - self.network.n_hosts
        home: Any = SimpleNamespace(number=number, handler=0, rule_broken=0)
        env = RoutingEnv(self.par, self.routers[number], home, self.links, self.net)
        port, out = (self.links.routing_ports[p] for p in (came_by, leaves_by))
        pkt = SimpleNamespace(prio=self.n_levels - 1 - level)
        for name, arguments in self._calls(port, out, pkt):
            pkt.via = int(has_via)
            try:
                self.handlers[name](env, None, *arguments)
            except UNKNOWN as error:
                raise self._wrong(name, str(error)) from None
            if home.rule_broken:
                raise self._wrong(name, "a service got a wrong argument")
        return self.n_levels - 1 - int(pkt.prio) % self.n_levels

    def _calls(self, port: Any, out: Any, pkt: Any) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Yield the handlers that are called for a packet, with their arguments after the time."""
        first = AT_SOURCE if port.from_host else AT_SWITCH
        if first in self.handlers:
            yield first, (port, pkt)
        if ON_ROUTE in self.handlers:
            yield ON_ROUTE, (port, out, pkt)

    def _wrong(self, handler: str, why: str) -> InputError:
        message = f"netsim cannot follow levels, to know whether PFC can deadlock: {why}"
        hint = (
            "set levels where nothing else is done, from both ports, the level before and whether "
            "the packet has a via"
        )
        return InputError(message, file=self.file, key=handler, hint=hint)
