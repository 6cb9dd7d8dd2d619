"""Input of the engine: the simulation and its options; sizes of records and of windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from netsim.engine.kernels.fields import Array
from netsim.engine.kernels.layout import LINK_READER, PACKET, PORT, QUEUE, ROUTING_PORT
from netsim.engine.kernels.switch import INDEX_BITS, KEY_BITS
from netsim.engine.kernels.trace import CAPACITY
from netsim.frozen import frozen
from netsim.limits import HORIZON_PS, PS_BITS
from netsim.model.fabric import PFC_FRAME_BYTES, Fabric, PacketFormat, PortSizes
from netsim.model.faults import LinkFaults
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.model.port_pairs import port_pairs_of
from netsim.model.sampling import Sampling
from netsim.model.workload import ProgramSpec, TaskTable, Workload
from netsim.plugins.registry import PluginSpec


class Led(Protocol):
    """The engine of rank 0, which the other ranks follow."""

    def close(self) -> None:
        """Let the other ranks go on."""


class Ranks(Protocol):
    """The processes of a run."""

    rank: int
    n: int

    def broadcast(self, array: Array | None, root: int = 0) -> Array:
        """Return the array of ``root`` (uint8[...]) on all ranks."""

    def all_gather(self, row: Array) -> Array:
        """Return the rows of all ranks (int64[k]) as int64[n, k]."""

    def gather(self, array: Array) -> list[Array]:
        """Return the arrays of all ranks (uint8[...]) on rank 0, and nothing on others."""

    def swap(self, out: Mapping[int, Array]) -> Mapping[int, Array]:
        """Send an array (int64[...]) to some ranks; return their arrays."""

    def fill(self, out: Mapping[int, Array], into: Mapping[int, Array]) -> None:
        """Send arrays (uint8[...]) to some ranks, and receive arrays of known lengths."""

    def build(self, engine: Led) -> None:
        """Let the other ranks build their engines, which follow rank 0's ``engine``."""


SLOT_BYTES = PACKET.itemsize
INGRESS_BYTES = np.dtype(np.int32).itemsize
"""Bytes per pool slot in addition to the packet, if the discipline needs a packet's ingress."""

PORT_BYTES = PORT.itemsize + LINK_READER.itemsize + ROUTING_PORT.itemsize + 8  # first_new
QUEUE_BYTES = QUEUE.itemsize  # per port and class, without packets and the discipline's fields
MAX_WINDOW_PS = 1 << (63 - KEY_BITS)  # bound of windows, so that a time within one fits a sort key


@frozen
class Sizes:
    """Capacities for tests: arrivals in a window at one switch, which grow when needed, and blocks
    of the pool (pool.py)."""

    scratch: int = 1 << 14
    blocks: int | None = None


def shortest_delay_ps(network: Network, flows: FlowTable) -> int:
    """Return the smallest delay of any link in use, after which a run ends (MODEL.md). Cables of
    networks without flows do not count, such as cables in racks whose hosts send only to others."""
    if network.has_several_ports and not _told_out_of_band(network, flows):
        return _shortest_used_ps(network, flows)
    return network.lookahead_ps


def longest_window_ps(network: Network, flows: FlowTable) -> int:
    """Return the longest window: no packet sent in one may arrive in it."""
    shortest_ps = shortest_delay_ps(network, flows)
    return min(shortest_ps, MAX_WINDOW_PS - 1, _numbered_ps(network))


def _numbered_ps(network: Network) -> int:
    """Return the time in which more packets may reach a switch than sort keys can number."""
    into = np.bincount(network.port_node, network.port_rate_bps.astype(np.float64))
    return max(1, int((1 << INDEX_BITS) * PFC_FRAME_BYTES * PS_BITS / into.max()))


def _told_out_of_band(network: Network, flows: FlowTable) -> bool:
    """Return whether hosts learn of events elsewhere out of band, one lookahead later."""
    if network.circuits is not None and network.circuits.follow:
        return True
    return flows.after_ptr is not None and not bool(flows.waits_at_source().all())


def _shortest_used_ps(network: Network, flows: FlowTable) -> int:
    """Return the smallest link delay of any network that a flow has a port pair in."""
    of_port = network.switch_network[np.maximum(network.port_node - network.n_hosts, 0)]
    of_port[: network.n_host_ports] = network.port_network
    delays_ps = np.full(int(network.first_group.size) - 1, HORIZON_PS)
    np.minimum.at(delays_ps, of_port, network.port_delay_ps)
    if not len(flows) or (delays_ps == network.lookahead_ps).all():
        return network.lookahead_ps
    return int(delays_ps[network.port_network[port_pairs_of(network, flows).src_port]].min())


