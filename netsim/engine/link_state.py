"""Initial state of links: ports, queues, switches, circuits, and the routing algorithm."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.engine.compiling.declarations import (
    Discipline,
    Protocol,
    RoutingAlgorithm,
    plugin_parameters,
    read_routing,
)
from netsim.engine.division import Share
from netsim.engine.kernels import layout
from netsim.engine.kernels.fields import NO_PORT, Array
from netsim.engine.kernels.links import N_SERVERS
from netsim.engine.kernels.routing import (
    KEPT,
    candidates_at,
    dimension_of,
    far_group_at,
    hops_to,
    ps_per_byte_q20,
    published,
)
from netsim.engine.kernels.trace import Trace
from netsim.engine.records import aligned_zeros, untouched_zeros
from netsim.engine.series import build_series
from netsim.engine.simulation import FeatureSet, Simulation, longest_window_ps
from netsim.errors import InputError
from netsim.limits import PS_BITS
from netsim.model import arithmetic
from netsim.model import fabric as rules_of
from netsim.model.checks import heights
from netsim.model.circuit_times import light_times, start_times
from netsim.model.circuits import NONE, Circuits, PhaseSchedule
from netsim.model.columns import Ints, offsets, rows_of
from netsim.model.fabric import CircuitRules, Fabric, PacketFormat, cut_through_q20, retry_loops
from netsim.model.faults import NOMINAL, LinkFaults, combine
from netsim.model.network import Network
from netsim.model.paths import reach_by
from netsim.model.port_pairs import port_pairs_of
from netsim.plugins.registry import port_state
from netsim.units import format_time


def build_circuits(simulation: Simulation) -> dict[str, np.ndarray]:
    """Return `circuits`, `days` and `reconfiguring_ports` of LinkState; one entry without
    circuits."""
    network = simulation.network
    if not simulation.feature_set.circuits or network.circuits is None:
        return {
            "circuits": np.zeros(1, layout.CIRCUIT),
            "days": np.zeros((1, 2), np.int64),
            "reconfiguring_ports": np.zeros(1, np.int64),
        }
    circuits = network.circuits
    rules = simulation.fabric.circuits or CircuitRules()
    light = light_times(circuits)
    starts = start_times(network, circuits, rules, simulation.packets, simulation.seed)
    state = np.zeros(network.n_ports, layout.CIRCUIT)
    state["first_up"], state["last_up"] = light.first[:-1], light.first[1:]
    first_start = len(light.spans_ps) + starts.first
    state["first_start"], state["last_start"] = first_start[:-1], first_start[1:]
    dated = circuits.calendar != NONE
    state["period_ps"][dated] = circuits.period_ps[circuits.calendar[dated]]
    # A circuit that is not always up looks up its current day at first use.
    state["up_ps"], state["opens_ps"] = -layout.INF, -layout.INF
    state["down_ps"] = state["closes_ps"] = np.where(dated, -layout.INF, layout.INF)
    phase_driven, begun = _begun(circuits)
    state["last_up"][phase_driven] = state["first_up"][phase_driven] + begun
    state["last_start"][phase_driven] = state["first_start"][phase_driven] + begun
    return {
        "circuits": state,
        "days": np.concatenate([light.spans_ps, starts.spans_ps]),
        "reconfiguring_ports": np.concatenate(
            [*(ports for pair in _turning(circuits) for ports in pair), [0]]
        ),
    }


def build_slots(simulation: Simulation) -> Array:
    """Return `slots` of Clock; empty unless circuit switches are phase-driven."""
    circuits, phase_schedule = simulation.network.circuits, _phase_schedule(simulation)
    if circuits is None or phase_schedule is None:
        return np.zeros(0, layout.SLOT)
    slots = np.zeros(phase_schedule.n_slots, layout.SLOT)
    slots["control_delay_ps"] = phase_schedule.control_delay_ps
    slots["night_ps"] = phase_schedule.night_ps
    slots["begin_ps"][1:] = slots["up_ps"][1:] = layout.INF
    of_flows = phases(simulation)
    slots["waits_for"] = np.bincount(of_flows[of_flows >= 0], minlength=phase_schedule.n_slots)
    sizes = np.array([[ports.size for ports in pair] for pair in _turning(circuits)])
    ends = np.cumsum(sizes).reshape(-1, 2)
    slots["first_ending"] = ends[:, 0] - sizes[:, 0]
    slots["first_beginning"], slots["behind"] = ends.T
    return slots


def phases(simulation: Simulation) -> Array:
    """Return `phase` of HostState: int64[n_flows], -1 for none; one entry without phases."""
    phase_schedule = _phase_schedule(simulation)
    if phase_schedule is None:
        return np.zeros(1, np.int64)
    given = phase_schedule.phase_of_flow
    assert given is not None
    assert given.size == len(simulation.flows)
    return given


def _phase_schedule(simulation: Simulation) -> PhaseSchedule | None:
    circuits = simulation.network.circuits
    if not simulation.feature_set.phase_driven or circuits is None:
        return None
    return circuits.phase_schedule


def _begun(circuits: Circuits) -> tuple[Array, Array]:
    """Return the ports whose days the workload decides, and how many of each are initially set."""
    if circuits.phase_schedule is None:
        none = np.zeros(0, np.int64)
        return none, none
    first_slot = circuits.phase_schedule.slots[circuits.first_day[:-1], 0]
    phase_driven = np.flatnonzero(circuits.calendar != NONE)
    phase_driven = phase_driven[first_slot[circuits.calendar[phase_driven]] != NONE]
    return phase_driven, first_slot[circuits.calendar[phase_driven]] == 0


def _turning(circuits: Circuits) -> list[tuple[Array, Array]]:
    """Return for each slot the ports whose circuits end and begin with it; the first has none."""
    phase_schedule = circuits.phase_schedule
    if phase_schedule is None:
        return []
    dated = np.flatnonzero(circuits.calendar != NONE)
    count = np.diff(circuits.first_day)[circuits.calendar[dated]]
    port = np.repeat(dated, count)
    rows = rows_of(circuits.first_day[circuits.calendar[dated]], count)
    begins, ends = phase_schedule.slots[rows].T
    none = np.zeros(0, np.int64)
    later = range(1, phase_schedule.n_slots)
    return [(none, none), *((port[ends == slot], port[begins == slot]) for slot in later)]


def circuit_memory_bytes(network: Network, n_traffic_classes: int) -> int:
    """Return the memory of circuits: a record per port, losses per class, both ends' days."""
    if network.circuits is None or not network.circuits.change:
        return 0
    per_port = layout.CIRCUIT.itemsize + n_traffic_classes * layout.LOSS.itemsize
    return network.n_ports * per_port + 2 * 2 * network.circuits.days_ps.nbytes


