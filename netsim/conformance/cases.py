"""All cases, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from netsim.conformance import (
    delivery,
    determinism,
    impairments,
    metrics,
    networks,
    queue_cases,
    routing_cases,
    topologies,
    traffic_cases,
)
from netsim.model.port_pairs import ENTROPY, HASH, LEAST_LOADED, PERMUTATION, ROUND_ROBIN

RELIABLE, COMPILED = "reliable", "compiled"


@dataclass(frozen=True)
class Case:
    """One requirement for a plugin.

    `run` is called with its testbed and returns a line of results, or metrics by name; it raises
    `ConformanceError` or `NotApplicableError`. `needs` lists what the case requires: RELIABLE, a
    transport that recovers losses, and COMPILED, a compiled engine, which takes several seconds.
    """

    name: str
    about: str
    run: Callable[[Any], str | dict[str, float]]
    needs: tuple[str, ...] = ()
    doubt: Callable[[dict[str, float]], str] = lambda _: ""
    """Returns what is probably wrong with the metrics, or ""."""


DETERMINISM = (
    Case("windows", "same result for any window length", determinism.windows),
    Case("growth", "same result with little working memory", determinism.growth),
    Case("resumed", "same result from a checkpoint", determinism.resumed),
    Case("compiled", "same result compiled and plain", determinism.compiled_as_plain, (COMPILED,)),
    Case("threads", "same result for 1, 2, 4 threads", determinism.threads, (COMPILED,)),
)
"""Requirements for all but traffic patterns."""

CASES = (
    Case("sizes", "1 byte, 1 packet, odd sizes", delivery.sizes),
    Case("permutation", "every host sends to another", delivery.permutation),
    Case("incast", "seven hosts send to one", delivery.incast),
    Case("all-to-all", "every host sends to every other", delivery.all_to_all),
    Case("many flows", "thirty flows of one host", delivery.many_flows_of_a_host),
    Case("dependencies", "flows that start after others", delivery.dependencies),
    Case("beside another", "a second transport", delivery.beside_another),
    Case("full queues", "switches drop", impairments.full_queues, (RELIABLE,)),
    Case("random loss", "links lose packets", impairments.random_loss, (RELIABLE,)),
    Case("bit errors", "links corrupt packets", impairments.bit_errors, (RELIABLE,)),
    Case("link down", "links fail and come back", impairments.link_down, (RELIABLE,)),
    Case(
        "changing routes", "a spine fails, routes follow", impairments.changing_routes, (RELIABLE,)
    ),
    Case("reordering", "packets are reordered", impairments.reordering),
    Case("trimming", "switches trim packets", impairments.trimming, (RELIABLE,)),
    Case("full header queues", "trimmed headers lost", impairments.full_header_queues, (RELIABLE,)),
    Case("three tiers", "two pods and a core", topologies.three_tiers),
    Case("planes", "each flow uses one of two planes", topologies.planes(HASH)),
    Case("planes in turn", "packets alternate between two planes", topologies.planes(ROUND_ROBIN)),
    Case("shuffled planes", "packets take planes in random order", topologies.planes(PERMUTATION)),
    Case("least loaded plane", "whichever port is free first", topologies.planes(LEAST_LOADED)),
    Case("chosen planes", "the transport chooses the plane", topologies.planes(ENTROPY)),
    Case("uneven planes", "one plane is slower", topologies.uneven_planes),
    Case("plane down", "a plane fails and comes back", topologies.plane_down, (RELIABLE,)),
    *DETERMINISM,
    Case("alone", "slowdown of a single flow", metrics.alone, doubt=metrics.slow_alone),
    Case("shared link", "four flows, one link", metrics.shared_link, (COMPILED,)),
    Case("shared host", "four flows, one host", metrics.shared_receiver, (COMPILED,)),
)

QUEUE_CASES = (
    Case("single packets", "one packet at a time", queue_cases.single_packets),
    Case("incast", "seven hosts send to one", queue_cases.incast),
    Case("all-to-all", "every host sends to every other", queue_cases.all_to_all),
    Case("marking", "switches mark packets", queue_cases.marking),
    Case("busy", "a port is never idle while packets wait", queue_cases.busy),
    Case("order", "packets of a flow stay in order", queue_cases.order),
    Case("pauses", "no loss with PFC pauses", queue_cases.pauses),
    *DETERMINISM,
)

ROUTING_CASES = (
    Case("tree", "leaves and spines", routing_cases.arrival(networks.tree)),
    Case("three tiers", "two pods and a core", routing_cases.arrival(networks.three_tiers)),
    Case("planes", "two trees", routing_cases.arrival(networks.planes)),
    Case("dragonfly", "three groups", routing_cases.arrival(networks.dragonfly)),
    Case("torus", "four by four", routing_cases.arrival(networks.torus)),
    Case("failed link", "a cable fails, routes stay", routing_cases.failed_link),
    Case("changing routes", "a cable fails, routes follow", routing_cases.changing_routes),
    Case("deadlock", "no cycle of waiting packets with PFC", routing_cases.deadlock),
    *DETERMINISM,
)

TRAFFIC_CASES = (
    Case("flows", "valid flows, or a clear refusal", traffic_cases.flows),
    Case("seed", "the same flows for the same seed", traffic_cases.seed),
    Case("load", "open loop: the load that is given", traffic_cases.load),
    Case("measured", "the same until the end of [measure]", traffic_cases.measured),
    Case("parameters", "any value gives flows or a clear error", traffic_cases.parameters),
    Case("scale", "many hosts", traffic_cases.scale),
)
