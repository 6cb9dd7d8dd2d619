"""Resolve [packets] and [fabric]: defaults, the transport's values, and conflicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from netsim.errors import InputError, did_you_mean, raise_all
from netsim.experiment.document import FABRIC_PLUGINS
from netsim.experiment.model import Point
from netsim.experiment.schema import FabricSection, PacketsSection, validated
from netsim.limits import CLASSES, PACKET_BYTES
from netsim.model.fabric import (
    DIRECT,
    OPPORTUNISTIC,
    CircuitRules,
    Ecn,
    Fabric,
    Key,
    PacketFormat,
    keys_of,
)
from netsim.model.parts import built, with_tables
from netsim.model.port_sizes import PortSizes, port_sizes
from netsim.plugins import calls, registry
from netsim.plugins.declarations import classes_of
from netsim.plugins.params import resolve_params
from netsim.plugins.registry import Plugin, PluginSpec
from netsim.units import Bdp, format_bytes, format_port_size, format_rate, format_time, written

COMMON = tuple(keys_of(Fabric))
"""Keys of [fabric] that are no plugin's."""

INNER = tuple(
    f"{table}.{key}"
    for table, keys in (("ecn", keys_of(Ecn)), ("circuits", keys_of(CircuitRules)))
    for key in keys
)
"""Keys of its tables."""

UNKNOWN = "unknown key"


def resolve_packets(table: Mapping[str, Any]) -> PacketFormat:
    """Return the packet sizes of a [packets] table. Raises InputError without a file."""
    packets = PacketFormat(**validated(PacketsSection, table, "packets").model_dump())
    if packets.data_bytes > PACKET_BYTES:
        message = f"packet size {packets.data_bytes} exceeds {PACKET_BYTES} bytes"
        hint = "reduce payload or header"
        raise InputError(message, key="packets.payload_bytes", hint=hint, code="out_of_range")
    return packets


def fabric_defaults(module: ModuleType, preset: str | None) -> Mapping[str, Any]:
    """Return the [fabric] table that a transport expects: `FABRIC` and `PRESET_FABRIC[preset]`.

    A plugin given as a path is relative to the transport. Raises InputError if a table is not a
    dict.
    """
    tables = getattr(module, "PRESET_FABRIC", {})
    declared = {"FABRIC": getattr(module, "FABRIC", {}), "PRESET_FABRIC": tables}
    if isinstance(tables, Mapping):
        declared[f'PRESET_FABRIC["{preset}"]'] = tables.get(preset, {})
    for key, table in declared.items():
        if not isinstance(table, Mapping):
            raise InputError(
                "must be a dict", file=str(module.__file__), key=key, code="wrong_type"
            )
    defaults = merge(declared["FABRIC"], tables.get(preset, {}))
    for key in FABRIC_PLUGINS:
        name = defaults.get(key)
        if isinstance(name, str) and registry.split_preset(name)[0].endswith(".py"):
            defaults[key] = str(Path(str(module.__file__)).parent / name)
    return defaults