INDIRECT = {
    rules_of.DIRECT: layout.DIRECT,
    rules_of.OPPORTUNISTIC: layout.OPPORTUNISTIC,
    rules_of.VLB: layout.VLB,
}


def indirect(fabric: Fabric, feature_set: FeatureSet) -> int:
    """Return the value of ``INDIRECT``."""
    if not feature_set.circuits or fabric.circuits is None:
        return layout.DIRECT
    return INDIRECT[fabric.circuits.indirect]


class CircuitReachability(NamedTuple):
    """Reachability among switches with circuits, numbered from 0.

    `number` is int64[n_nodes], -1 for other nodes. `reached` is int8[n, n], 1 if a circuit ever
    leads from the one to the other, or they are the same.
    """

    number: Ints
    reached: NDArray[np.int8]


def leads(circuits: Circuits) -> NDArray[np.bool_]:
    """Return bool[n_ports]: whether the port feeds a circuit that is ever up."""
    feeds: NDArray[np.bool_] = circuits.of_port != NONE
    return feeds if circuits.ever_up is None else feeds & circuits.ever_up


def circuit_reachability(network: Network, circuits: Circuits) -> CircuitReachability:
    """Return the reachability by circuits."""
    ports = np.flatnonzero(leads(circuits))
    node, far = network.port_node[ports], network.port_node[network.port_peer[ports]]
    edges = np.union1d(node, far)
    number = np.full(network.n_nodes, NONE, np.int64)
    number[edges] = np.arange(edges.size)
    reached = np.eye(edges.size, dtype=np.int8)
    reached[number[node], number[far]] = 1
    return CircuitReachability(number, reached)


