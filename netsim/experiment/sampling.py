"""What a run samples: the ports, hosts, flows and fields that [outputs] names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from types import ModuleType
from typing import Any

import numpy as np

from netsim.errors import InputError, did_you_mean
from netsim.experiment.place_faults import ports_named
from netsim.experiment.schema import LINK_PATTERN, OutputsSection
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.model.sampling import Sampling
from netsim.units import written

ENGINE_FIELDS = {"tx": ("sent_packets", "retransmits"), "rx": ("received_bytes",)}
"""State that the engine keeps for every transport."""

_PORT = re.compile("[0-9]{1,10}")
_RANGE = re.compile(r"\s*([0-9]{1,10})\s*\.\.\s*([0-9]{1,10})\s*", re.ASCII)

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Chosen = int | tuple[Any, ...]


def sampling_of(
    outputs: OutputsSection, network: Network, flows: FlowTable, transports: Sequence[ModuleType]
) -> Sampling | None:
    """Return what a run samples. Raises InputError, without a file, for unknown names."""
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
    if LINK_PATTERN.fullmatch(text):
        try:
            return ports_named(text, network)
        except InputError as error:
            raise error.at(key="outputs.ports") from None
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
