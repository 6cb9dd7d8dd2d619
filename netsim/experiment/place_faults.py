"""Apply faults to a network: their links, random failures, and rerouting."""

from __future__ import annotations

import zlib
from dataclasses import replace
from fnmatch import fnmatchcase

import numpy as np

from netsim.common.memory import require_room
from netsim.errors import InputError
from netsim.experiment.document import FAULTS
from netsim.experiment.schema import LINK_PATTERN, FaultSection, Point
from netsim.limits import HORIZON_PS
from netsim.model import checks
from netsim.model.columns import Rng
from netsim.model.faults import (
    OUTAGE_BYTES,
    LinkFault,
    LinkFaults,
    combine,
    follow_failures,
    outages_of,
)
from netsim.model.network import Network
from netsim.model.routing import NEVER

FAILURE_STREAM = 0x6661  # separates failures' random numbers from other uses of the seed

Ints = np.ndarray


def link_faults(point: Point, network: Network) -> LinkFaults | None:
    """Return the faults of all links, None if there are none. Raises InputError, without a file, if
    a section matches no link or lacks an end."""
    if not point.faults:
        soonest = {
            "convergence_delay": min(time for _, time in point.routing.convergence_delay),
            "carrier_delay": point.routing.carrier.own_ps,
        }
        for key, time in soonest.items():
            if time != NEVER and FAULTS not in point.axes:
                hint = 'add [faults], or remove it: faults = "none" removes both'
                raise InputError("has no effect without faults", key=f"routing.{key}", hint=hint)
        return None
    found, outages = [], []
    for name, use in point.faults.items():
        parts = parts_named(use.links, use.node, f"faults.{name}", network)
        ports = np.concatenate(parts)
        if use.rate is not None:
            _check_rate(f"faults.{name}.rate", use.rate, ports, network, point)
        fault = LinkFault(
            ports=ports,
            loss=use.loss_rate,
            bit_error_rate=use.bit_error_rate,
            outages_ps=use.outages_ps,
            rate_bps=use.rate_bps,
            at_ps=use.at,
            until_ps=use.until_ps,
        )
        found.append(fault)
        if use.mtbf is not None:
            outages.append(_random_outages(name, use, parts, point))
    faults = combine(found, network.n_ports, np.concatenate(outages) if outages else None)
    convergence_delay_ps = _convergence_delays(point.routing.convergence_delay, network)
    if not any(use.takes_down for use in point.faults.values()):
        return faults
    if point.routing.carrier.own_ps != NEVER:
        faults = replace(faults, carrier=point.routing.carrier)
    if (convergence_delay_ps < NEVER).any():
        if point.fabric.symmetric:
            name = point.fabric.routing.name
            raise InputError(
                f'conflicts with routing = "{name}": rerouting breaks symmetry',
                key="routing.convergence_delay",
                hint='use "never"',
            )
        faults = replace(faults, routes=follow_failures(network, faults, convergence_delay_ps))
    return faults


def queue_rates(point: Point, network: Network) -> Ints:
    """Return int64[n_ports], the rate of each link that sizes in bdp are based on."""
    rates_bps = network.port_rate_bps.copy()
    for name, use in point.faults.items():
        if use.resize_queues:
            ports = np.concatenate(parts_named(use.links, use.node, f"faults.{name}", network))
            rates_bps[ports] = use.rate_bps
    return rates_bps


def ports_named(written: str, network: Network) -> Ints:
    """Return the ports that a pattern of links or nodes matches, as in [faults]. Raises InputError,
    without a key, if there are none."""
    is_links = LINK_PATTERN.fullmatch(written) is not None
    links, node = (written, None) if is_links else (None, written.strip())
    try:
        return np.unique(np.concatenate(parts_named(links, node, "", network)))
    except InputError as error:
        raise error.replace(file=None, key=None) from None


def parts_named(links: str | None, node: str | None, section: str, network: Network) -> list[Ints]:
    """Return the ports of a section, grouped by what fails together: cables, directions, nodes.
    Either `links` or `node` is None; `section` is for errors."""
    names = np.array([network.node_name(one) for one in range(network.n_nodes)])
    circuits = _by_circuit_switch(links, node, network, names)
    if circuits:
        return circuits
    own, neighbor = network.port_node, network.port_node[network.port_peer]
    if node is not None:
        nodes = np.flatnonzero(_matches(names, node))
        if not nodes.size:
            raise _no_match(node, "no node", f"{section}.node", names, network)
        return [np.flatnonzero((own == one) | (neighbor == one)) for one in nodes.tolist()]
    assert links is not None
    match = LINK_PATTERN.fullmatch(links)
    assert match is not None
    if match["arrow"] is None:
        chosen = np.ones(network.n_ports, bool)
    else:
        near, far = (_at_ports(network, names, match[end]) for end in ("a", "b"))
        chosen = near & far[network.port_peer]
    if match["arrow"] == "->":
        parts = list(np.flatnonzero(chosen)[:, None])
    else:
        cables = np.flatnonzero(chosen | chosen[network.port_peer])
        cables = cables[cables < network.port_peer[cables]]
        parts = list(np.stack([cables, network.port_peer[cables]], axis=1))
    if not parts:
        raise _no_match(links, "no link", f"{section}.links", names, network)
    return parts


