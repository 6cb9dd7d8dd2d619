"""Build a point's network, flows, fabric, faults and sampled series.

`far_sizes` finds sizes that are far from the bandwidth-delay product of the network.

A transport's `FABRIC` states queue sizes in bandwidth-delay products, and a window parameter states
its default in them (`Param.products`). An experiment or a preset may set bytes or packets that suit
another rate. With queues of a quarter or eight times the default, completion times of NDP, RoCE,
NSCC, RCCC and SMaRTT are 4 to 9 % worse; further away they may double. Published ECN thresholds
differ more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from types import ModuleType
from typing import Any, TypeVar

import numpy as np

from netsim.engine.routing_choices import choices_of, require_dimensions
from netsim.errors import InputError, did_you_mean, errors_at
from netsim.experiment.document import LABELED_SECTIONS
from netsim.experiment.place_faults import link_faults, ports_named, queue_rates
from netsim.experiment.resolve_fabric import fabric_defaults, size_values, wrong_sizes
from netsim.experiment.schema import LINK_PATTERN, FlowClass, OutputsSection, Point
from netsim.frozen import frozen
from netsim.limits import CLASSES, TIMEOUT_PS, slowest_rate_bps
from netsim.model import checks
from netsim.model.builder import built, with_tables
from netsim.model.checks import check_symmetric
from netsim.model.circuit_times import check_control, check_phases, check_rules
from netsim.model.columns import numbers_of
from netsim.model.deadlock import Cycle, pfc_text, waiting_cycle
from netsim.model.demand import demand_of
from netsim.model.fabric import (
    Fabric,
    PacketFormat,
    PortSizes,
    base_round_trips,
    port_sizes,
    routing_spec,
    settle_sizes,
    sizes_differ,
)
from netsim.model.faults import LinkFaults
from netsim.model.flows import FlowTable, TrafficContext
from netsim.model.ideal import IdealTimes, ideal_times, message_times, round_trips
from netsim.model.inventory import shares_of_networks
from netsim.model.network import Network
from netsim.model.paths import Legs
from netsim.model.patterns import PATTERN_PARAMS, PATTERNS, UNIFORM, Destinations, destinations
from netsim.model.port_pairs import PortPairs, pairs_used
from netsim.model.relays import PARAM, RelaySegments, relayed, striped
from netsim.model.sampling import Sampling
from netsim.model.traffic import TRAFFIC_STREAM, traffic_rng, workload_of
from netsim.model.workload import TaskTable, Workload
from netsim.plugins import registry
from netsim.plugins.registry import PluginSpec, call, legs_of
from netsim.units import (
    Bdp,
    format_bytes,
    format_number,
    format_rate,
    format_time,
    parse_port_size,
    written,
)

QUEUES, THRESHOLDS = (0.25, 8.0), (1 / 16, 16.0)
"""Range around the transport's defaults, for queues and windows, and for ECN."""


def far_sizes(point: Point, network: Network) -> Iterator[str]:
    """Yield a sentence for each size that is far from the transport's default, which is a
    bandwidth-delay product of the longest path at the rate of the fastest host."""
    given = list(_given(point))
    if not given or network.circuits is not None:  # packets wait for circuits longer than a path
        return
    hosts = network.n_host_ports
    port = int(network.port_rate_bps[:hosts].argmax())
    rate_bps = int(network.port_rate_bps[port])
    trip_ps = int(base_round_trips(network, point.packets)[network.port_network[port]])
    where = f"{format_rate(rate_bps)} and a base round trip of {format_time(trip_ps, 4)}"
    for key, size_bytes, default, fix in given:
        expected = default.at(rate_bps, trip_ps)
        least, most = THRESHOLDS if ".ecn." in key else QUEUES
        if expected and not least <= size_bytes / expected <= most:
            yield (
                f"{key} = {format_bytes(size_bytes)} is "
                f"{format_number(size_bytes / expected, 2)} times {point.transport.plugin.name}'s, "
                f"{format_bytes(expected, 4)} at {where}; {fix}"
            )


