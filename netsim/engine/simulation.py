"""Input of the engine: what to simulate, and how."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from netsim.engine.kernels.layout import INF
from netsim.engine.kernels.trace import CAPACITY
from netsim.engine.ranks import Ranks
from netsim.engine.sizes import Sizes
from netsim.model.fabric import Fabric, PacketFormat
from netsim.model.faults import LinkFaults
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.model.port_sizes import PortSizes
from netsim.model.sampling import Sampling
from netsim.model.tasks import TaskTable
from netsim.model.workload import ProgramSpec, Workload
from netsim.plugins.registry import PluginSpec


@dataclass(frozen=True)
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
    ) -> FeatureSet:
        """Return the features needed for a network, workload, faults, sizes and series."""
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
        )


@dataclass(frozen=True)
class Simulation:
    """Everything that determines the result of a run.

    ``uses`` are the transports and ``transport_of_flow`` (int64[n_flows]) the index of each flow's,
    by default the first. A ``program`` may start some of the ``tasks``. ``sampling`` defines series
    and changes no results. ``sizes`` are those of the fabric that differ between ports.
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
        return FeatureSet.of(self.network, load, self.faults, self.sampling, self.sizes)

    def parameters(self, record: np.dtype, own: Mapping[str, int | float]) -> np.ndarray:
        """Return a record of a plugin's ``own`` parameters and those of `CommonParameters`."""
        rec = np.zeros(1, record)
        for name, value in {**own, **vars(self.packets), "seed": self.seed}.items():
            rec[name] = value
        return rec

    @property
    def name(self) -> str:
        """Name of the transports in messages."""
        return " and ".join(use.plugin.name for use in self.uses)


@dataclass(frozen=True)
class Options:
    """Options of a run that do not change the result.

    ``window_ps`` shortens windows, and ``sizes`` are initial capacities, both for tests. Without
    ``jit`` the code runs as plain Python, slowly (default: NUMBA_DISABLE_JIT decides). With
    ``checked``, compiled code checks array bounds. ``on_hang`` is called, in another thread, if
    compiled code hangs. The flows of ``trace``, and all packets at ``trace_ports`` in the
    ``trace_times`` (starts and ends), are traced by one worker, with ``trace_capacity`` entries. Of
    ``hosts`` (bool[n_hosts]) all others stay idle; they must not share anything with these. With
    ``profile``, one worker times each stage. The processes ``ranks`` divide the run. ``on_code`` is
    called before state is allocated; its argument says whether code is missing.
    """

    threads: int = 1
    window_ps: int | None = None
    sizes: Sizes | None = None
    jit: bool | None = None
    checked: bool = False
    on_hang: Callable[[str], None] | None = None
    trace: Sequence[int] = ()
    trace_ports: Sequence[int] = ()
    trace_times: Sequence[tuple[int, int]] = ((0, INF),)
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