def merge(defaults: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    """Return a fabric overridden key by key, also within `ecn`."""
    merged = {**defaults, **written}
    if isinstance(defaults.get("ecn"), Mapping) and isinstance(written.get("ecn"), Mapping):
        merged["ecn"] = {**defaults["ecn"], **written["ecn"]}
    return merged


@dataclass(frozen=True)
class FabricTable:
    """A [fabric] table and its plugins by key.

    `known` are the keys of `table` that it may have, `unknown` the errors for the others.
    """

    table: Mapping[str, Any]
    plugins: Mapping[str, Plugin]

    @property
    def known(self) -> dict[str, Any]:
        """The common keys and those of these plugins, as written."""
        return {key: value for key, value in self.table.items() if key not in self.unknown}

    @cached_property
    def unknown(self) -> dict[str, InputError]:
        """Errors for keys that these plugins do not have."""
        params = [param for plugin in self.plugins.values() for param in plugin.params]
        own = [*COMMON, *(param.name for param in params)]
        return {key: self._unknown_key(key, own) for key in self.table if key not in own}

    def _unknown_key(self, key: str, own: Sequence[str]) -> InputError:
        for choice, kind in FABRIC_PLUGINS.items():
            others = [one.name for one in registry.all(kind) if one.param(key)]
            if others:
                message = f'has no effect with {choice} = "{self.plugins[choice].name}"'
                hint = "only with " + " or ".join(f'"{name}"' for name in others)
                return InputError(message, key=f"fabric.{key}", hint=hint, code="no_effect")
        hint = did_you_mean(key, [*own, *INNER])
        return InputError(UNKNOWN, key=f"fabric.{key}", hint=hint, code="unknown_key")


def plugin_of(table: Mapping[str, Any], key: str) -> str:
    """Return the plugin (with any preset) that a key of a [fabric] table names.

    Raises InputError, without a file, if it is not a name.
    """
    name = table.get(key, keys_of(Fabric)[key].default)
    if not isinstance(name, str):
        hint = f"one of {', '.join(registry.names(FABRIC_PLUGINS[key]))}"
        raise InputError(f"{written(name)} is not a name", key=f"fabric.{key}", hint=hint)
    return name


def fabric_table(table: Mapping[str, Any]) -> FabricTable:
    """Return a [fabric] table with its plugins; files are relative to the working directory."""
    plugins = {}
    for key, kind in FABRIC_PLUGINS.items():
        name, _ = registry.split_preset(plugin_of(table, key))
        try:
            plugins[key] = registry.find(kind, name)
        except InputError as error:
            raise error.at(key=f"fabric.{key}") from None
    return FabricTable(table, plugins)


def resolve_fabric(table: Mapping[str, Any], packets: PacketFormat) -> Fabric:
    """Return the fabric of a [fabric] table, without keys of other plugins. Raises InputError
    without a file.
    """
    return fabric_of(fabric_table(table), packets)


def fabric_of(source: FabricTable, packets: PacketFormat) -> Fabric:
    """Resolve the fabric of a table with known plugins. Raises InputError without a file."""
    errors: list[InputError] = []
    shared = {key: value for key, value in source.known.items() if key in COMMON}
    own = {key: value for key, value in source.known.items() if key not in COMMON}
    common: dict[str, Any] = {}
    uses: dict[str, PluginSpec] = {}
    try:
        common = _common(shared, source.plugins["queue_discipline"].module, packets)
    except InputError as error:
        errors += error.errors
    taken = dict.fromkeys(COMMON, "the [fabric] key")
    for key, plugin in source.plugins.items():
        preset = registry.split_preset(plugin_of(shared, key))[1]
        given = {name: value for name, value in own.items() if plugin.param(name)}
        try:
            _check_names(plugin, taken)
            uses[key] = _used(key, plugin, preset, given, packets)
        except InputError as error:
            errors += error.errors
        taken |= {param.name: f"the parameter of {plugin.name}" for param in plugin.params}
    raise_all(errors)
    fabric = Fabric(uses["queue_discipline"], uses["routing"], **common)
    errors = [*_contradictions(fabric), *wrong_sizes(fabric, packets)]
    raise_all([*errors, *_refused("routing", fabric, packets)])
    return fabric


def check_common(table: Mapping[str, Any], packets: PacketFormat) -> None:
    """Check the keys of a [fabric] table that are no plugin's."""
    _common({key: value for key, value in table.items() if key in COMMON}, None, packets)


def _common(
    table: Mapping[str, Any], module: ModuleType | None, packets: PacketFormat
) -> dict[str, Any]:
    """Return the fields of `Fabric` except its plugins; the discipline's `module` may set the
    class count."""
    context = {"packet_bytes": packets.data_bytes}
    values = dict(validated(FabricSection, table, "fabric", context))
    for key in FABRIC_PLUGINS:
        del values[key]
    jitter_ps = values.pop("host_jitter") or 0
    ecn, circuits = values.pop("ecn"), values.pop("circuits")
    if values["n_traffic_classes"] is None:  # the discipline's minimum, or the default
        needed = classes_of(module)
        values["n_traffic_classes"] = None if needed is None else needed[0]
    values = _with_defaults(values, keys_of(Fabric))
    if ecn is not None:
        limits = dict(ecn)
        if limits["kmax_bytes"] is None:
            limits["kmax_bytes"] = limits["kmin_bytes"]
        ecn = Ecn(**_with_defaults(limits, keys_of(Ecn)))
    values["ecn"] = ecn
    values["circuits"] = None if circuits is None else _circuits(dict(circuits))
    values["host_jitter_ps"] = jitter_ps
    return values


def _check_names(plugin: Plugin, taken: Mapping[str, str]) -> None:
    """Refuse parameters whose names are `taken`: name -> by what."""
    for param in plugin.params:
        if param.name in taken:
            message = f"conflicts with {taken[param.name]} of this name"
            raise InputError(message, file=str(plugin.path), key=f"PARAMS.{param.name}")


def _used(
    key: str,
    plugin: Plugin,
    preset: str | None,
    given: Mapping[str, Any],
    packets: PacketFormat,
) -> PluginSpec:
    """Return a plugin of [fabric] with its parameters."""
    if preset is not None and preset not in plugin.presets:
        hint = did_you_mean(preset, plugin.presets)
        message = f"unknown preset {written(preset)}"
        raise InputError(message, key=f"fabric.{key}", hint=hint, code="unknown_value")
    size = packets.data_bytes
    params = resolve_params(
        plugin.params, plugin.presets, given, preset, file=None, key="fabric", packet_bytes=size
    )
    return PluginSpec(plugin, params, preset)


def _with_defaults(values: Mapping[str, Any], keys: Mapping[str, Key]) -> dict[str, Any]:
    """Replace None by the default of the key."""
    return {name: keys[name].default if value is None else value for name, value in values.items()}


def _circuits(written: dict[str, Any]) -> CircuitRules:
    given = {
        one.name: written[one.metadata.get("written", one.name)] for one in fields(CircuitRules)
    }
    rules = CircuitRules(**{name: value for name, value in given.items() if value is not None})
    if written["indirect_class"] is not None and rules.indirect != OPPORTUNISTIC:
        message = f'has no effect with indirect = "{rules.indirect}"'
        hint = f'remove it, or use indirect = "{OPPORTUNISTIC}"'
        raise InputError(message, key="fabric.circuits.indirect_class", hint=hint, code="no_effect")
    return rules


def ineffective_keys(fabric: Fabric) -> dict[str, InputError]:
    """Return the errors for keys that have no effect in this fabric."""
    found = {}
    if fabric.ecn is None:
        found["ecn_from_class"] = ("without ECN", "remove it, or add [fabric.ecn]")
    if not fabric.pauses:
        found["allow_deadlock"] = ("without PFC", "remove it, or use a discipline with PFC")
    for use in fabric.plugins.values():
        found |= calls.no_effect(use)
    return {
        key: InputError(f"has no effect {why}", key=f"fabric.{key}", hint=hint, code="no_effect")
        for key, (why, hint) in found.items()
    }


def used_keys(fabric: Fabric) -> set[str]:
    """Return the keys of [fabric] that have an effect in this fabric."""
    keys = {*COMMON, *fabric.params} - ineffective_keys(fabric).keys()
    return keys if fabric.circuits is not None else keys - {"circuits"}


def describe_packets(packets: PacketFormat) -> dict[str, Any]:
    """Return the equivalent [packets] table with all keys."""
    return {
        "payload_bytes": format_bytes(packets.payload_bytes),
        "header_bytes": format_bytes(packets.header_bytes),
        "control_bytes": format_bytes(packets.control_bytes),
    }


def describe_fabric(fabric: Fabric) -> dict[str, Any]:
    """Return the equivalent [fabric] table with all keys that have an effect."""
    table = _described(fabric)
    for use in fabric.plugins.values():
        table |= {param.name: param.format(use.params[param.name]) for param in use.plugin.params}
    keep = used_keys(fabric)
    return {key: value for key, value in table.items() if key in keep}


def size_values(fabric: Fabric) -> dict[str, Any]:
    """Return the values that may be sizes in bdp, by key in [fabric]."""
    ecn = {} if fabric.ecn is None else vars(fabric.ecn)
    return {**fabric.queue.params, **{f"ecn.{name}": value for name, value in ecn.items()}}


def _described(table: Fabric | Ecn) -> dict[str, Any]:
    """Return every key with its value as written."""
    return {
        name: _as_written(getattr(table, one.name), key)
        for one, (name, key) in zip(fields(table), keys_of(type(table)).items(), strict=True)
    }


def _as_written(value: Any, key: Key) -> Any:
    if value is None:
        return key.none
    if isinstance(value, PluginSpec):
        return value.name
    if isinstance(value, Ecn):
        return _described(value)
    if isinstance(value, CircuitRules):
        table = {
            "guard": format_time(value.guard_ps),
            "clock_offset": format_time(value.clock_offset_ps),
            "at_circuit_end": value.at_circuit_end,
            "indirect": value.indirect,
        }
        return table | (
            {"indirect_class": value.indirect_class} if value.indirect == OPPORTUNISTIC else {}
        )
    if key.unit == "time":
        return format_time(value)
    return format_port_size(value) if key.unit == "queue" else value


def _contradictions(fabric: Fabric) -> list[InputError]:
    """Return conflicts between values other than sizes."""
    errors, queue = [], fabric.queue

    def wrong(key: str, message: str, hint: str) -> None:
        errors.append(InputError(message, key=f"fabric.{key}", hint=hint))

    least, most = classes_of(queue.module) or (1, CLASSES)
    if not least <= fabric.n_traffic_classes <= most:
        hint = f"exactly {least}" if least == most else f"{least} to {most}"
        discipline = f'queue_discipline = "{fabric.queue_discipline}"'
        message = f"{fabric.n_traffic_classes} conflicts with {discipline}"
        wrong("n_traffic_classes", message, hint)
    if fabric.n_link_classes > CLASSES:
        message = f"{fabric.n_traffic_classes} conflicts with the {fabric.n_levels} levels of"
        hint = f"at most {CLASSES // fabric.n_levels}"
        wrong("n_traffic_classes", f'{message} routing = "{fabric.routing.name}"', hint)
    if fabric.ecn and fabric.ecn_from_class >= fabric.n_traffic_classes:
        hint = f"0 to {fabric.n_traffic_classes - 1}"
        wrong("ecn_from_class", f"class {fabric.ecn_from_class} does not exist", hint)
    rules = fabric.circuits or CircuitRules()
    if rules.indirect == OPPORTUNISTIC and rules.indirect_class + 1 >= fabric.n_traffic_classes:
        wrong(
            "circuits.indirect_class",
            f"no class above {rules.indirect_class} for indirect packets: n_traffic_classes is "
            f"{fabric.n_traffic_classes}",
            "use a lower class, or more classes, with data in the higher ones",
        )
    if rules.indirect != DIRECT and fabric.symmetric:
        wrong(
            "circuits.indirect",
            f'"{rules.indirect}" conflicts with routing = "{fabric.routing.name}"',
            f'use indirect = "{DIRECT}", or another routing',
        )
    return errors


def wrong_sizes(fabric: Fabric, packets: PacketFormat) -> list[InputError]:
    """Return conflicts between sizes; those in bdp are not checked, but later, at each port."""
    errors = []
    kmin, kmax = (fabric.ecn.kmin_bytes, fabric.ecn.kmax_bytes) if fabric.ecn else (0, 0)
    if isinstance(kmin, int) and isinstance(kmax, int) and kmin > kmax:
        hint = f"at most {format_bytes(kmax)}"
        message = f"{format_bytes(kmin)} exceeds kmax_bytes"
        errors.append(InputError(message, key="fabric.ecn.kmin_bytes", hint=hint))
    if not any(isinstance(value, Bdp) for value in fabric.queue.params.values()):
        errors += _refused("queue_discipline", fabric, packets)
    return errors


def _refused(choice: str, fabric: Fabric, packets: PacketFormat) -> Iterator[InputError]:
    """Yield the errors that a fabric plugin reports."""
    for error in calls.problems(fabric.plugins[choice], fabric, packets):
        key = error.key or choice
        yield error.replace(file=None, key=key if "." in key else f"fabric.{key}")


def report_queue_sizes(points: Sequence[Point]) -> Iterator[str]:
    """Yield lines with the sizes in bdp at each kind of port, once for equal points.

    Builds each point's network. Raises InputError if that fails.
    """
    lines: dict[tuple[str, ...], str] = {}
    for point in points:
        if not point.fabric.has_bdp_sizes:
            continue
        network = built(point.topology, "build", point.topology.params)
        network = with_tables(network, point.fabric.routing)
        sizes = port_sizes(point.fabric, network, point.packets)
        lines.setdefault(tuple(_size_rows(point, sizes)), point.name)
    for rows, name in lines.items():
        yield "Sizes in bdp" + (f" of {name}" if len(lines) > 1 else "") + ":"
        yield from rows


def _size_rows(point: Point, sizes: PortSizes) -> Iterator[str]:
    values = size_values(point.fabric)
    names = [name for name, value in values.items() if isinstance(value, Bdp)]
    kinds = zip(sizes.fabrics, sizes.rate_bps, sizes.round_trip_ps, strict=True)
    for fabric, rate_bps, round_trip_ps in kinds:
        values = size_values(fabric)
        each = ", ".join(f"{name} = {format_bytes(int(values[name]))}" for name in names)
        trip = format_time(round_trip_ps)
        yield f"  ports of {format_rate(rate_bps)}, base round trip {trip}: {each}"