def build_detours(simulation: Simulation) -> dict[str, np.ndarray]:
    """Return the arrays of `Net` for indirect packets."""
    network, how = simulation.network, indirect(simulation.fabric, simulation.feature_set)
    none = np.zeros(1, np.int64)
    found: dict[str, np.ndarray] = {"edge": none, "reached": np.zeros((1, 1), np.int8)}
    found |= {"detour": np.zeros((1, 1), np.int32), "detour_first": none, "detour_ports": none}
    if how == layout.DIRECT or network.circuits is None:
        return found
    reach = circuit_reachability(network, network.circuits)
    found |= {"edge": reach.number, "reached": reach.reached}
    if how == layout.VLB:
        found |= _lists(network, network.circuits, reach)
    return found


def _lists(
    network: Network, circuits: Circuits, reach: CircuitReachability
) -> dict[str, np.ndarray]:
    """Return, for each pair of switches, the ports of an indirect path, with no list twice."""
    n = len(reach.reached)
    detour = np.full((n, n), NONE, np.int32)
    lists: dict[tuple[int, bytes], int] = {}
    ports: list[Ints] = []
    for here, node in enumerate(np.flatnonzero(reach.number != NONE).tolist()):
        first, end = network.node_first_port[node : node + 2].tolist()
        own = first + np.flatnonzero(leads(circuits)[first:end])
        far = reach.number[network.port_node[network.port_peer[own]]]
        for there, row in enumerate(np.ascontiguousarray(reach.reached[far].T != 0)):
            if row.any() and there != here:
                key = here, row.tobytes()
                if key not in lists:
                    lists[key] = len(ports)
                    ports.append(own[row] - first)
                detour[here, there] = lists[key]
    counts = [one.size for one in ports]
    return {
        "detour": detour,
        "detour_first": offsets(counts),
        "detour_ports": np.concatenate([*ports, np.zeros(0, np.int64)]),
    }