@frozen
class FeatureSet:
    """Optional features that the engine is specialized for."""

    faults: bool = False
    tasks: bool = False
    program: PluginSpec | None = None
    several_ports: bool = False
    carrier: bool = False
    apart: bool = False
    policy: bool = False
    time_slots: bool = False
    sampled: bool = False
    histogram: bool = False
    circuits: bool = False
    phase_driven: bool = False
    sized: bool = False
    cut_through: bool = False
    nic: bool = False

    @property
    def loses(self) -> bool:
        """Return whether links may lose packets, or switches lack a route."""
        return self.faults or self.circuits or self.time_slots or self.apart

    @classmethod
    def of(
        cls,
        network: Network,
        load: Workload,
        faults: LinkFaults | None,
        sampling: Sampling | None,
        sizes: PortSizes | None,
        packets: PacketFormat,
    ) -> FeatureSet:
        """Return the features needed for a network, workload, faults, series, sizes and packets."""
        return cls(
            faults=faults is not None,
            tasks=load.has_tasks,
            program=None if load.program is None else load.program.use,
            several_ports=network.has_several_ports,
            apart=not network.reaches_all,
            carrier=network.has_several_ports and faults is not None and faults.carrier is not None,
            policy=network.n_tables > 1,
            time_slots=network.time_slots is not None,
            sampled=sampling is not None,
            histogram=sampling is not None and sampling.queues,
            circuits=network.circuits is not None and network.circuits.change,
            phase_driven=network.circuits is not None and network.circuits.follow,
            sized=sizes is not None,
            cut_through=packets.cut_through_bytes is not None,
            nic=packets.nic is not None,
        )


@frozen
class Simulation:
    """Everything that determines the result of a run.

    ``uses`` are the transports and ``transport_of_flow`` (int64[n_flows]) the index of each flow's,
    by default the first. A ``program`` may start some of the ``tasks``. ``sampling`` defines series
    and changes no results. ``sizes`` are sizes of the fabric that differ between ports.
    """

    network: Network
    flows: FlowTable
    fabric: Fabric
    packets: PacketFormat
    uses: Sequence[PluginSpec]
    seed: int
    transport_of_flow: npt.NDArray[np.int64] | None = None
    faults: LinkFaults | None = None
    tasks: TaskTable | None = None
    program: ProgramSpec | None = None
    sampling: Sampling | None = None
    sizes: PortSizes | None = None

    @property
    def feature_set(self) -> FeatureSet:
        """Engine features that it uses."""
        load = Workload(self.flows, self.tasks, program=self.program)
        return FeatureSet.of(
            self.network, load, self.faults, self.sampling, self.sizes, self.packets
        )

    def parameters(self, record: np.dtype, own: Mapping[str, int | float]) -> np.ndarray:
        """Return a record of a plugin's ``own`` parameters and `CommonParameters`."""
        rec = np.zeros(1, record)
        for name, value in {**vars(self.packets), **own, "seed": self.seed}.items():
            if name in (record.names or ()):
                rec[name] = value
        return rec

    @property
    def name(self) -> str:
        """Name of the transports in messages."""
        return " and ".join(use.plugin.name for use in self.uses)


@frozen
class Options:
    """Options of a run that do not change the result.

    ``window_ps`` shortens windows, and ``sizes`` are initial capacities, both for tests. Without
    ``jit`` the code runs as plain Python, slowly (default: NUMBA_DISABLE_JIT decides). With
    ``checked``, compiled code checks array bounds. ``on_hang`` is called, in another thread, if
    compiled code hangs. The flows of ``trace``, and all packets at ``trace_ports`` in their times
    (starts and ends), are traced by one worker, with ``trace_capacity`` entries; timers of whole
    hosts only from the flow's ``trace_starts`` on. Hosts not in ``hosts`` (bool[n_hosts]) stay
    idle; they must not share anything with the others. With ``profile``, one worker times each
    stage. The processes ``ranks`` divide the run. ``on_code`` is called before state is allocated;
    its argument says whether code is missing.
    """

    threads: int = 1
    window_ps: int | None = None
    sizes: Sizes | None = None
    jit: bool | None = None
    checked: bool = False
    on_hang: Callable[[str], None] | None = None
    trace: Sequence[int] = ()
    trace_starts: Mapping[int, int] = field(default_factory=dict)
    trace_ports: Mapping[int, Sequence[tuple[int, int]]] = field(default_factory=dict)
    trace_capacity: int = CAPACITY
    profile: bool = False
    ranks: Ranks | None = None
    hosts: np.ndarray | None = None
    on_code: Callable[[bool], None] | None = None

    @property
    def workers(self) -> int:
        """Number of threads."""
        return 1 if self.traces or self.profile else self.threads

    @property
    def traces(self) -> bool:
        """Return whether anything is traced."""
        return bool(self.trace or self.trace_ports)