def _given(point: Point) -> Iterator[tuple[str, int, Bdp, str]]:
    """Yield key, bytes, default and remedy of each size that is not a bandwidth-delay product."""
    packet_bytes = point.packets.data_bytes
    defaults = dict(fabric_defaults(point.transport.module, None))
    defaults |= {f"ecn.{name}": value for name, value in defaults.pop("ecn", {}).items()}
    for name, value in size_values(point.fabric).items():
        usual = None if name == "header_queue_bytes" else defaults.get(name)  # for incasts only
        if isinstance(usual, str) and "bdp" in usual and isinstance(value, int):
            default = parse_port_size(usual, packet_bytes)
            assert isinstance(default, Bdp)
            yield f"fabric.{name}", value, default, f'write {name} = "{usual}"'
    for use in point.transport_of_class:
        for param in use.plugin.params:
            value = use.params[param.name]
            if param.products is None or not value:
                continue
            default = parse_port_size(param.products, packet_bytes)
            assert isinstance(default, Bdp)
            size_bytes = value * packet_bytes if param.unit == "count" else value
            auto = param.format(param.convert(param.default))
            yield f"transport.{param.name}", size_bytes, default, f"write {param.name} = {auto}"


ENGINE_FIELDS = {"tx": ("sent_packets", "retransmits"), "rx": ("received_bytes",)}
"""State that the engine keeps for every transport."""

_PORT = re.compile("[0-9]{1,10}")

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Chosen = int | tuple[Any, ...]


def sampling_of(
    outputs: OutputsSection, network: Network, flows: FlowTable, transports: Sequence[ModuleType]
) -> Sampling | None:
    """Return the samples of a run. Raises InputError, without a file, for unknown names."""
    if not outputs.samples:
        return None
    fields = tuple(_field(name, transports) for name in outputs.fields)
    interval_ps, none = outputs.sample_interval, np.zeros(0, np.int64)
    chosen = (none, none, none)
    if interval_ps is not None:
        chosen = (
            _ports(outputs.ports, network),
            _hosts(outputs.hosts, network),
            _flows(outputs.flows, len(flows)),
        )
    return Sampling(
        network.lookahead_ps if isinstance(interval_ps, str) else interval_ps,
        *chosen,
        fields,
        outputs.sample_budget,
        outputs.queue_stats,
    )


