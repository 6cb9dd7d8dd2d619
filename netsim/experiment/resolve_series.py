"""What is kept over time ([outputs] sample_interval): of which ports, hosts and flows, and which
fields."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from types import ModuleType
from typing import Any

import numpy as np

from netsim.errors import CombinedInputError, InputError, did_you_mean
from netsim.experiment.model import SeriesSpec
from netsim.experiment.schema import LINK_PATTERN, OutputsSection
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.model.sampling import Sampling
from netsim.units import format_bytes, format_time, written

DEFAULT_PORTS, DEFAULT_HOSTS, DEFAULT_FLOWS = 256, 64, 64
"""So many, spread evenly, where nothing is said; all where there are no more."""

DEFAULT_BUDGET = 64_000_000

AUTO, NONE = "auto", "none"

ENGINE_FIELDS = {"tx": ("sent_packets", "retransmits"), "rx": ("received_bytes",)}
"""State that the engine keeps for every transport."""

_PORT = re.compile("[0-9]{1,10}")
_RANGE = re.compile(r"\s*([0-9]{1,10})\s*\.\.\s*([0-9]{1,10})\s*", re.ASCII)

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Chosen = int | tuple[Any, ...]


def resolve_series(section: OutputsSection) -> SeriesSpec | None:
    """The series of an [outputs] table, None without; `InputError`s with keys, without a file."""
    chosen = {key: getattr(section, key) for key in ("ports", "hosts", "flows")}
    if section.sample_interval is None and not section.queue_stats:
        given = [
            key for key in (*chosen, "fields", "sample_budget") if key in section.model_fields_set
        ]
        if given:
            errors = [
                InputError(
                    "is of no use without series",
                    key=f"outputs.{key}",
                    hint='sample_interval = "10us"',
                )
                for key in given
            ]
            raise CombinedInputError(errors)
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
    """The keys of [outputs] that say the same."""
    if use is None:
        return {}
    sample = use.sample_interval if isinstance(use.sample_interval, str) else NONE
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
    """What a run is to keep. Raises InputError, without a file, for what there is not."""
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
    """A number of things, or which ones."""
    if value is None:
        return default
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0 and key != "fields":
        return value
    items = value if isinstance(value, list) else [value]
    for item in items:
        if isinstance(item, bool) or not isinstance(item, kinds):
            example = {
                "ports": '["leaf0:*", "leaf0 -> spine*"], or 100 of them',
                "hosts": '["h3", "h1*"], or 10 of them',
                "flows": '[0, "5..9"], or 10 of them',
                "fields": '["cwnd", "rate"]',
            }[key]
            raise InputError(
                f"{written(item)} does not name {key}", key=f"outputs.{key}", hint=example
            )
    return tuple(items)


def _spread(count: int, among: Numbers) -> Numbers:
    """So many of some numbers, spread evenly; all if there are no more."""
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
    """The ports of "A -> B", "A - B" (both ways), "all", "A:3", "A:*", or "A", all of a node."""

    def of(pattern: str) -> Any:
        return np.array([fnmatchcase(name, pattern) for name in names], bool)

    node, neighbor = network.port_node, network.port_node[network.port_peer]
    match = LINK_PATTERN.fullmatch(text)
    if match is not None and match["arrow"] is None:
        return np.arange(network.n_ports)
    if match is not None:
        near, far = of(match["a"]), of(match["b"])
        there = near[node] & far[neighbor]
        if match["arrow"] == "-":
            there |= far[node] & near[neighbor]
    else:
        name, _, local = text.strip().partition(":")
        number = np.arange(network.n_ports) - network.node_first_port[node]
        there = of(name)[node]
        if local not in ("", "*"):
            there &= number == (int(local) if _PORT.fullmatch(local) else -1)
    if not there.any():
        raise _nothing("ports", text, names, network)
    return np.flatnonzero(there)


def _hosts(chosen: Chosen, network: Network) -> Numbers:
    everybody = np.arange(network.n_hosts)
    if isinstance(chosen, int):
        return _spread(chosen, everybody)
    names = [network.node_name(host) for host in range(network.n_hosts)]
    found: set[int] = set()
    for text in chosen:
        these = [host for host, name in enumerate(names) if fnmatchcase(name, text)]
        if not these:
            raise _nothing("hosts", text, names, network)
        found.update(these)
    return np.array(sorted(found), np.int64)


def _nothing(key: str, text: str, names: list[str], network: Network) -> InputError:
    switch = names[network.n_hosts : network.n_hosts + 1]
    shown = ", ".join([*names[:1], *switch, names[-1]])
    return InputError(
        f"{written(text)} matches nothing in this network",
        key=f"outputs.{key}",
        hint=f"names there are like {shown}",
    )


def _flows(chosen: Chosen, n_flows: int) -> Numbers:
    if isinstance(chosen, int):
        return _spread(chosen, np.arange(n_flows))
    found: set[int] = set()
    for item in chosen:
        match = _RANGE.fullmatch(item) if isinstance(item, str) else None
        if isinstance(item, str) and match is None:
            raise InputError(
                f"{written(item)} does not name flows",
                key="outputs.flows",
                hint='numbers and ranges: [0, "5..9"]',
            )
        first, last = (int(match[1]), int(match[2])) if match else (int(item), int(item))
        if not 0 <= first <= last < n_flows:
            raise InputError(
                f"{written(item)} is out of range",
                key="outputs.flows",
                hint=f"flows are 0 to {n_flows - 1}",
                code="out_of_range",
            )
        found.update(range(first, last + 1))
    return np.array(sorted(found), np.int64)


def _field(name: str, transports: Iterable[ModuleType]) -> str:
    """A field of flows' state with its side, such as "tx.cwnd"; InputError if there is none."""
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
        raise InputError(
            f"{name} is {arrays[name]} numbers", key="outputs.fields", hint="fields of one number"
        )
    if name not in known:
        hint = did_you_mean(name, sorted(one for one in known if "." not in one))
        raise InputError(
            f"{written(name)} is no field of the transport's state", key="outputs.fields", hint=hint
        )
    if len(kinds[known[name]]) > 1:
        message = f"{name} is not of the same type in all transports of the run"
        raise InputError(message, key="outputs.fields", hint="a field of one of them only")
    return known[name]