def _by_circuit_switch(
    links: str | None, node: str | None, network: Network, names: Ints
) -> list[Ints]:
    """Return the ports of a pattern that matches a circuit switch and no node. As a node, it means
    all circuits through the switch; at one end of a link, all circuits through one fiber."""
    circuits = network.circuits
    if circuits is None:
        return []
    switches = np.array(circuits.names)

    def chosen(pattern: str) -> Ints:
        """Return the ports whose cables go through a matching circuit switch."""
        if _matches(names, pattern).any():
            return np.zeros(network.n_ports, bool)
        return np.isin(circuits.of_port, np.flatnonzero(_matches(switches, pattern)))

    if node is not None:
        through = chosen(node)
        numbers = np.unique(circuits.of_port[through])
        return [np.flatnonzero(circuits.of_port == number) for number in numbers.tolist()]
    assert links is not None
    match = LINK_PATTERN.fullmatch(links)
    assert match is not None
    parts: list[Ints] = []
    for end, other, forth in ((match["a"], match["b"], True), (match["b"], match["a"], False)):
        if end is None:
            break
        here = chosen(other) & _matches(names, end)[network.port_node]
        for fiber in np.unique(circuits.fiber[here]).tolist():
            out = np.flatnonzero(circuits.fiber == fiber)
            back = network.port_peer[out]
            both = np.concatenate([out, back])
            parts.append(both if match["arrow"] == "-" else out if forth else back)
    return parts


def _check_rate(key: str, rate_bps: int, ports: Ints, network: Network, point: Point) -> None:
    """Raise InputError for a rate that links of this network cannot have."""
    circuits = network.circuits
    for port in ports[circuits.calendar[ports] >= 0][:1].tolist() if circuits else ():
        message = f"{network.port_name(port)} is a circuit, whose rate is fixed"
        hint = "choose other links; circuits can lose packets or go down"
        raise InputError(message, key=key, hint=hint)
    rates_bps = network.port_rate_bps.copy()
    rates_bps[ports] = rate_bps
    changed = replace(network, port_rate_bps=rates_bps)
    try:
        checks.check_links(changed, point.packets, point.fabric, {})
    except InputError as error:
        raise error.replace(file=None, key=key) from None


def _at_ports(network: Network, names: Ints, pattern: str) -> Ints:
    """Return bool[n_ports], the ports that match "leaf3:12", or all ports of nodes that match."""
    if ":" not in pattern:
        return _matches(names, pattern)[network.port_node]
    return _matches(np.array([network.port_name(p) for p in range(network.n_ports)]), pattern)


def _matches(names: np.ndarray, pattern: str) -> np.ndarray:
    return np.array([fnmatchcase(name, pattern) for name in names.tolist()], bool)


def _no_match(pattern: str, what: str, key: str, names: np.ndarray, network: Network) -> InputError:
    circuits = () if network.circuits is None else network.circuits.names[:1]
    ends = [*names[:1], *names[network.n_hosts : network.n_hosts + 1], names[-1], *circuits]
    hint = f"names are like {', '.join(ends)}"
    return InputError(f'"{pattern}" matches {what} of this network', key=key, hint=hint)


def _random_outages(name: str, use: FaultSection, parts: list[Ints], point: Point) -> Ints:
    """Return rows of (port, from, until): each part fails and recovers after exponential times. The
    outages of a part depend only on the seed, the section's name and the part's first port."""
    assert use.mtbf is not None
    assert use.mttr is not None
    stop_ps = HORIZON_PS if point.end_ps is None else point.end_ps
    end_ps = min(use.until_ps, stop_ps)
    if end_ps >= HORIZON_PS:
        message = "missing: random failures need an end"
        hint = 'such as until = "10ms", or set stop.max_time'
        raise InputError(message, key=f"faults.{name}.until", hint=hint)
    links = sum(part.size for part in parts)
    expected = links * (max(0, end_ps - use.at) / (use.mtbf + use.mttr) + 1)
    what = f"{expected:,.0f} outages"
    require_room(expected * OUTAGE_BYTES, what=what, key=f"faults.{name}.mtbf")
    rows = [np.zeros((0, 3), np.int64)]
    for part in parts:
        entropy = [point.seed, FAILURE_STREAM, zlib.crc32(name.encode()), int(part.min())]
        rng = np.random.Generator(np.random.Philox(entropy))
        times = _history(rng, (use.mtbf, use.mttr), use.at, end_ps)
        rows.append(outages_of(part, times))
    return np.concatenate(rows)


def _history(rng: Rng, means_ps: tuple[int, int], at_ps: int, end_ps: int) -> Ints:
    """Draw failure and repair times up to `end_ps`, int64[n, 2]; `means_ps` is (MTBF, MTTR)."""
    rows = [np.zeros((0, 2), np.int64)]
    now = at_ps
    while now < end_ps:
        n = 16 + (end_ps - now) // sum(means_ps)
        waits = np.clip(np.rint(rng.exponential(means_ps, (n, 2))), 1, max(1, end_ps - at_ps))
        times = now + np.cumsum(waits.astype(np.int64)).reshape(-1, 2)
        rows.append(times)
        now = int(times[-1, 1])
    history = np.concatenate(rows)
    history = history[history[:, 0] < end_ps]
    return np.minimum(history, end_ps)


def _convergence_delays(patterns: tuple[tuple[str, int], ...], network: Network) -> Ints:
    """Return int64[n_switches]: the delay until each switch has new routes."""
    names = np.array(network.switch_names)
    times = np.full(network.n_switches, -1, np.int64)
    for pattern, time in patterns:
        fits = _matches(names, pattern)
        if not fits.any():
            hint = f"names are like {names[0]}, {names[-1]}"
            message = f'"{pattern}" matches no switch of this network'
            raise InputError(message, key="routing.convergence_delay", hint=hint)
        times[fits & (times < 0)] = time
    for switch in np.flatnonzero(times < 0)[:1].tolist():
        message = f"missing for switch {names[switch]}"
        hint = 'such as "*" = "never" for all others'
        raise InputError(message, key="routing.convergence_delay", hint=hint)
    return times
