"""The event heap and the network."""

import heapq
from collections import deque
from collections.abc import Callable, Iterator

from .circuits import Circuit, PhaseSchedule
from .host import Host, HostPort
from .model import Balance, Case, Flow, FlowResult, Outcome, Packet
from .port import Port
from .queues import PAUSING, Ledger
from .routing import ALGORITHMS
from .routing_policy import control_table
from .series import Recorder
from .sides import Sender
from .switch import Switch, SwitchPort
from .tasks import Tasks
from .transports import Sides


class Event:
    """A scheduled action; a canceled one has no effect."""

    def __init__(self, action: Callable[[], None]) -> None:
        self.action = action
        self.canceled = False


class Simulator:
    """A network and its scheduled events."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.now = 0
        self.balance = Balance()
        pauses = case.fabric["queue_discipline"] in PAUSING
        self.n_levels = ALGORITHMS[case.fabric["routing"]].levels if pauses else 1
        self.n_link_classes = case.fabric["n_traffic_classes"] * self.n_levels  # of links
        self.series = Recorder(self)
        self.on_links: dict[int, Packet] = {}
        self._heap: list[tuple[int, int, int, tuple[int, ...], int, Event]] = []
        self._events_made = 0
        self.hosts = [Host(self, i) for i in range(case.n_hosts)]
        self.switches = [Switch(self, case.n_hosts + i) for i in range(case.n_switches)]
        self.ports = self._build_ports()
        several = any(len(host.ports) > 1 for host in self.hosts)
        self.two_in_ports = several and case.fabric.get("plane_balancing") == "entropy"
        self.edges_of: dict[int, list[int]] = {}  # by network
        self.port_at: dict[int, int] = {}  # a host's port at each edge switch
        self._find_routes()
        payload = case.packets["payload_bytes"]
        self.flows = [Flow(i, *flow, payload) for i, flow in enumerate(case.flows)]
        self.lookahead_ps = min(min(c.delay_ab_ps, c.delay_ba_ps) for c in case.cables)
        for flow in self.flows:
            by_task = any(t.kind == "send" and t.flow == flow.index for t in case.tasks)
            if by_task or flow.index in case.after:
                flow.start_ps = -1
        self.words: dict[int, tuple[int, int]] = {}  # of flows, by a program
        self.sides = Sides(self)
        senders = [one for host in self.hosts for one in host.senders.values()]
        ranked = any(type(one).rank is not Sender.rank for one in senders)
        self.has_rounds = bool(case.fabric.get("host_jitter_ps")) and not ranked
        self.tasks = Tasks(self)
        self.phase_schedule = PhaseSchedule(self)

    def set_size(self, flow: Flow, size_bytes: int) -> None:
        """Set the size of a flow that has not started, and rebuild its sides."""
        flow.size_bytes = size_bytes
        self.sides.attach(flow)

    def start_flow(self, flow: Flow, at_ps: int) -> None:
        flow.start_ps = at_ps
        self.hosts[flow.src].senders[flow.index].pacing_timer.set(at_ps)

    def at(
        self, time: int, node: int, step: int, order: tuple[int, ...], action: Callable[[], None]
    ) -> Event:
        """Schedule an action. At one instant a node acts by step, and within a step by order."""
        event = Event(action)
        self._events_made += 1
        heapq.heappush(self._heap, (time, node, step, order, self._events_made, event))
        return event

    def run(self) -> Outcome:
        """Run all events before the end."""
        for _ in self.events():
            pass
        return self._outcome()

    def events(self) -> Iterator[None]:
        """Run the events before the end one by one."""
        until = self.case.until_ps
        while self._heap:
            time, *_, event = self._heap[0]
            if event.canceled:
                heapq.heappop(self._heap)
                continue
            if until is not None and time >= until:
                self.now = until
                break
            heapq.heappop(self._heap)
            self.series.before(time)
            self.now = time
            event.action()
            yield

    def address_of_sender(self, packet: Packet) -> tuple[int, int]:
        """Return the host port and the routing table for packets to a packet's sender."""
        sender = self.hosts[self.flows[packet.flow].src].senders[packet.flow]
        pairs = sender.spread.port_pairs
        pair = next(pair for pair in pairs if pair[1].index == packet.dst)
        return pair[0].index, control_table(self, packet.flow, pair)

    def first_level(self, c: int) -> int:
        """Return the link class of a traffic class at level 0."""
        return c * self.n_levels + self.n_levels - 1

    def _build_ports(self) -> list[Port]:
        """Return all ports in global order, joined in pairs."""
        ports: list[Port] = []
        unpaired: dict[int, Port] = {}  # by cable
        nodes: list[Host | Switch] = [*self.hosts, *self.switches]
        for node in nodes:
            local = 0
            for number, cable in enumerate(self.case.cables):
                if node.index not in (cable.a, cable.b):
                    continue
                delay = cable.delay_ab_ps if node.index == cable.a else cable.delay_ba_ps
                port: Port
                if isinstance(node, Host):
                    port = HostPort(self, node, local, len(ports), cable.rate_bps, delay)
                    node.add(port, cable.nic)
                else:
                    port = SwitchPort(self, node, local, len(ports), cable.rate_bps, delay)
                    node.ports.append(port)
                    if cable.circuit is not None:
                        number_of, *both = cable.circuit
                        near, far = both if node.index == cable.a else both[::-1]
                        port.circuit = Circuit(self, self.case.circuits[number_of], near, far)
                if number in unpaired:
                    port.peer = unpaired[number]
                    port.peer.peer = port
                else:
                    unpaired[number] = port
                port.cable = number
                ports.append(port)
                local += 1
        if self.case.fabric["queue_discipline"] == "credits":
            ledger = Ledger(self)
            for port in ports:
                if isinstance(port.peer.node, Switch):
                    port.credit = ledger
        return ports

    def _find_routes(self) -> None:
        """Find the shortest paths to each host port, by table, and each switch's distance to a
        host.

        Hosts do not forward. A port's network is the lowest switch that it reaches over any cables.
        """
        policy = self.case.policy
        everything = frozenset(range(len(self.case.cables)))
        for host in self.hosts:
            for to in host.ports:
                hops = self._hops(to, everything)
                to.network = min(hops)
                edge = to.peer.node.index
                self.port_at[edge] = to.index
                edges = self.edges_of.setdefault(to.network, [])
                self.edges_of[to.network] = sorted({*edges, edge})
                for index, away in hops.items():
                    switch = self.switches[index - self.case.n_hosts]
                    switch.height = min(switch.height or away, away)
                    switch.network = to.network
                for table in range(len(policy.cables) if policy else 1):
                    for slot, cables in enumerate(
                        policy.slots_of(table) if policy else [everything]
                    ):
                        self._find_routes_to(to, table, slot, cables)

    def _hops(self, to: HostPort, cables: frozenset[int]) -> dict[int, int]:
        """Return each switch's distance from a host port, over some of the cables."""
        hops = {to.peer.node.index: 1}
        frontier: deque[int] = deque(hops)
        while frontier:
            at = frontier.popleft()
            for port in self.switches[at - self.case.n_hosts].ports:
                node = port.peer.node.index
                if node >= self.case.n_hosts and node not in hops and _leads(port.peer, cables):
                    hops[node] = hops[at] + 1
                    frontier.append(node)
        return hops

    def _find_routes_to(self, to: HostPort, table: int, slot: int, cables: frozenset[int]) -> None:
        hops = self._hops(to, cables)
        for index, away in hops.items():
            switch = self.switches[index - self.case.n_hosts]
            switch.routes[to.index, table, slot] = [
                port
                for port in switch.ports
                if port.peer is to
                or (_leads(port, cables) and hops.get(port.peer.node.index) == away - 1)
            ]

    def leads(self, table: int, here: HostPort, there: HostPort) -> bool:
        """Return whether there is a route between two host ports in slot 0."""
        switch = self.switches[here.peer.node.index - self.case.n_hosts]
        return (there.index, table, 0) in switch.routes

    def _outcome(self) -> Outcome:
        for packet in self.on_links.values():
            self.balance.on_links.add(packet.size)
        for switch in self.switches:
            for port in switch.ports:
                for fifo in port.fifos:
                    for waiting in fifo:
                        self.balance.in_queues.add(waiting.packet.size)
        results = []
        for flow in self.flows:
            sender = self.hosts[flow.src].senders[flow.index]
            receiver = self.hosts[flow.dst].receivers[flow.index]
            results.append(
                FlowResult(
                    receiver.fct_ps, sender.acked_ps, sender.retransmits, sender.packets_sent
                )
            )
        return Outcome(
            departures={port.index: port.departures for port in self.ports},
            flows=results,
            counters={
                (port.index, c): port.counters_at(c, self.now)
                for port in self.ports
                for c in range(len(port.counters))
            },
            balance=self.balance,
            tasks=self.tasks.results(),
            end_ps=self.now,
            slots=self.phase_schedule.begun(),
            log=self.tasks.program.log if self.tasks.program is not None else [],
        )


def _leads(port: Port, cables: frozenset[int]) -> bool:
    """Return whether routes over some cables may use a port; not if its circuit is never up."""
    return port.cable in cables and (port.circuit is None or port.circuit.is_ever_there)


def simulate(case: Case) -> Outcome:
    return Simulator(case).run()