def _spread(count: int, among: Numbers) -> Numbers:
    """Return `count` evenly spaced numbers, or all if there are no more."""
    if count >= among.size:
        return among
    return among[np.arange(count) * among.size // max(1, count)]


def _ports(chosen: Chosen, network: Network) -> Numbers:
    switches = np.arange(int(network.node_first_port[network.n_hosts]), network.n_ports)
    if isinstance(chosen, int):
        return _spread(chosen, switches)
    names = [network.node_name(node) for node in range(network.n_nodes)]
    found = [_ports_named(text, names, network) for text in chosen]
    return np.unique(np.concatenate([np.zeros(0, np.int64), *found])).astype(np.int64)


def _ports_named(text: str, names: list[str], network: Network) -> Numbers:
    """Return the ports of "A -> B", "A - B" (both ways), "all", "A:3", "A:*", or "A" (all)."""
    if LINK_PATTERN.fullmatch(text):
        with errors_at(key="outputs.ports"):
            return ports_named(text, network)
    name, _, local = text.strip().partition(":")
    node = network.port_node
    chosen = np.array([fnmatchcase(one, name) for one in names], bool)[node]
    if local not in ("", "*"):
        number = np.arange(network.n_ports) - network.node_first_port[node]
        chosen &= number == (int(local) if _PORT.fullmatch(local) else -1)
    if not chosen.any():
        raise _no_match("ports", text, names, network)
    return np.flatnonzero(chosen)


def _hosts(chosen: Chosen, network: Network) -> Numbers:
    if isinstance(chosen, int):
        return _spread(chosen, np.arange(network.n_hosts))
    names = [network.node_name(host) for host in range(network.n_hosts)]
    found: set[int] = set()
    for text in chosen:
        these = [host for host, name in enumerate(names) if fnmatchcase(name, text)]
        if not these:
            raise _no_match("hosts", text, names, network)
        found.update(these)
    return np.array(sorted(found), np.int64)


def _no_match(key: str, text: str, names: list[str], network: Network) -> InputError:
    switch = names[network.n_hosts : network.n_hosts + 1]
    hint = f"names are like {', '.join([*names[:1], *switch, names[-1]])}"
    message = f"{written(text)} matches no {key} of this network"
    return InputError(message, key=f"outputs.{key}", hint=hint)


def _flows(chosen: Chosen, n_flows: int) -> Numbers:
    if isinstance(chosen, int):
        return _spread(chosen, np.arange(n_flows))
    with errors_at(key="outputs.flows"):
        return np.unique(numbers_of(chosen, n_flows, "flows"))


def _field(name: str, transports: Iterable[ModuleType]) -> str:
    """Return a field of flow state with its side, such as "tx.cwnd"."""
    known: dict[str, str] = {}
    arrays: dict[str, int] = {}
    kinds: dict[str, set[object]] = {}
    for side, what in (("rx", "RX_STATE"), ("tx", "TX_STATE")):
        own = [field for module in transports for field in getattr(module, what, ())]
        for field in (*ENGINE_FIELDS[side], *own):
            plain, kind = (field, None) if isinstance(field, str) else field
            kinds.setdefault(f"{side}.{plain}", set()).add(kind)
            if isinstance(kind, int):
                arrays[plain] = arrays[f"{side}.{plain}"] = kind
            else:
                known[plain] = known[f"{side}.{plain}"] = f"{side}.{plain}"
    if name in arrays:
        message = f"{name} is an array of {arrays[name]} numbers"
        raise InputError(message, key="outputs.fields", hint="use scalar fields")
    if name not in known:
        hint = did_you_mean(name, sorted(one for one in known if "." not in one))
        raise InputError(f"unknown state field {written(name)}", key="outputs.fields", hint=hint)
    if len(kinds[known[name]]) > 1:
        message = f"{name} has different types in the transports of this run"
        raise InputError(message, key="outputs.fields", hint="use a field of one of them")
    return known[name]


T = TypeVar("T")

SEARCHED_PORTS = 10_000  # most ports for which a routing algorithm's deadlocks are searched


@frozen
class Scenario:
    """Everything that a point simulates. `fabric` has its final headroom; `port_pairs` are the port
    pairs in use.

    If messages have several flows, `segments` maps flows to messages and `alone` has the messages'
    ideal times. `sizes` are sizes of the fabric that differ between ports.
    """

    network: Network
    load: Workload
    port_pairs: PortPairs
    fabric: Fabric
    faults: LinkFaults | None
    ideal: IdealTimes
    class_of_flow: np.ndarray  # int64[n_flows]: 0, or 1 + the index of its flow class
    sampling: Sampling | None = None
    segments: RelaySegments | None = None
    alone: IdealTimes | None = None
    sizes: PortSizes | None = None
    pfc: str | None = None  # effects of PFC on the network (`pfc_text`); None without PFC
    far: tuple[str, ...] = ()  # sentences about sizes that do not suit the network (`far_sizes`)

    @property
    def flows(self) -> FlowTable:
        """The simulated flows."""
        return self.load.flows

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Notes on network and traffic for messages (`Network.note`, `Workload.notes`)."""
        network = self.network.note
        notes = [f"Network: {network}"] if network else []
        notes += [f"Traffic: {note}" for note in self.load.notes]
        if self.load.program is not None:
            return tuple(notes)  # the program decides how much is sent
        shares = [
            f"{share:.1%} {name}"
            for name, share in shares_of_networks(self.network, self.flows, self.port_pairs)
        ]
        return (*notes, *(["Traffic: bytes by network: " + ", ".join(shares)] if shares else []))

    @property
    def messages(self) -> FlowTable:
        """The flows of the traffic, before they are cut into relay segments."""
        return self.flows if self.segments is None else self.segments.flows

    @property
    def tasks(self) -> TaskTable | None:
        """The tasks of the traffic, before messages are cut into relay segments."""
        return self.load.tasks if self.segments is None else self.segments.tasks


def network_of(point: Point) -> Network:
    """Build only the network. Raises InputError with the experiment's file."""
    try:
        network = _network(point)
        if not adapts(point.topology):
            return network
        load, _ = _load(point, network)
        return _adapt(point, network, load)
    except InputError as error:
        raise _located(error, point) from None
    except MemoryError as error:
        raise _memory_error("the network", error, point) from None


def adapts(topology: PluginSpec) -> bool:
    """Return whether a topology with these parameters depends on the traffic."""
    if not hasattr(topology.module, "adapt"):
        return False
    return not hasattr(topology.module, "adapts") or bool(call(topology, "adapts", topology.params))


@dataclass
class Built:
    """The last network and traffic built, for points that share them."""

    key: str = ""
    network: Network | None = None
    load: Workload | None = None
    class_of_flow: np.ndarray | None = None


def key_of(point: Point) -> str:
    """Return the values that a point's network and traffic depend on."""
    names = ("topology", "traffic", "flow_classes", "packets", "seed", "measure")
    tables = [point.resolved.get(name) for name in names]
    routing = point.fabric.routing
    if hasattr(routing.module, "tables") or getattr(routing.module, "WEIGHTED", False):
        tables += [str(routing.plugin.path), dict(routing.params)]
    return repr([*tables, str(point.directory)])


def _built(point: Point, last: Built) -> tuple[Network, Workload, np.ndarray]:
    """Return the network and traffic of a point; reuse the last point's if they are equal."""
    key = key_of(point)
    n_classes = point.fabric.n_traffic_classes
    if key != last.key or last.load is None or last.load.flows.cls.max(initial=0) >= n_classes:
        last.key, last.network, last.load = "", None, None
        network = _network(point)
        checks.check_links(network, point.packets, point.fabric, point.topology.params)
        load, class_of_flow = _load(point, network)
        if adapts(point.topology):
            network = _adapt(point, network, load)
        last.key, last.network, last.load, last.class_of_flow = key, network, load, class_of_flow
    assert last.network is not None
    assert last.class_of_flow is not None
    checks.check_links(last.network, point.packets, point.fabric, point.topology.params)
    return last.network, last.load, last.class_of_flow


def prepare(point: Point, last: Built | None = None) -> Scenario:
    """Build the scenario of a point; reuse the `last` point's network and traffic if they are
    equal. Raises InputError with the experiment's file."""
    try:
        built = _network_and_traffic(point, last or Built())
        sent = _sent_flows(point, built)
        placed = _placed(point, built.network, sent)
    except InputError as error:
        raise _located(error, point) from None
    except MemoryError as error:
        raise _memory_error("the network or its traffic", error, point) from None
    return _scenario(point, built.network, sent, placed)


@frozen
class NetworkAndTraffic:
    """First stage: the network, the messages of the traffic, and the flow class of each."""

    network: Network
    load: Workload
    class_of_message: np.ndarray


def _network_and_traffic(point: Point, last: Built) -> NetworkAndTraffic:
    _check_transports(point)
    network, load, classes = _built(point, last)
    if load.flows.dst.max(initial=-1) >= network.n_hosts:  # reduction units
        network = _with_units(load, network)
        checks.check_links(network, point.packets, point.fabric, point.topology.params)
    check_rules(network, point.fabric.circuits, point.packets)
    check_control(network, point.fabric.circuits, point.packets)
    if point.fabric.symmetric:
        check_symmetric(network, point.fabric.plane_balancing)
    if load.tasks is not None and is_closed_form(point):
        message = f"{point.transport.name} is not simulated, but tasks need a simulation"
        raise InputError(message, key="transport")
    if point.measure is not None and is_closed_form(point):
        message = f"{point.transport.name} is not simulated"
        raise InputError(message, key="measure", hint="remove [measure]")
    return NetworkAndTraffic(network, load, classes)


@frozen
class SentFlows:
    """Second stage: messages cut at relays, then divided among queue pairs.

    `segments` maps flows to messages, None if each message is a flow. `messages` are the flows and
    segments before the division.
    """

    load: Workload
    segments: RelaySegments | None
    class_of_flow: np.ndarray
    messages: tuple[FlowTable, RelaySegments | None]


def _sent_flows(point: Point, built: NetworkAndTraffic) -> SentFlows:
    load, segments = built.load, None
    if built.network.relays is not None:
        load, segments = relayed(load, built.network.relays)
    classes = _class_of_flow(built, segments)
    silent = [is_one_way(use) for use in point.transport_of_class]
    load.flows.need_no_answers(np.array(silent)[classes])
    messages = load.flows, segments
    queue_pairs = [use.params.get(PARAM, 1) for use in point.transport_of_class]
    each = np.array(queue_pairs, np.int64)[classes]
    load, segments = striped(load, segments, each, point.packets.payload_bytes)
    return SentFlows(load, segments, _class_of_flow(built, segments), messages)


def _class_of_flow(built: NetworkAndTraffic, segments: RelaySegments | None) -> np.ndarray:
    classes = built.class_of_message
    return classes if segments is None else classes[segments.message]


@frozen
class Placed:
    """Third stage: everything that depends on both network and flows. Fields as in `Scenario`."""

    port_pairs: PortPairs
    faults: LinkFaults | None
    fabric: Fabric
    sizes: PortSizes | None
    pfc: str | None
    sampling: Sampling | None


def _placed(point: Point, network: Network, sent: SentFlows) -> Placed:
    flows = sent.load.flows
    port_pairs = pairs_used(network, flows, point.fabric.plane_balancing, point.seed)
    check_phases(network, flows, port_pairs)
    checks.check_sizes(flows, point.packets, "traffic")
    checks.check_durations(network, flows, point.packets, "traffic")
    faults = link_faults(point, network)
    require_dimensions(point.fabric, network)
    fabric, sizes = _final_fabric(point, network, faults)
    pfc = _pfc(point, network, faults)
    _check_timeouts(point, network, port_pairs, sent.class_of_flow)
    modules = [use.module for use in point.transport_of_class]
    sampling = sampling_of(point.outputs, network, flows, modules)
    return Placed(port_pairs, faults, fabric, sizes, pfc, sampling)


def _scenario(point: Point, network: Network, sent: SentFlows, placed: Placed) -> Scenario:
    """Last stage: add the ideal times."""
    flows, segments = sent.load.flows, sent.segments
    multipath, port_pairs = not placed.fabric.one_path, placed.port_pairs
    ideal = ideal_times(network, flows, point.packets, multipath=multipath, port_pairs=port_pairs)
    message_ideal = None
    if segments is not None:
        # Queue pairs may use several paths and planes.
        alone = ideal if segments is sent.messages[1] else None
        message_ideal = message_times(network, *sent.messages, point.packets, port_pairs, alone)
    return Scenario(
        network,
        sent.load,
        port_pairs,
        placed.fabric,
        placed.faults,
        ideal,
        sent.class_of_flow,
        placed.sampling,
        segments=segments,
        alone=message_ideal,
        sizes=placed.sizes,
        pfc=placed.pfc,
        far=tuple(far_sizes(point, network)),
    )


def is_one_way(use: PluginSpec) -> bool:
    """Return whether a transport has no control packets in either direction."""
    handlers = ("on_control", "on_request", "on_trimmed")
    listens = any(hasattr(use.module, name) for name in handlers)
    return getattr(use.module, "CONTROL_PER_DATA", 1) == 0 and not listens


def _network(point: Point) -> Network:
    network = built(point.topology, "build", point.topology.params)
    return with_tables(network, point.fabric.routing)


def _load(point: Point, network: Network) -> tuple[Workload, np.ndarray]:
    """Return all flows of a point, and the class of each, as in `Scenario`."""
    context = TrafficContext(
        directory=point.directory,
        seed=point.seed,
        host_rate_bps=network.host_rate_bps,
        payload_bytes=point.packets.payload_bytes,
        header_bytes=point.packets.header_bytes,
        n_traffic_classes=point.fabric.n_traffic_classes,
        end_ps=None if point.measure is None else point.measure.end_ps,
        has_faults=any(not fault.is_constant(point.routing) for fault in point.faults.values()),
    )
    uses = [(0, "traffic", point.traffic)]
    for number, one in enumerate(point.classes, 1):
        if one.traffic is not None:
            uses.append((number, f"flow_classes.{one.name}.traffic", one.traffic))
    loads = [
        workload_of(use, network, context, TRAFFIC_STREAM + number, key)
        for number, key, use in uses
    ]
    class_of_flow = np.repeat(
        np.array([number for number, _, _ in uses]), [len(one.flows) for one in loads]
    )
    own = loads[0].flows
    class_of_flow[: len(own)] = class_of_kinds(own, point.classes)
    return Workload.join(loads), class_of_flow


def class_of_kinds(flows: FlowTable, classes: Sequence[FlowClass]) -> np.ndarray:
    """Return int64[n]: the class whose `kinds` include each main flow's kind, or 0."""
    kind, kinds = flows.named_kinds()
    there = [kinds[k] for k in np.unique(kind)]
    of_kind = np.zeros(len(kinds), np.int64)
    for number, one in enumerate(classes, 1):
        for name in one.kinds:
            if name not in there:
                named = ", ".join(filter(None, there))
                hint = f"one of {named}" if named else "this traffic has no kinds"
                key = f"flow_classes.{one.name}.kinds"
                message = f"unknown kind of flows {written(name)}"
                raise InputError(message, key=key, hint=hint)
            of_kind[kinds.index(name)] = number
    return of_kind[kind]


def _adapt(point: Point, network: Network, load: Workload) -> Network:
    """Return the network that the topology adapts to the traffic."""
    demand = demand_of(network, load, point.packets, point.seed)
    use = point.topology
    made = built(use, "adapt", use.params, network, demand)
    before, after = (one.port_rate_bps[: one.n_host_ports] for one in (network, made))
    if not np.array_equal(before, after):
        message = "adapt() must keep the hosts and host ports of build()"
        raise InputError(message, file=str(use.plugin.path))
    return with_tables(made, point.fabric.routing)


def _with_units(load: Workload, network: Network) -> Network:
    """Return the network with its reduction units as hosts."""
    if load.program is not None:
        message = f"program {load.program.name} conflicts with in-network reduction"
        raise InputError(message, hint="use one of them, or another algorithm")
    assert network.reduction is not None
    return network.reduction.network


def _memory_error(what: str, error: MemoryError, point: Point) -> InputError:
    hint = str(error) or "use fewer hosts, switches or flows"
    return InputError(f"{what} does not fit into memory", file=point.file, hint=hint)


def _final_fabric(
    point: Point, network: Network, faults: LinkFaults | None
) -> tuple[Fabric, PortSizes | None]:
    """Return the fabric with its final sizes, and those sizes if they differ between ports. Raises
    InputError, without a file, for sizes that conflict at some ports."""
    fastest = network
    if faults is not None:
        fastest = replace(network, port_rate_bps=faults.fastest_bps(network))
    settled = point.fabric.for_network(fastest, point.packets)
    own = queue_rates(point, network), _port_queues(point, network)
    if sizes_differ(settled, network):
        sizes = port_sizes(settled, network, point.packets, *own)
        kinds = zip(sizes.fabrics, sizes.rate_bps, sizes.round_trip_ps, strict=True)
        for fabric, rate_bps, round_trip_ps in kinds:
            where = f"at {format_rate(rate_bps)} and a base round trip of"
            for error in wrong_sizes(fabric, point.packets):
                raise error.with_suffix(f"{where} {format_time(round_trip_ps, 5)}")
    return settle_sizes(settled, network, point.packets, *own)


def _port_queues(point: Point, network: Network) -> list[tuple[Numbers, int | Bdp]]:
    """Return the ports with separate queues, and their sizes."""
    queues = []
    for pattern, size in point.fabric.port_queue_bytes or ():
        try:
            ports = _ports((pattern,), network)
        except InputError as error:
            raise error.replace(key=f'fabric.port_queue_bytes."{pattern}"') from None
        if ports.max() < network.n_host_ports:
            message = "matches only ports of hosts, which have no queues"
            raise InputError(message, key=f'fabric.port_queue_bytes."{pattern}"')
        queues.append((ports, size))
    return queues


def _pfc(point: Point, network: Network, faults: LinkFaults | None) -> str | None:
    """Return `Scenario.pfc`. Raises InputError if PFC can deadlock and that is not allowed."""
    if not point.fabric.pauses or network.circuits is not None or is_closed_form(point):
        return None  # the engine refuses PFC over circuits
    cycle = _cycle(point, network, faults)
    found = pfc_text(network, cycle)
    if cycle.ports.size and not point.fabric.allow_deadlock:
        levels = " or ".join(f'"{name}"' for name in _levels_that_help(point, network))
        name = point.fabric.stops_by
        ways = f"a queue_discipline without {name}" + (f", routing = {levels}" if levels else "")
        hint = f"use {ways}, or allow_deadlock = true to run it anyway"
        raise InputError(f"{name} {found}", key="fabric.queue_discipline", hint=hint)
    if not cycle.ports.size and faults is not None and faults.routes and faults.routes.n_changes:
        found += ", except for packets under way when routes change"
    return found


def _cycle(point: Point, network: Network, faults: LinkFaults | None) -> Cycle:
    routes = None if faults is None else faults.routes
    return waiting_cycle(network, routes, choices_of(point.fabric, network))


def _levels_that_help(point: Point, network: Network) -> Iterator[str]:
    """Yield the routing algorithms whose levels keep PFC from deadlocking the network."""
    for plugin in registry.plugins("routing") if network.n_ports <= SEARCHED_PORTS else ():
        other = replace(point, fabric=replace(point.fabric, routing=routing_spec(plugin.name)))
        if other.fabric.n_levels > 1 and other.fabric.n_link_classes <= CLASSES:
            made = _network(other)
            if not _cycle(other, made, link_faults(other, made)).ports.size:
                yield plugin.name


def _located(error: InputError, point: Point) -> InputError:
    """Return an error with the experiment's file and the labels of its tables on axes."""
    for axis in ("topology", *LABELED_SECTIONS):
        if axis in point.axes:
            error = error.with_suffix(f"with {axis} {written(point.axes[axis])}")
    return error.at(file=point.file)


def _check_transports(point: Point) -> None:
    """Check parameter bounds, and that no closed-form transport is mixed with others."""
    uses = _transport_keys(point)
    for key, use in uses:
        if len(uses) > 1 and getattr(use.module, "CLOSED_FORM", False):
            message = f"{use.name} is not simulated and cannot be mixed with other transports"
            raise InputError(message, key=key, hint="use a separate experiment")
        _check_parameters(use, key, point.packets)


def _transport_keys(point: Point) -> list[tuple[str, PluginSpec]]:
    """Return the section key and the transport of each class."""
    keys = ["transport", *(f"flow_classes.{one.name}.transport" for one in point.classes)]
    return list(zip(keys, point.transport_of_class, strict=True))


def _check_timeouts(
    point: Point, network: Network, port_pairs: PortPairs, classes: np.ndarray
) -> None:
    """Raise InputError for timeouts shorter than the round trip."""
    given = [
        (number, f"{key}.{param.name}", use.params[param.name])
        for number, (key, use) in enumerate(_transport_keys(point))
        for param in use.plugin.params
        if param.above_round_trip and use.params[param.name] is not None
    ]
    if not given:
        return
    round_trip_ps = round_trips(network, port_pairs, point.packets)
    for number, key, timeout_ps in given:
        own = np.flatnonzero(classes == number)
        longest = own[round_trip_ps[own].argsort(kind="stable")[-1:]]
        for flow in longest[round_trip_ps[longest] > timeout_ps].tolist():
            raise InputError(
                f"{format_time(timeout_ps)} is less than the round trip of flow {flow} on empty "
                f"links, {format_time(int(round_trip_ps[flow]), 4)}",
                key=key,
                hint="increase it, or use none, which fits every path",
            )


def _check_parameters(use: PluginSpec, key: str, packets: PacketFormat) -> None:
    """Raise InputError for parameters that would overflow a transport's arithmetic."""
    slowest = slowest_rate_bps(packets.data_bytes)
    for param in use.plugin.params:
        value = use.params[param.name]
        if value is None:
            continue
        if param.unit == "time" and value >= TIMEOUT_PS:
            message = f"{format_time(value)} is too long"
            hint = f"less than {format_time(TIMEOUT_PS, 3)}"
            raise InputError(message, key=f"{key}.{param.name}", hint=hint)
        if param.unit == "rate" and value < slowest:
            message = f"{format_rate(value)} is too slow for packets of {packets.data_bytes} bytes"
            hint = f"at least {format_rate(slowest)}"
            raise InputError(message, key=f"{key}.{param.name}", hint=hint)


def is_closed_form(point: Point) -> bool:
    """Return whether the point's transport needs no simulation."""
    return bool(getattr(point.transport.module, "CLOSED_FORM", False))


def patterns_of(
    point: Point, network: Network, names: Sequence[str]
) -> Iterator[tuple[str, tuple[Destinations, Legs | None]]]:
    """Yield the destinations of patterns, with the traffic's parameters and random numbers, on
    minimal paths and, if [fabric] routing takes other paths, on those. Without names, use the
    traffic's pattern, if it has a non-uniform one. Raises InputError for an unknown name, or a
    pattern that the hosts do not fit."""
    routing = point.fabric.routing
    legs = legs_of(routing)
    given = {param.name: param.convert(param.default) for param in PATTERN_PARAMS}
    given |= {name: point.traffic.params[name] for name in given if name in point.traffic.params}
    if not names and given["pattern"] != UNIFORM:
        names = [given["pattern"]]
    for name in names:
        if name not in PATTERNS:
            hint = did_you_mean(name, PATTERNS)
            raise InputError(f"unknown pattern {written(name)}", key="--traffic", hint=hint)
        with errors_at(file=point.file):
            to = destinations({**given, "pattern": name}, network, traffic_rng(point.seed))
        yield name, (to, None)
        if legs is not None:
            yield f"{name} ({routing.name})", (to, legs)
