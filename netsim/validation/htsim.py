"""htsim: its files and options for an experiment, and its output.

htsim has a program for each transport: htsim_ndp and htsim_roce (repositories Broadcom/csg-htsim
and ultraethernet/uet-htsim) and htsim_uec (the latter), here with NSCC. A topology (.topo) and a
connection matrix (.cm) are its input; it prints a line for each flow that finishes.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from netsim.common.writing import write_text
from netsim.errors import InputError, did_you_mean, errors_at
from netsim.experiment import Point
from netsim.experiment.scenario import Scenario, prepare
from netsim.frozen import frozen
from netsim.model.fabric import Fabric
from netsim.model.ideal import round_trips
from netsim.model.trees import format_topo, read_topo
from netsim.plugins.registry import PluginSpec
from netsim.units import written

HEADER_BYTES = 64  # of data and of control packets

MAX_FLOW_BYTES = 2**31 - 1
SEEDS = 2**31

ANY: tuple[object, ...] = ()
"""Every value can be expressed, or has no effect on a fat tree with one plane."""

_EXPERIMENT: dict[str, tuple[object, ...]] = {
    "packets.payload_bytes": ANY,
    "packets.header_bytes": (f"{HEADER_BYTES}B",),
    "packets.control_bytes": (f"{HEADER_BYTES}B",),
    "stop.drain": ANY,
    "fabric.plane_balancing": ANY,
    "fabric.ecn.last_hop": (True,),
    "fabric.host_jitter": ("0ps",),
}
_TRIM: dict[str, tuple[object, ...]] = {
    "fabric.queue_discipline": ("trim",),
    "fabric.n_traffic_classes": (2,),
    "fabric.queue_bytes": ANY,
    "fabric.header_queue_bytes": ANY,
    "fabric.header_ratio": ANY,
    "fabric.lower_queue_bytes": ANY,
    "fabric.trim_bytes": ("control",),
}


@frozen
class Peer:
    """A program of htsim."""

    transport: str  # netsim's name for its transport
    params: tuple[str, ...]  # transport parameters that are options of the program
    fabric: Mapping[str, tuple[object, ...]]  # keys of [fabric] with the values that it can express
    # returns its options for a point and its scenario
    options: Callable[[Point, Scenario], list[object]]


def _ndp(point: Point, scenario: Scenario) -> list[object]:
    window = point.transport.params["initial_window"]
    if not window:
        rate_bps = int(scenario.network.port_rate_bps[0])
        trip_ps = int(round_trips(scenario.network, scenario.port_pairs, point.packets).max())
        product = trip_ps * rate_bps // (8 * 10**12)
        window = -(-3 * product // (2 * point.packets.data_bytes))
    payload = point.packets.payload_bytes
    queue = _packets(_fabric(scenario).queue.params["queue_bytes"], payload)
    strategy = NDP_STRATEGIES[point.fabric.routing.plugin.name]
    return [*strategy, "-mtu", payload, "-q", queue, "-cwnd", window]


def _roce(point: Point, scenario: Scenario) -> list[object]:
    payload = point.packets.payload_bytes
    pause = _packets(_fabric(scenario).queue.params["xoff_bytes"], payload)
    resume = _fabric(scenario).queue.params["xon_bytes"] // payload
    thresholds = ["-pfc_thresholds", resume, pause]
    return [*ONE_PATH, "-mtu", payload, "-q", ENDLESS_QUEUE, *thresholds]


def _nscc(point: Point, scenario: Scenario) -> list[object]:
    full = point.packets.data_bytes
    ecn = _fabric(scenario).ecn
    assert ecn is not None
    params = point.transport.params
    one_path = params["paths"] == "ecmp"
    return [
        *("-strat", "ecmp_host", "-sender_cc_only", "-sender_cc_algo", "nscc"),
        *("-load_balancing_algo", "oblivious" if one_path else params["paths"]),
        *("-paths", 1 if one_path else params["entropies"], "-mtu", full),
        *("-q", _packets(_fabric(scenario).queue.params["queue_bytes"], full)),
        *("-ecn", _packets(ecn.kmin_bytes, full), _packets(ecn.kmax_bytes, full)),
    ]


def _fabric(scenario: Scenario) -> Fabric:
    """Return the fabric with sizes in bytes, of the last kind of port if they differ."""
    return scenario.fabric if scenario.sizes is None else scenario.sizes.fabrics[-1]


def _packets(size: Any, unit: int) -> int:
    """Return a size in packets of `unit`, rounded up."""
    return int(-(-size // unit))


ONE_PATH = ("-strat", "ecmp_host", "-paths", "1")
NDP_STRATEGIES = {
    "spray_permutation": ("-strat", "perm"),
    "spray_random": ("-strat", "rand"),
    "ecmp": ONE_PATH,
}
ENDLESS_QUEUE = 10**6  # packets of a queue that PFC alone limits

PEERS = {
    "htsim_ndp": Peer(
        "ndp",
        ("initial_window",),
        {**_TRIM, "fabric.routing": tuple(NDP_STRATEGIES)},
        _ndp,
    ),
    "htsim_roce": Peer(
        "roce",
        (),
        {
            "fabric.queue_discipline": ("lossless",),
            "fabric.routing": ("ecmp",),
            "fabric.n_traffic_classes": (1,),
            "fabric.xoff_bytes": ANY,
            "fabric.xon_bytes": ANY,
            "fabric.headroom_bytes": ANY,
        },
        _roce,
    ),
    "htsim_uec": Peer(
        "nscc",
        ("paths", "entropies", "freeze"),
        {
            **_TRIM,
            "fabric.routing": ("ecmp",),
            "fabric.ecn": ("a table",),
            "fabric.ecn.kmin_bytes": ANY,
            "fabric.ecn.kmax_bytes": ANY,
            "fabric.ecn.pmax": (1.0,),
            "fabric.ecn.at": ("dequeue",),
            "fabric.ecn_from_class": (1,),
        },
        _nscc,
    ),
}


def find_peer(program: Path) -> Peer:
    """Return the `Peer` with a program's name. Raises InputError for an unknown one."""
    if program.name not in PEERS:
        hint = did_you_mean(program.name, PEERS)
        raise InputError("unknown simulator", file=str(program), hint=hint, code="unknown_value")
    return PEERS[program.name]


