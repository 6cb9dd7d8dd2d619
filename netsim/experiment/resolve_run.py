"""Resolve the seed, [stop] and [outputs]: when a run ends, where results go and what is sampled."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from types import ModuleType
from typing import Any

import numpy as np

from netsim.errors import InputError, did_you_mean, raise_all
from netsim.experiment.document import Tree
from netsim.experiment.model import MeasureSpec, Outputs, SeriesSpec, StopCondition
from netsim.experiment.schema import (
    LINK_PATTERN,
    MeasureSection,
    OutputsSection,
    StopSection,
    validated,
)
from netsim.inputs import ROOM_IN_NAME, path_problem
from netsim.limits import HORIZON_PS
from netsim.model.checks import HORIZON
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.model.sampling import Sampling
from netsim.units import format_bytes, format_time, written

SEED_LIMIT = 2**32

DEFAULT_PORTS, DEFAULT_HOSTS, DEFAULT_FLOWS = 256, 64, 64
"""Default numbers of samples, evenly spaced; all if there are fewer."""

ENGINE_FIELDS = {"tx": ("sent_packets", "retransmits"), "rx": ("received_bytes",)}
"""State that the engine keeps for every transport."""

_PORT = re.compile("[0-9]{1,10}")
_RANGE = re.compile(r"\s*([0-9]{1,10})\s*\.\.\s*([0-9]{1,10})\s*", re.ASCII)

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Chosen = int | tuple[Any, ...]


def resolve_seed(tree: Tree) -> int:
    """Return the seed of an experiment. Raises InputError without file and key."""
    seed = tree.get("seed", 1)
    if isinstance(seed, bool) or not isinstance(seed, int):
        hint = 'use a whole number, a list of them, or "1..10"'
        raise InputError(f"{written(seed)} is not a seed", hint=hint, code="wrong_type")
    if not 0 <= seed < SEED_LIMIT:
        hint = f"0 to {SEED_LIMIT - 1}"
        raise InputError(f"{seed} is out of range", hint=hint, code="out_of_range")
    return seed


def resolve_stop(table: Tree) -> StopCondition:
    """Return the stop condition of a [stop] table. Raises InputError without a file."""
    section = validated(StopSection, table, "stop")
    return StopCondition(section.max_time, section.flow_timeout, section.drain)


def describe_stop(stop: StopCondition) -> dict[str, Any]:
    """Return the equivalent [stop] table with all keys."""

    def limit(time_ps: int | None) -> str:
        return "none" if time_ps is None else format_time(time_ps)

    return {
        "max_time": limit(stop.max_time_ps),
        "flow_timeout": limit(stop.flow_timeout_ps),
        "drain": stop.drain,
    }


def resolve_measure(table: Tree, stop: StopCondition | None) -> MeasureSpec | None:
    """Return the measurement of a [measure] table, None if it is empty. Raises InputError, without
    a file, also if it conflicts with `stop`."""
    if not table:
        return None
    section = validated(MeasureSection, table, "measure")
    drain_ps = section.window if section.drain is None else section.drain
    spec = MeasureSpec(section.warmup, section.window, drain_ps)
    if spec.end_ps >= HORIZON_PS:
        raise InputError(f"ends after {format_time(spec.end_ps, 3)}", key="measure", hint=HORIZON)
    if stop is not None and (stop.max_time_ps is not None or stop.drain):
        key = "stop.drain" if stop.drain else "stop.max_time"
        hint = "a measured run ends with its drain"
        raise InputError("conflicts with [measure]", key=key, hint=hint, code="conflict")
    return spec


def describe_measure(spec: MeasureSpec) -> dict[str, str]:
    """Return the equivalent [measure] table with all keys."""
    times = {"warmup": spec.warmup_ps, "window": spec.window_ps, "drain": spec.drain_ps}
    return {key: format_time(time_ps) for key, time_ps in times.items()}


def resolve_outputs(table: Tree, title: str) -> Outputs:
    """Return the outputs of an [outputs] table; by default the directory is results/`title`."""
    section = validated(OutputsSection, table, "outputs")
    directory = section.directory or f"results/{title}"
    problem = path_problem(directory, reserve=ROOM_IN_NAME)
    if problem:
        raise InputError(f"{written(directory)} {problem}", key="outputs.directory")
    return Outputs(directory, section.links, resolve_series(section))


def describe_outputs(outputs: Outputs) -> dict[str, Any]:
    """Return the equivalent [outputs] table with all keys that have an effect."""
    kept = {"directory": outputs.directory, "links": outputs.links}
    return kept | describe_series(outputs.series)


def resolve_series(section: OutputsSection) -> SeriesSpec | None:
    """Return the series of an [outputs] table, None if there are none. Raises InputError without a
    file.
    """
    chosen = {key: getattr(section, key) for key in ("ports", "hosts", "flows")}
    if section.sample_interval is None and not section.queue_stats:
        message, hint = "has no effect without sample_interval", 'such as sample_interval = "10us"'
        keys = [k for k in (*chosen, "fields", "sample_budget") if k in section.model_fields_set]
        raise_all([InputError(message, key=f"outputs.{key}", hint=hint) for key in keys])
        return None
    return SeriesSpec(
        sample_interval=section.sample_interval,
        ports=_chosen("ports", chosen["ports"], DEFAULT_PORTS, (str,)),
        hosts=_chosen("hosts", chosen["hosts"], DEFAULT_HOSTS, (str,)),
        flows=_chosen("flows", chosen["flows"], DEFAULT_FLOWS, (int, str)),
        fields=tuple(str(name) for name in _chosen("fields", section.fields, (), (str,))),
        sample_budget_bytes=section.sample_budget,
        queue_stats=section.queue_stats,
    )


def describe_series(use: SeriesSpec | None) -> dict[str, Any]:
    """Return the equivalent keys of [outputs]."""
    if use is None:
        return {}
    sample = use.sample_interval if isinstance(use.sample_interval, str) else "none"
    if isinstance(use.sample_interval, int):
        sample = format_time(use.sample_interval)
    plain = {
        key: value if isinstance(value, int) else list(value)
        for key, value in (("ports", use.ports), ("hosts", use.hosts), ("flows", use.flows))
    }
    return {
        "sample_interval": sample,
        **plain,
        "fields": list(use.fields),
        "sample_budget": format_bytes(use.sample_budget_bytes),
        "queue_stats": use.queue_stats,
    }


def sampling_of(
    use: SeriesSpec | None, network: Network, flows: FlowTable, transports: Sequence[ModuleType]
) -> Sampling | None:
    """Return what a run samples. Raises InputError, without a file, for unknown names."""
    if use is None:
        return None
    none = np.zeros(0, np.int64)
    fields = tuple(_field(name, transports) for name in use.fields)
    sampling = Sampling(None, none, none, none, fields, use.sample_budget_bytes, use.queue_stats)
    if use.sample_interval is None:
        return sampling
    interval_ps = (
        use.sample_interval if isinstance(use.sample_interval, int) else network.lookahead_ps
    )
    return Sampling(
        interval_ps,
        _ports(use.ports, network),
        _hosts(use.hosts, network),
        _flows(use.flows, len(flows)),
        fields,
        use.sample_budget_bytes,
        use.queue_stats,
    )


def _chosen(key: str, value: Any, default: Any, kinds: tuple[type, ...]) -> Any:
    """Return a number of things, or their names."""
    if value is None:
        return default
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0 and key != "fields":
        return value
    items = value if isinstance(value, list) else [value]
    for item in items:
        if isinstance(item, bool) or not isinstance(item, kinds):
            example = {
                "ports": 'such as ["leaf0:*", "leaf0 -> spine*"], or a number',
                "hosts": 'such as ["h3", "h1*"], or a number',
                "flows": 'such as [0, "5..9"], or a number',
                "fields": 'such as ["cwnd", "rate"]',
            }[key]
            message = f"{written(item)} does not name {key}"
            raise InputError(message, key=f"outputs.{key}", hint=example)
    return tuple(items)


def _spread(count: int, among: Numbers) -> Numbers:
    """Return `count` evenly spaced numbers; all if there are no more."""
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

    def matches(pattern: str) -> Any:
        return np.array([fnmatchcase(name, pattern) for name in names], bool)

    node, neighbor = network.port_node, network.port_node[network.port_peer]
    match = LINK_PATTERN.fullmatch(text)
    if match is not None and match["arrow"] is None:
        return np.arange(network.n_ports)
    if match is not None:
        near, far = matches(match["a"]), matches(match["b"])
        chosen = near[node] & far[neighbor]
        if match["arrow"] == "-":
            chosen |= far[node] & near[neighbor]
    else:
        name, _, local = text.strip().partition(":")
        number = np.arange(network.n_ports) - network.node_first_port[node]
        chosen = matches(name)[node]
        if local not in ("", "*"):
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
    found: set[int] = set()
    for item in chosen:
        match = _RANGE.fullmatch(item) if isinstance(item, str) else None
        if isinstance(item, str) and match is None:
            hint = 'use numbers and ranges: [0, "5..9"]'
            message = f"{written(item)} does not name flows"
            raise InputError(message, key="outputs.flows", hint=hint)
        first, last = (int(match[1]), int(match[2])) if match else (int(item), int(item))
        if not 0 <= first <= last < n_flows:
            message = f"{written(item)} is out of range"
            hint = f"0 to {n_flows - 1}"
            raise InputError(message, key="outputs.flows", hint=hint, code="out_of_range")
        found.update(range(first, last + 1))
    return np.array(sorted(found), np.int64)


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
