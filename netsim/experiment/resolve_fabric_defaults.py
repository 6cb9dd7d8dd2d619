"""Resolve the fabric of a point: the experiment's keys over the defaults of its transports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netsim.errors import CombinedInputError, InputError
from netsim.experiment import resolve_fabric as fabrics
from netsim.experiment.error_collector import ErrorCollector
from netsim.experiment.resolve_fabric import Written
from netsim.experiment.resolve_plugins import PluginResolver
from netsim.lint import check_queue
from netsim.model.fabric import Fabric, PacketFormat
from netsim.plugins import registry
from netsim.plugins.registry import PluginSpec


class FabricResolver:
    """Resolves the fabrics of one experiment, whose plugins `plugins` finds.

    What is wrong goes to its collector.
    """

    def __init__(self, plugins: PluginResolver, errors: ErrorCollector) -> None:
        self._plugins = plugins
        self._errors = errors
        self._ineffective: dict[str, InputError] = {}
        self._effective: set[str] = set()

    def fabric(
        self, table: Any, transports: Mapping[str, PluginSpec], packets: PacketFormat
    ) -> Fabric | None:
        """The fabric of a [fabric] table; None after noting what is wrong.

        `transports` are those of the point by the section that names them, its own first: that
        one's defaults hold where the table says nothing, with traffic classes enough for all.
        """
        if not isinstance(table, dict):
            return None  # noted when the top level was checked
        uses = [(use.plugin.path, use.preset, use.params) for use in transports.values()]
        memo = f"fabric {table!r} {uses!r} {packets!r}"
        found = self._errors.once("fabric", memo, lambda: self._resolve(table, transports, packets))
        if found is None:
            return None
        source, fabric = found
        errors = source.foreign | fabrics.ineffective_keys(fabric)
        self._effective |= source.table.keys() - errors.keys()
        for key in table:
            if key in errors:
                self._ineffective.setdefault(key, errors[key])
        return fabric

    def note_ineffective_keys(self) -> None:
        """Note the keys of [fabric] that no point heeds, once every point is known."""
        for key, error in self._ineffective.items():
            # What an override leaves without effect is fine: "--set transport=ndp" picks one
            # point of a file that is written for more. What it adds itself has to matter.
            if key not in self._effective and (
                error.message == fabrics.UNKNOWN
                or not self._overrides_choose()
                or self._errors.is_overridden(error.key)
            ):
                self._errors.note(error)

    def _overrides_choose(self) -> bool:
        sections = {path.split(".")[0] for path in self._errors.overridden}
        return not sections.isdisjoint(("transport", "fabric"))

    def _resolve(
        self,
        table: Mapping[str, Any],
        transports: Mapping[str, PluginSpec],
        packets: PacketFormat,
    ) -> tuple[Written, Fabric] | None:
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
            plugin = self._plugins.find("fabric", fabrics.discipline_of(merged))
            if plugin is None:
                fabrics.check_common(merged, packets)
                return None
            source = Written(merged, plugin)
            fabric = fabrics.fabric_of(source, packets)
        except InputError as error:
            raise _own_errors(transports[first], own, packets) or error from None
        check_queue(fabric.queue.plugin, fabric.queue.params)
        if source.foreign.keys() - table.keys():
            _refuse_unknown(transports[first], own)
        for section, use in transports.items():
            _check_classes(fabric, use, section, by_section[section])
        return source, fabric

    def _merged(self, defaults: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
        """A transport's defaults overridden by a table, also by the preset that it names."""
        name, preset = registry.split_preset(str(table.get("queue_discipline", "")))
        plugin = self._plugins.find("fabric", name) if preset is not None else None
        if plugin is not None:
            given = plugin.presets.get(preset or "", {})
            defaults = {key: value for key, value in defaults.items() if key not in given}
        return fabrics.merge(defaults, table)


def _own_errors(
    transport: PluginSpec, defaults: Mapping[str, Any], packets: PacketFormat
) -> InputError | None:
    """What is wrong with the fabric that a transport declares, whatever the experiment says."""
    try:
        fabrics.resolve_fabric(defaults, packets)
    except InputError as error:
        own = [e for e in error.errors if e.key and e.key.startswith("fabric.")]
        return CombinedInputError(_as_declared(transport, e) for e in own) if own else None
    return None


def _refuse_unknown(transport: PluginSpec, defaults: Mapping[str, Any]) -> None:
    """Refuse a key of the fabric that a transport declares, if its discipline has none such."""
    errors = fabrics.written_by(defaults).foreign.values()
    unknown = [error for error in errors if error.message == fabrics.UNKNOWN]
    if unknown:
        raise CombinedInputError(_as_declared(transport, error) for error in unknown)


def _as_declared(transport: PluginSpec, error: InputError) -> InputError:
    """An error of a fabric as one of the transport's file that declares it."""
    key = f"FABRIC.{(error.key or '').removeprefix('fabric.')}"
    return error.replace(file=str(transport.plugin.path), key=key)


def _check_classes(
    fabric: Fabric, transport: PluginSpec, section: str, defaults: Mapping[str, Any]
) -> None:
    """Refuse fewer classes than the transport says it uses, or than its parameters name."""
    needed = defaults.get("n_traffic_classes", 1)
    if fabric.n_traffic_classes < needed:
        raise InputError(
            f"{fabric.n_traffic_classes} traffic class(es) for {transport.name}",
            key="fabric.n_traffic_classes",
            hint=f"at least {needed}",
        )
    for name, value in transport.params.items():
        if name.endswith("_class") and isinstance(value, int) and value >= fabric.n_traffic_classes:
            raise InputError(
                f"there is no class {value}",
                key=f"{section}.{name}",
                hint=f"0 to {fabric.n_traffic_classes - 1}: fabric.n_traffic_classes is the number",
            )
