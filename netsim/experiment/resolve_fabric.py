"""Resolve [fabric]: defaults, the transport's values, and conflicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from netsim.errors import InputError, did_you_mean, errors_at, raise_all
from netsim.experiment.document import FABRIC_PLUGINS
from netsim.experiment.schema import Point
from netsim.frozen import frozen
from netsim.model.builder import built, with_tables
from netsim.model.fabric import (
    OPPORTUNISTIC,
    CircuitRules,
    Ecn,
    Fabric,
    PacketFormat,
    PortSizes,
    port_sizes,
)
from netsim.params import Param, keys_by_field, keys_of, read_keys, resolve_params
from netsim.plugins import registry
from netsim.plugins.declarations import classes_of
from netsim.plugins.registry import Plugin, PluginSpec
from netsim.units import Bdp, format_bytes, format_rate, format_time, written

COMMON = tuple(keys_of(Fabric))  # keys of [fabric] that belong to no plugin

INNER = tuple(
    f"{table}.{key}"
    for table, keys in (("ecn", keys_of(Ecn)), ("circuits", keys_of(CircuitRules)))
    for key in keys
)
"""Keys of tables in [fabric]."""

UNKNOWN = "unknown key"


def fabric_defaults(module: ModuleType, preset: str | None) -> Mapping[str, Any]:
    """Return the [fabric] table that a transport expects: `FABRIC` and `PRESET_FABRIC[preset]`. A
    plugin given as a path is relative to the transport."""
    presets = getattr(module, "PRESET_FABRIC", {})
    defaults = merge(getattr(module, "FABRIC", {}), presets.get(preset, {}))
    for key in FABRIC_PLUGINS:
        name = defaults.get(key)
        if isinstance(name, str) and registry.split_preset(name)[0].endswith(".py"):
            defaults[key] = str(Path(str(module.__file__)).parent / name)
    return defaults


def merge(defaults: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    """Return a fabric with overrides applied key by key, also within `ecn`."""
    merged = {**defaults, **written}
    if isinstance(defaults.get("ecn"), Mapping) and isinstance(written.get("ecn"), Mapping):
        merged["ecn"] = {**defaults["ecn"], **written["ecn"]}
    return merged


@frozen
class FabricTable:
    """A [fabric] table and its plugins by key. `known` has the valid keys of `table`, `unknown` the
    errors for the others."""

    table: Mapping[str, Any]
    plugins: Mapping[str, Plugin]

    @property
    def known(self) -> dict[str, Any]:
        """The common keys and these plugins' keys, as written."""
        return {key: value for key, value in self.table.items() if key not in self.unknown}

    @cached_property
    def unknown(self) -> dict[str, InputError]:
        """Errors for keys that these plugins do not have."""
        params = [param for plugin in self.plugins.values() for param in plugin.params]
        own = [*COMMON, *(param.name for param in params)]
        return {key: self._unknown_key(key, own) for key in self.table if key not in own}

    def _unknown_key(self, key: str, own: Sequence[str]) -> InputError:
        for choice, kind in FABRIC_PLUGINS.items():
            others = [one.name for one in registry.plugins(kind) if one.param(key)]
            if others:
                message = f'has no effect with {choice} = "{self.plugins[choice].name}"'
                hint = "only with " + " or ".join(f'"{name}"' for name in others)
                return InputError(message, key=f"fabric.{key}", hint=hint, code="no_effect")
        hint = did_you_mean(key, [*own, *INNER])
        return InputError(UNKNOWN, key=f"fabric.{key}", hint=hint, code="unknown_key")


def plugin_of(table: Mapping[str, Any], key: str) -> str:
    """Return the plugin (with any preset) that a key of a [fabric] table names. Raises InputError,
    without a file, if it is not a name."""
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
        with errors_at(key=f"fabric.{key}"):
            plugins[key] = registry.find(kind, name)
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
    errors = [error.under("fabric") for error in fabric.conflicts({})]
    errors += wrong_sizes(fabric, packets)
    raise_all([*errors, *_refused("routing", fabric, packets)])
    return fabric