@frozen
class PeerInput:
    """An experiment as htsim's files and options. `flows` counts flows by pair of hosts;
    `total_bytes` is their total size."""

    topo: str
    matrix: str
    options: tuple[str, ...]
    flows: Counter[tuple[int, int]]
    n_hosts: int
    total_bytes: int

    def write(self, directory: Path, end_us: int) -> list[str]:
        """Write the files to `directory` and return all options for a run of at most `end_us`."""
        files = {"-topo": ("peer.topo", self.topo), "-tm": ("peer.cm", self.matrix)}
        for name, text in files.values():
            write_text(directory / name, text)
        named = [word for option, (name, _) in files.items() for word in (option, name)]
        return [*named, *self.options, "-end", str(end_us), "-o", "peer.log"]


def peer_input(peer: Peer, point: Point) -> PeerInput:
    """Return a point as input of `peer`. Raises InputError, with the key, if that is impossible."""
    with errors_at(file=point.file):
        for problem in _refusals(peer, point):
            raise problem
        params = point.topology.params
        file = params["topo_file"]
        tree = point.topology.module.settle(params) if file is None else read_topo(Path(file))
        topo = format_topo(tree)
        scenario = prepare(point)
        matrix, pairs = _matrix(scenario)
    options = [
        *("-nodes", tree.n_hosts, "-linkspeed", tree.rates_bps[0] // 10**6),
        *("-seed", point.seed % SEEDS, *peer.options(point, scenario)),
    ]
    total_bytes = int(scenario.flows.size_bytes.sum())
    return PeerInput(topo, matrix, tuple(map(str, options)), pairs, tree.n_hosts, total_bytes)


def _refusals(peer: Peer, point: Point) -> Iterator[InputError]:
    """Yield an error for each value that the peer cannot express."""
    if point.topology.plugin.name != "fat_tree":
        yield _refusal("topology.kind", point.topology.name, ("fat_tree",))
    for key, only in (("planes", 1), ("reduction_delay", None)):
        if point.topology.params.get(key, only) != only:
            yield _refusal(f"topology.{key}", point.topology.params[key], ())
    if point.transport.plugin.name != peer.transport:
        yield _refusal("transport.kind", point.transport.name, (peer.transport,))
    for key in _changed(point.transport):
        if key not in peer.params:
            yield _refusal(f"transport.{key}", point.resolved["transport"][key], ())
    known = {**_EXPERIMENT, **peer.fabric}
    read_above = ("name", "description", "seed", "topology", "transport", "traffic", "outputs")
    for section, content in point.resolved.items():
        for key, value in () if section in read_above else _leaves(section, content):
            accepted = known.get(key, ("none", False))
            if accepted and value not in accepted:
                yield _refusal(key, value, accepted if key in known else ())


def _refusal(key: str, value: object, accepted: tuple[object, ...]) -> InputError:
    hint = " or ".join(map(str, accepted)) or None
    return InputError(f"htsim cannot express {written(value)}", key=key, hint=hint, code="conflict")


def _changed(use: PluginSpec) -> list[str]:
    """Return the parameters of a plugin that do not have their default."""
    defaults = {one.name: one.convert(one.default) for one in use.plugin.params}
    return [name for name, value in defaults.items() if use.params[name] != value]


def _leaves(key: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _leaves(f"{key}.{name}", inner)
    else:
        yield key, value


def _matrix(scenario: Scenario) -> tuple[str, Counter[tuple[int, int]]]:
    """Return the connection matrix, and the number of flows of each pair of hosts."""
    flows, load = scenario.flows, scenario.load
    if load.tasks is not None or load.program is not None or flows.after_ptr is not None:
        raise InputError("htsim has only flows that wait for nothing", key="traffic.kind")
    if flows.start_ps.any():
        raise InputError("htsim has only flows that start at 0", key="traffic.kind")
    if not len(flows) or flows.size_bytes.max() > MAX_FLOW_BYTES:
        raise InputError("htsim has flows of at most 2 GiB", key="traffic.size")
    columns = (flows.src.tolist(), flows.dst.tolist(), flows.size_bytes.tolist())
    lines = [f"Nodes {scenario.network.n_hosts}", f"Connections {len(flows)}"]
    for number, (src, dst, size) in enumerate(zip(*columns, strict=True), 1):
        lines.append(f"{src}->{dst} id {number} start 0 size {size}")
    return "\n".join(lines) + "\n", Counter(zip(*columns[:2], strict=True))


class PeerOutput:
    """htsim's output, line by line.

    Attributes:
        began_s, ended_s: when the simulation began and its last flow finished, by the reader's
            clock; 0 before.
        times_us: completion times, at the sender.
    """

    FINISHED = re.compile(
        rb"Flow \w{0,99}?_(\d{1,9})_(\d{1,9}) .{0,99}?finished at ([\d.e+]{1,30}) "
    )

    def __init__(self, flows: Mapping[tuple[int, int], int], end_us: int) -> None:
        self.began_s = self.ended_s = 0.0
        self.times_us: list[float] = []
        self._left, self._end_us = Counter(flows), end_us

    def read(self, at_s: float, line: bytes) -> None:
        """Read a line that arrived at this time. Raises InputError if it is malformed."""
        if line.startswith(b"Starting simulation"):
            self.began_s = at_s
        match = self.FINISHED.search(line)
        if match is None:
            return
        pair = (int(match[1]), int(match[2]))
        try:
            time_us = float(match[3])
        except ValueError:
            time_us = math.nan
        if not self._left[pair] or not 0 < time_us <= self._end_us:
            raise InputError(f"prints {written(line.decode('utf-8', 'replace'))}")
        self._left[pair] -= 1
        self.times_us.append(time_us)
        self.ended_s = at_s

    def check(self, program: Path) -> None:
        """Raise InputError if the simulation did not begin or flows are unfinished."""
        left = self._left.total()
        if not self.began_s or not self.times_us:
            raise InputError("prints no completion times", file=str(program))
        if left:
            flows = f"{left} of {left + len(self.times_us)} flows did not finish"
            raise InputError(f"{flows} in {self._end_us} us", file=str(program))