def with_days(simulation: Simulation, links: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return `circuits`, `days`, `day_ports` and `fibers` of LinkState."""
    network = simulation.network
    circuits, state, days = network.circuits, links["circuits"], links["days"]
    state["fiber"] = NONE
    how, none = indirect(simulation.fabric, simulation.feature_set), np.zeros(1, np.int64)
    if how == layout.DIRECT or circuits is None:
        return {**links, "day_ports": none, "fibers": np.zeros(1, layout.FIBER)}
    ends = np.flatnonzero(circuits.of_port != NONE)
    # Sorted: a switch's fibers are consecutive.
    key = network.port_node[ends].astype(np.int64) * (circuits.fiber.max() + 1)
    keys, number = np.unique(key + circuits.fiber[ends], return_inverse=True)
    state["fiber"][ends] = number.reshape(-1)
    if how != layout.OPPORTUNISTIC:
        return {**links, "day_ports": none, "fibers": np.zeros(keys.size, layout.FIBER)}
    count = state["last_start"] - state["first_start"]
    port = np.repeat(np.arange(network.n_ports), count)
    spans, fiber = days[rows_of(state["first_start"], count)], state["fiber"][port]
    order = np.lexsort((spans[:, 0], fiber))
    fibers = np.zeros(keys.size, layout.FIBER)
    end = len(days) + np.cumsum(np.bincount(fiber, minlength=keys.size))
    fibers["first_day"][1:], fibers["last_day"] = end[:-1], end
    fibers["first_day"][0] = len(days)
    fibers["period_ps"][fiber] = state["period_ps"][port]
    _begin(fibers, state, ends, local_ports(network))
    day_ports = np.concatenate([np.zeros(len(days), np.int64), local_ports(network)[port[order]]])
    return {
        **links,
        "days": np.concatenate([days, spans[order]]),
        "day_ports": day_ports,
        "fibers": fibers,
    }


def _begin(fibers: Any, state: Any, ends: Ints, local: Ints) -> None:
    """Put fibers before their first day. Fibers that are always up or unused have no days."""
    fibers["opens_ps"] = fibers["closes_ps"] = layout.INF
    fibers["closes_ps"][fibers["first_day"] < fibers["last_day"]] = -layout.INF
    always = ends[state["closes_ps"][ends] == layout.INF]
    fibers["port"][state["fiber"][always]] = local[always]
    fibers["opens_ps"][state["fiber"][always]] = -layout.INF


def local_ports(network: Network) -> Ints:
    """Return int64[n_ports]: the local number of each port."""
    first: Ints = network.node_first_port[network.port_node]
    return np.arange(network.n_ports) - first


def fibers_of(network: Network, links: dict[str, np.ndarray]) -> tuple[Ints, Ints]:
    """Return the first and last fiber of each switch."""
    fibers, state = links["fibers"], links["circuits"]
    ends = np.flatnonzero(state["fiber"] != NONE)
    node = np.zeros(fibers.size, np.int64)  # no switch without indirect packets
    node[state["fiber"][ends]] = network.port_node[ends]
    switches = np.arange(network.n_hosts, network.n_nodes)
    return np.searchsorted(node, switches), np.searchsorted(node, switches, side="right")


# --- the routing algorithm ------------------------------------------------------------------------

NO_HOPS = 255  # at a switch without a route


def build_routing(
    simulation: Simulation, routing: RoutingAlgorithm, share: Share
) -> dict[str, Array]:
    """Return the arrays of `LinkState` that belong to the routing algorithm."""
    network, seed, use = simulation.network, simulation.seed, simulation.fabric.routing
    n, at = network.n_ports, share.ports
    number = np.arange(n, dtype=np.int64)[at]
    ports = share.zeros(n, routing.port)
    ports["number"][at] = number
    ports["from_host"][at] = network.port_peer[at] < network.n_host_ports
    for name, purpose, a, b in routing.salts:
        ports[name][at] = arithmetic.salt(seed, purpose, a * number + b)
    tables = network.n_switches if routing.coupled else n - network.n_host_ports
    return {
        "routing_ports": ports,
        "routers": _routers(simulation, routing),
        "flow_rows": untouched_zeros(max(1, tables * routing.n_rows), routing.row),
        "published": _published(simulation, routing),
        "routing": simulation.parameters(routing.par, plugin_parameters(use.plugin, use.params)),
    }


def _routers(simulation: Simulation, routing: RoutingAlgorithm) -> Array:
    """Return the switches, each with the start of the ECMP hash: its number or height."""
    network, seed = simulation.network, simulation.seed
    routers = aligned_zeros(network.n_switches, routing.switch)
    routers["node"] = np.arange(network.n_hosts, network.n_nodes)
    routers["first_port"] = network.node_first_port[network.n_hosts : -1]
    routers["n_ports"] = np.diff(network.node_first_port)[network.n_hosts :]
    groups = np.diff(network.first_group)
    routers["n_groups"] = groups[network.switch_network]
    routers["first_group"] = network.first_group[network.switch_network]
    routers["group"] = -1
    group = np.arange(network.edge_switch.size)
    network_of = np.repeat(np.arange(groups.size), groups)
    routers["group"][network.edge_switch] = group - network.first_group[network_of]
    routers["salt"] = arithmetic.salt(seed, arithmetic.PURPOSE_ECMP, routers["node"])
    if simulation.fabric.symmetric:
        routers["salt"] = arithmetic.salt(seed, arithmetic.PURPOSE_SYMMETRIC, heights(network))
    return routers


def _published(simulation: Simulation, routing: RoutingAlgorithm) -> Array:
    """Return the switches' published numbers: initially none. Raises InputError if a number might
    be read in the window in which it is published."""
    n = routing.n_published
    if n:
        least_ps = longest_window_ps(simulation.network, simulation.flows)
        delay_ps = simulation.fabric.routing.params["publish_delay"]
        if delay_ps < least_ps:
            message = f"{format_time(delay_ps)} is shorter than the smallest delay of a link"
            hint = f"at least {format_time(least_ps)}"
            raise InputError(message, key="fabric.publish_delay", hint=hint)
    return np.zeros((max(1, simulation.network.n_switches * n), 2, KEPT), np.int64)


def build_facts(network: Network, routing: RoutingAlgorithm) -> dict[str, Array]:
    """Return the arrays of `Net` that services of handlers read; minimal without such services."""
    facts: dict[str, Any] = {
        "hops": np.zeros((1, 1), np.uint8),
        "port_dimension": np.zeros(1, np.int64),
        "port_q20": np.zeros(1, np.int64),
        "group_switch": np.zeros(1, np.int64),
    }
    if routing.uses & {published, candidates_at, far_group_at}:
        facts["group_switch"] = network.edge_switch.astype(np.int64)
    if hops_to in routing.uses:
        facts["hops"] = _hops(network)
    if dimension_of in routing.uses:
        facts["port_dimension"] = np.zeros(network.n_ports, np.int64)
        if network.port_dimension is not None:
            facts["port_dimension"] = network.port_dimension
    if ps_per_byte_q20 in routing.uses:
        facts["port_q20"] = arithmetic.byte_quotient(network.port_rate_bps)
    return facts


def _hops(network: Network) -> Array:
    """Return uint8[n_switches, groups]: the links from each switch to each edge switch of its
    network, by its first routing table; NO_HOPS without a path, or if it has more links."""
    groups = np.diff(network.first_group)
    hops = np.full((network.n_switches, int(groups.max())), NO_HOPS, np.uint8)
    for number, n in enumerate(groups.tolist()):
        found = reach_by(network, number, network.table, np.arange(n)).hops
        found[(found < 0) | (found > NO_HOPS)] = NO_HOPS
        hops[network.switch_network == number, :n] = found
    return hops


def routing_memory_bytes(network: Network, fabric: Fabric) -> int:
    """Return the memory of an algorithm's state and of its services, beyond `PORT_BYTES`."""
    use = fabric.routing
    routing = read_routing(use.module, plugin_parameters(use.plugin, use.params), use.plugin.name)
    tables = network.n_switches if routing.coupled else network.n_ports - network.n_host_ports
    n_bytes = network.n_ports * (routing.port.itemsize - layout.ROUTING_PORT.itemsize)
    n_bytes += network.n_switches * routing.switch.itemsize
    n_bytes += network.n_switches * routing.n_published * 16 * KEPT
    n_bytes += tables * routing.n_rows * routing.row.itemsize
    if hops_to in routing.uses:
        n_bytes += network.n_switches * int(np.diff(network.first_group).max())
    return n_bytes


# --- ports, queues and switches -------------------------------------------------------------------


def build_links(
    simulation: Simulation,
    protocol: Protocol,
    discipline: Discipline,
    routing: RoutingAlgorithm,
    pool: dict[str, Array],
    trace: Trace | Array,
    share: Share,
) -> layout.LinkState:
    """Return the links' state, with the record types of a protocol and the rows of a share."""
    network, fabric, seed = simulation.network, simulation.fabric, simulation.seed
    n, c = network.n_ports, fabric.n_link_classes
    sized = simulation.sizes
    loses = simulation.feature_set.loses or routing.via or fabric.llr is not None
    kinds = (fabric,) if sized is None else sized.fabrics

    number, at = np.arange(n, dtype=np.int64), share.links
    q20 = arithmetic.byte_quotient(network.port_rate_bps[at])
    ports = share.zeros(n, discipline.port)
    ports["number"][at] = number[at]
    ports["ps_per_byte_q20"][at] = q20
    ports["delay_ps"][at] = network.port_delay_ps[at]
    for name, values in port_state(fabric.queue, network, simulation.packets).items():
        ports[name][at] = np.asarray(values, np.int64)[at]
    readers = share.zeros(n, layout.LINK_READER)
    readers["packet_ps"][at] = arithmetic.send_time(simulation.packets.data_bytes, q20)
    readers["from_host"][at] = network.port_peer[at] < network.n_host_ports
    readers["order_salt"][at] = arithmetic.salt(seed, arithmetic.PURPOSE_ARRIVAL_ORDER, number[at])

    queues = aligned_zeros(n * c, discipline.queue)

    switches = aligned_zeros(network.n_switches, discipline.switch)
    switches["number"] = np.arange(network.n_switches)
    switches["first_port"] = network.node_first_port[network.n_hosts : -1]
    switches["first_word"] = first_words(network)[network.n_hosts : -1]
    circuits = with_days(simulation, build_circuits(simulation))
    switches["first_fiber"], switches["last_fiber"] = fibers_of(network, circuits)
    switches["next_wakeup_ps"] = switches["next_timer_ps"] = layout.INF
    switches["indirect_from"] = switches["indirect_by"] = NO_PORT
    words = int(first_words(network)[-1])
    first_new = np.zeros(n, np.int64)
    first_new[share.ports] = layout.INF
    return layout.grouped(
        layout.LinkState,
        **pool,
        zero_packet=np.zeros(2, protocol.packet),
        ports=ports,
        readers=readers,
        **build_routing(simulation, routing, share),
        queues=queues,
        switches=switches,
        discipline=np.concatenate(
            [
                simulation.parameters(
                    discipline.par,
                    {
                        **plugin_parameters(one.queue.plugin, one.queue.params),
                        "n_classes": simulation.fabric.n_link_classes,
                    },
                )
                for one in kinds
            ]
        ),
        size_kind=np.zeros(1, np.int64) if sized is None else sized.kind.copy(),
        first_new=first_new,
        cut_through_q20=cut_through_q20(network)
        if simulation.packets.cut_through_bytes
        else np.zeros(1, np.int64),
        nic_busy=np.zeros((n if simulation.packets.nic else 1, N_SERVERS), np.int64),
        unread=np.zeros(words, np.int64),
        busy=np.zeros(words, np.int64),
        dirty_ports=np.zeros(words, np.int64),
        waiting_ports=np.zeros(words, np.int64),
        indirect_ready=np.zeros(words, np.int64),
        **_sources(simulation, discipline),
        fabric=np.concatenate([_fabric_record(one, simulation.packets, seed) for one in kinds]),
        trace=trace,
        **build_series(simulation.sampling, network, simulation.flows, c, protocol),
        losses=np.zeros(n * c if loses else 1, layout.LOSS),
        class_weights=_class_weights(fabric, simulation.packets, n, at),
        **_fault_state(simulation.faults, network),
        **_replay_buffers(simulation, protocol),
        **circuits,
    )


def _sources(simulation: Simulation, discipline: Discipline) -> dict[str, Array]:
    """Return `first_source` and `sources` of LinkState; minimal if no handler asks."""
    if not discipline.knows_sources:
        return {"first_source": np.zeros(1, np.int64), "sources": np.zeros((1, 2), np.int64)}
    pairs = port_pairs_of(simulation.network, simulation.flows)
    return {
        "first_source": np.asarray(pairs.first, np.int64),
        "sources": np.stack([pairs.dst_port, pairs.control_back], axis=1).astype(np.int64),
    }


def first_words(network: Network) -> np.ndarray:
    """Return int64[n_nodes + 1]: the first word of each switch's port sets; hosts have none."""
    words = -(-np.diff(network.node_first_port) // layout.PORTS_OF_A_WORD)
    words[: network.n_hosts] = 0
    return offsets(words)


def replay_buffer_slots(fabric: Fabric) -> int:
    """Return the packets for which a port's replay buffer has room; 0 without LLR."""
    return 0 if fabric.llr is None else 1 << (fabric.llr.max_frames - 1).bit_length()


def retry_memory_bytes(network: Network, fabric: Fabric) -> int:
    """Return the memory of replay buffers, with packets that have no fields of a transport."""
    slots = replay_buffer_slots(fabric)
    return (
        network.n_ports * (layout.RETRY.itemsize + slots * layout.PACKET.itemsize) if slots else 0
    )


def _replay_buffers(simulation: Simulation, protocol: Protocol) -> dict[str, Array]:
    """Return `retries` and `kept` of LinkState; minimal without LLR."""
    network, llr = simulation.network, simulation.fabric.llr
    if llr is None:
        return {"retries": np.zeros(1, layout.RETRY), "kept": np.zeros(1, protocol.packet)}
    slots = replay_buffer_slots(simulation.fabric)
    answer_ps, loop_ps = retry_loops(network, simulation.packets)
    rates, loops = network.port_rate_bps.tolist(), loop_ps.tolist()
    largest = max(simulation.packets.data_bytes, simulation.packets.control_bytes)
    retries = np.zeros(network.n_ports, layout.RETRY)
    retries["off"] = slots * np.arange(network.n_ports)
    retries["mask"] = slots - 1
    retries["answer_ps"] = answer_ps
    retries["timeout_ps"] = 2 * loop_ps
    retries["max_frames"] = llr.max_frames
    retries["max_bytes"] = [
        -(-rate * loop // PS_BITS) + largest for rate, loop in zip(rates, loops, strict=True)
    ]
    retries["max_replays"] = layout.INF if llr.max_replays is None else llr.max_replays
    if llr.replay_timeout_ps is not None:
        retries["timeout_ps"] = llr.replay_timeout_ps
    if llr.max_bytes is not None:
        retries["max_bytes"] = llr.max_bytes
    return {"retries": retries, "kept": untouched_zeros(network.n_ports * slots, protocol.packet)}


def _fault_state(faults: LinkFaults | None, network: Network) -> dict[str, np.ndarray]:
    """Return the arrays for faults; minimal without any."""
    if faults is None:
        none = combine([], 1)
        arrays = {"loss_table": none.loss_table, "outages": none.outages_ps}
        kinds = {"faults": layout.FAULT, "fault_intervals": layout.FAULT_INTERVAL}
        return {**arrays, **{name: np.zeros(1, kind) for name, kind in kinds.items()}}
    n = network.n_ports
    intervals = np.zeros(faults.interval_start_ps.size, layout.FAULT_INTERVAL)
    rate_bps = np.repeat(network.port_rate_bps, np.diff(faults.interval_ptr))
    given = faults.interval_rate_bps != NOMINAL
    rate_bps[given] = faults.interval_rate_bps[given]
    intervals["start_ps"] = faults.interval_start_ps
    intervals["profile"] = faults.interval_profile
    intervals["ps_per_byte_q20"] = arithmetic.byte_quotient(rate_bps)
    state = np.zeros(n, layout.FAULT)
    # One before the first interval; a port's first transmission advances it.
    ptr = faults.interval_ptr
    state["interval"], state["last_interval"] = ptr[:-1] - 1, ptr[1:]
    state["outage"], state["last_outage"] = faults.outage_ptr[:-1], faults.outage_ptr[1:]
    return {
        "faults": state,
        "fault_intervals": intervals,
        "loss_table": faults.loss_table,
        "outages": faults.outages_ps,
    }


def _class_weights(fabric: Fabric, packets: PacketFormat, n_ports: int, at: Any) -> np.ndarray:
    """Return a `ClassWeightRecord` for each class of the ports ``at``; minimal without weights."""
    if fabric.class_weights is None:
        return np.zeros(1, layout.CLASS_WEIGHT)
    largest = max(packets.data_bytes, packets.control_bytes)
    row = np.zeros(fabric.n_link_classes, layout.CLASS_WEIGHT)
    first = 0
    for weights in fabric.weight_groups:
        group = row[first : first + len(weights) * fabric.n_levels]
        quanta = np.array(weights) * largest // min(weights)
        group["quantum_bytes"] = np.repeat(quanta, fabric.n_levels)
        group["first"], group["end"] = first, first + group.size
        group["turn"] = first
        first += group.size
    weights_of_ports = np.zeros(n_ports * row.size, layout.CLASS_WEIGHT)
    weights_of_ports.reshape(n_ports, row.size)[at] = row
    return weights_of_ports


def _fabric_record(fabric: Fabric, packets: PacketFormat, seed: int) -> Any:
    """Return a `FabricRecord`; values that the fabric lacks are 0."""
    rec = np.zeros(1, layout.FABRIC)
    rec["seed"] = seed
    given = (fabric, packets, packets.nic, fabric.ecn, fabric.circuits)
    tables = [table for table in given if table is not None]
    for name in layout.FABRIC.names or ():
        for table in map(vars, tables):
            if table.get(name) is not None:
                rec[name] = table[name]
    return rec