def check_common(table: Mapping[str, Any], packets: PacketFormat) -> None:
    """Check the keys of a [fabric] table that no plugin declares."""
    _common({key: value for key, value in table.items() if key in COMMON}, None, packets)


def _common(
    table: Mapping[str, Any], module: ModuleType | None, packets: PacketFormat
) -> dict[str, Any]:
    """Return the fields of `Fabric` except its plugins; the discipline's `module` may set the
    class count."""
    given = {key: value for key, value in table.items() if key not in FABRIC_PLUGINS}
    given |= {key: "none" for key in ("ecn", "llr") if given.get(key) is False}
    if given.get("llr") is True:
        given["llr"] = {}
    if (needed := classes_of(module)) is not None:
        given.setdefault("n_traffic_classes", needed[0])
    fields = {
        field: param
        for field, param in keys_by_field(Fabric).items()
        if param.name not in FABRIC_PLUGINS
    }
    try:
        values = read_keys(fields.values(), given, packets.data_bytes)
    except InputError as error:
        raise error.under("fabric") from None
    return {field: values[param.name] for field, param in fields.items()}


def _check_names(plugin: Plugin, taken: Mapping[str, str]) -> None:
    """Raise InputError for a parameter whose name is `taken` (name -> what has it)."""
    for param in plugin.params:
        if param.name in taken:
            message = f"conflicts with {taken[param.name]} of this name"
            raise InputError(message, file=str(plugin.path), key=f"PARAMS.{param.name}")


def _used(
    key: str, plugin: Plugin, preset: str | None, given: Mapping[str, Any], packets: PacketFormat
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


def ineffective_keys(fabric: Fabric) -> dict[str, InputError]:
    """Return the errors for keys that have no effect in this fabric."""
    found = {}
    if fabric.ecn is None:
        found["ecn_from_class"] = ("without ECN", "remove it, or add [fabric.ecn]")
    if not fabric.pauses:
        found["allow_deadlock"] = ("without PFC", "remove it, or use a discipline with PFC")
    for use in fabric.plugins.values():
        found |= registry.no_effect(use)
    return {
        key: InputError(f"has no effect {why}", key=f"fabric.{key}", hint=hint, code="no_effect")
        for key, (why, hint) in found.items()
    }


def used_keys(fabric: Fabric) -> set[str]:
    """Return the keys of [fabric] that have an effect in this fabric."""
    keys = {*COMMON, *fabric.params} - ineffective_keys(fabric).keys()
    return keys - {name for name in ("circuits", "llr") if getattr(fabric, name) is None}


def describe_fabric(fabric: Fabric) -> dict[str, Any]:
    """Return the equivalent [fabric] table with all keys that have an effect."""
    table = {
        param.name: _described(param, getattr(fabric, field))
        for field, param in keys_by_field(Fabric).items()
    }
    for use in fabric.plugins.values():
        table |= {param.name: param.format(use.params[param.name]) for param in use.plugin.params}
    keep = used_keys(fabric)
    return {key: value for key, value in table.items() if key in keep}


def size_values(fabric: Fabric) -> dict[str, Any]:
    """Return the values that may be sizes in bdp, by key in [fabric]."""
    ecn = {} if fabric.ecn is None else vars(fabric.ecn)
    return {**fabric.queue.params, **{f"ecn.{name}": value for name, value in ecn.items()}}


def _described(param: Param, value: Any) -> Any:
    """Return the value of a key of [fabric] as written."""
    if isinstance(value, PluginSpec):
        return value.name
    table = param.format(value)
    if isinstance(value, CircuitRules) and value.indirect != OPPORTUNISTIC:
        del table["indirect_class"]
    return table


def wrong_sizes(fabric: Fabric, packets: PacketFormat) -> list[InputError]:
    """Return conflicts between sizes; sizes in bdp are checked later, at each port."""
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
    for error in registry.problems(fabric.plugins[choice], fabric, packets):
        key = error.key or choice
        yield error.replace(file=None, key=key if "." in key else f"fabric.{key}")


def report_queue_sizes(points: Sequence[Point]) -> Iterator[str]:
    """Yield lines with the sizes in bdp at each kind of port, once for equal points. Builds each
    point's network. Raises InputError if that fails."""
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
