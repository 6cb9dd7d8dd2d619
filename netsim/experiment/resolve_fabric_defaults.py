"""Resolve the fabric of a point: the experiment's keys over its transports' defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netsim import lint
from netsim.errors import CombinedInputError, InputError
from netsim.experiment import resolve_fabric as fabrics
from netsim.experiment.document import FABRIC_PLUGINS, ErrorCollector
from netsim.experiment.resolve_fabric import FabricTable
from netsim.experiment.resolve_plugins import PluginResolver
from netsim.model.fabric import Fabric, PacketFormat
from netsim.plugins import registry
from netsim.plugins.registry import PluginSpec


class FabricResolver:
    """Resolves the fabrics of one experiment and collects their errors."""

    def __init__(self, plugins: PluginResolver, errors: ErrorCollector) -> None:
        self._plugins = plugins
        self._errors = errors
        self._ineffective: dict[str, InputError] = {}
        self._effective: set[str] = set()

    def fabric(
        self, table: Any, transports: Mapping[str, PluginSpec], packets: PacketFormat
    ) -> Fabric | None:
        """Return the fabric of a [fabric] table; None after noting its errors.

        `transports` are those of the point by section, its own first. That one sets the defaults,
        with enough traffic classes for all.
        """
        if not isinstance(table, dict):
            return None  # noted when the top level was checked
        uses = [(use.plugin.path, use.preset, use.params) for use in transports.values()]
        memo = f"fabric {table!r} {uses!r} {packets!r}"
        found = self._errors.once("fabric", memo, lambda: self._resolve(table, transports, packets))
        if found is None:
            return None
        source, fabric = found
        errors = source.unknown | fabrics.ineffective_keys(fabric)
        self._effective |= source.table.keys() - errors.keys()
        for key in table:
            if key in errors:
                self._ineffective.setdefault(key, errors[key])
        return fabric

    def note_ineffective_keys(self) -> None:
        """Note the keys of [fabric] that have no effect in any point; call it after the last
        one.
        """
        sections = {path.split(".")[0] for path in self._errors.overridden}
        may_choose = not sections.isdisjoint(("transport", "fabric"))
        for key, error in self._ineffective.items():
            # An override may make keys of the file ineffective, since "--set transport=ndp" picks
            # one of its points. Keys that it sets itself must have an effect.
            if key not in self._effective and (
                error.message == fabrics.UNKNOWN
                or not may_choose
                or self._errors.is_overridden(error.key)
            ):
                self._errors.note(error)

    def _resolve(
        self, table: Mapping[str, Any], transports: Mapping[str, PluginSpec], packets: PacketFormat
    ) -> tuple[FabricTable, Fabric] | None:
        by_section = {
            section: fabrics.fabric_defaults(use.module, use.preset)
            for section, use in transports.items()
        }
        first = next(iter(transports))
        defaults = own = by_section[first]
        if len(by_section) > 1:
            n_traffic_classes = max(one.get("n_traffic_classes", 1) for one in by_section.values())
            defaults = by_section[first] = {**own, "n_traffic_classes": n_traffic_classes}
        try:
            merged = self._merged(defaults, table)
            plugins = {}
            for key in FABRIC_PLUGINS:
                plugin = self._plugins.find(f"fabric.{key}", fabrics.plugin_of(merged, key))
                if plugin is not None:
                    plugins[key] = plugin
            if len(plugins) < len(FABRIC_PLUGINS):
                fabrics.check_common(merged, packets)
                return None
            source = FabricTable(merged, plugins)
            fabric = fabrics.fabric_of(source, packets)
        except InputError as error:
            raise _declared_errors(transports[first], own, packets) or error from None
        lint.check(fabric.queue.plugin, fabric.queue.params)
        lint.check(fabric.routing.plugin, fabric.routing.params)
        if source.unknown.keys() - table.keys():
            _refuse_unknown(transports[first], own)
        for section, use in transports.items():
            _check_classes(fabric, use, section, by_section[section])
        return source, fabric

    def _merged(self, defaults: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
        """Return a transport's defaults, overridden by a table and by the presets that it names."""
        for choice in FABRIC_PLUGINS:
            name, preset = registry.split_preset(str(table.get(choice, "")))
            plugin = self._plugins.find(f"fabric.{choice}", name) if preset is not None else None
            if plugin is not None:
                values = plugin.presets.get(preset or "", {})
                defaults = {key: value for key, value in defaults.items() if key not in values}
        return fabrics.merge(defaults, table)


def _declared_errors(
    transport: PluginSpec, defaults: Mapping[str, Any], packets: PacketFormat
) -> InputError | None:
    """Return the errors in the fabric that a transport declares."""
    try:
        fabrics.resolve_fabric(defaults, packets)
    except InputError as error:
        own = [e for e in error.errors if e.key and e.key.startswith("fabric.")]
        return CombinedInputError(_as_declared(transport, e) for e in own) if own else None
    return None


def _refuse_unknown(transport: PluginSpec, defaults: Mapping[str, Any]) -> None:
    """Raise InputError for unknown keys in the fabric that a transport declares."""
    errors = fabrics.fabric_table(defaults).unknown.values()
    unknown = [error for error in errors if error.message == fabrics.UNKNOWN]
    if unknown:
        raise CombinedInputError(_as_declared(transport, error) for error in unknown)


def _as_declared(transport: PluginSpec, error: InputError) -> InputError:
    """Return an error of a fabric as one of the transport that declares it."""
    key = f"FABRIC.{(error.key or '').removeprefix('fabric.')}"
    return error.replace(file=str(transport.plugin.path), key=key)


def _check_classes(
    fabric: Fabric, transport: PluginSpec, section: str, defaults: Mapping[str, Any]
) -> None:
    """Raise InputError for fewer classes than the transport or its parameters need."""
    needed = defaults.get("n_traffic_classes", 1)
    if fabric.n_traffic_classes < needed:
        message = f"{fabric.n_traffic_classes} is too few for {transport.name}"
        raise InputError(message, key="fabric.n_traffic_classes", hint=f"at least {needed}")
    for name, value in transport.params.items():
        if name.endswith("_class") and isinstance(value, int) and value >= fabric.n_traffic_classes:
            hint = f"below fabric.n_traffic_classes = {fabric.n_traffic_classes}"
            raise InputError(f"class {value} does not exist", key=f"{section}.{name}", hint=hint)
