"""The [packets] and [fabric] sections: defaults, those of the transport, cross checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import ValidationError

from netsim.errors import CombinedInputError, InputError, did_you_mean, raise_all
from netsim.experiment.schema import FabricSection, PacketsSection, problems
from netsim.limits import CLASSES, PACKET_BYTES
from netsim.model.fabric import (
    DIRECT,
    DROP_TAIL,
    ECMP_SYMMETRIC,
    OPPORTUNISTIC,
    CircuitRules,
    Ecn,
    Fabric,
    Key,
    PacketFormat,
    keys_of,
)
from netsim.plugins import calls, registry
from netsim.plugins.declarations import classes_of
from netsim.plugins.params import resolve_params
from netsim.plugins.registry import Plugin, PluginSpec
from netsim.units import format_bytes, format_port_size, format_time, written

COMMON = tuple(keys_of(Fabric))
"""The keys of [fabric] that every discipline shares."""

UNKNOWN = "unknown key"


def resolve_packets(table: Mapping[str, Any]) -> PacketFormat:
    """The packet sizes of a [packets] table; `InputError`s with keys, without a file."""
    try:
        section = PacketsSection.model_validate(table)
    except ValidationError as error:
        raise CombinedInputError(problems(error, PacketsSection, "packets")) from None
    packets = PacketFormat(**section.model_dump())
    if packets.data_bytes > PACKET_BYTES:
        raise InputError(
            f"a packet of {packets.data_bytes} bytes is too large",
            key="packets.payload_bytes",
            hint=f"payload and header together are at most {PACKET_BYTES} bytes",
            code="out_of_range",
        )
    return packets


def fabric_defaults(module: ModuleType, preset: str | None) -> Mapping[str, Any]:
    """The [fabric] table a transport expects: `FABRIC`, below what `PRESET_FABRIC[preset]` says.

    A queue discipline that it names by a path lies beside it. Raises InputError if one of the
    tables is not a dict.
    """
    tables = getattr(module, "PRESET_FABRIC", {})
    declared = {"FABRIC": getattr(module, "FABRIC", {}), "PRESET_FABRIC": tables}
    if isinstance(tables, Mapping):
        declared[f'PRESET_FABRIC["{preset}"]'] = tables.get(preset, {})
    for key, table in declared.items():
        if not isinstance(table, Mapping):
            raise InputError("is not a dict", file=str(module.__file__), key=key, code="wrong_type")
    wished = merge(declared["FABRIC"], tables.get(preset, {}))
    discipline = wished.get("queue_discipline")
    if isinstance(discipline, str) and registry.split_preset(discipline)[0].endswith(".py"):
        wished["queue_discipline"] = str(Path(str(module.__file__)).parent / discipline)
    return wished


def merge(defaults: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    """A fabric overridden key by key, inside the table `ecn` as well."""
    merged = {**defaults, **written}
    if isinstance(defaults.get("ecn"), Mapping) and isinstance(written.get("ecn"), Mapping):
        merged["ecn"] = {**defaults["ecn"], **written["ecn"]}
    return merged


@dataclass(frozen=True)
class Written:
    """A [fabric] table, with the plugin that it names.

    `given` are the keys of `table` that the fabric may have, `foreign` says of the others what is
    wrong with each.
    """

    table: Mapping[str, Any]
    plugin: Plugin

    @property
    def given(self) -> dict[str, Any]:
        """The keys that every discipline has and those of this one, as written."""
        return {key: value for key, value in self.table.items() if key not in self.foreign}

    @cached_property
    def foreign(self) -> dict[str, InputError]:
        """Keys that this discipline has not got, with the error that says so."""
        own = [*COMMON, *(param.name for param in self.plugin.params)]
        return {key: self._no_such(key, own) for key in self.table if key not in own}

    def _no_such(self, key: str, own: Sequence[str]) -> InputError:
        others = [one.name for one in registry.all("queue") if one.param(key)]
        if not others:
            hint = did_you_mean(key, own)
            return InputError(UNKNOWN, key=f"fabric.{key}", hint=hint, code="unknown_key")
        return InputError(
            f'has no effect with queue_discipline = "{self.plugin.name}"',
            key=f"fabric.{key}",
            hint="it belongs to " + " and ".join(f'"{name}"' for name in others),
            code="no_effect",
        )


def discipline_of(table: Mapping[str, Any]) -> str:
    """The queue discipline that a [fabric] table names, by which a preset may follow.

    Raises InputError, without a file, for what is no name.
    """
    discipline = table.get("queue_discipline", DROP_TAIL)
    if not isinstance(discipline, str):
        there = ", ".join(registry.names("queue"))
        message = f"{written(discipline)} is not a name"
        raise InputError(message, key="fabric.queue_discipline", hint=f"there are: {there}")
    return discipline


def written_by(table: Mapping[str, Any]) -> Written:
    """A [fabric] table with its discipline, a file as seen from the current directory."""
    name, _ = registry.split_preset(discipline_of(table))
    try:
        return Written(table, registry.find("queue", name))
    except InputError as error:
        raise error.at(key="fabric.queue_discipline") from None


def resolve_fabric(table: Mapping[str, Any], packets: PacketFormat) -> Fabric:
    """The fabric of a [fabric] table; `InputError`s with keys, without a file.

    Keys of other disciplines are left out.
    """
    return fabric_of(written_by(table), packets)


def fabric_of(source: Written, packets: PacketFormat) -> Fabric:
    """As `resolve_fabric`, of a table whose discipline is found."""
    plugin = source.plugin
    errors: list[InputError] = []
    shared = {key: value for key, value in source.given.items() if key in COMMON}
    own = {key: value for key, value in source.given.items() if key not in COMMON}
    preset = registry.split_preset(shared.get("queue_discipline", DROP_TAIL))[1]
    common: dict[str, Any] = {}
    params: dict[str, Any] = {}
    try:
        common = _common(shared, plugin.module, packets)
    except InputError as error:
        errors += error.errors
    try:
        params = _own(plugin, preset, own, packets)
    except InputError as error:
        errors += error.errors
    raise_all(errors)
    fabric = Fabric(PluginSpec(plugin, params, preset), **common)
    errors = _contradictions(fabric)
    if not fabric.in_products:  # which are looked at port by port, once there is a network
        errors += wrong_sizes(fabric, packets)
    raise_all(errors)
    return fabric


def check_common(table: Mapping[str, Any], packets: PacketFormat) -> None:
    """Raise InputError for what is wrong in a [fabric] table whatever its discipline is."""
    _common({key: value for key, value in table.items() if key in COMMON}, None, packets)


def _common(
    table: Mapping[str, Any], module: ModuleType | None, packets: PacketFormat
) -> dict[str, Any]:
    """The fields of `Fabric` but its discipline, whose file may say how many classes there are."""
    context = {"packet_bytes": packets.data_bytes}
    try:
        section = FabricSection.model_validate(table, context=context)
    except ValidationError as error:
        raise CombinedInputError(problems(error, FabricSection, "fabric")) from None
    values = dict(section)  # its tables and sizes as they are
    del values["queue_discipline"]
    ecn, circuits = values.pop("ecn"), values.pop("circuits")
    if values["n_traffic_classes"] is None:  # which stands for the default, unless the file says it
        needed = classes_of(module)
        values["n_traffic_classes"] = None if needed is None else needed[0]
    values = _with_defaults(values, keys_of(Fabric))
    values["ecn"] = None if ecn is None else _ecn(dict(ecn))
    values["circuits"] = None if circuits is None else _circuits(dict(circuits))
    return values


def _own(
    plugin: Plugin, preset: str | None, given: Mapping[str, Any], packets: PacketFormat
) -> dict[str, Any]:
    """The parameters of a discipline."""
    if preset is not None and preset not in plugin.presets:
        hint = did_you_mean(preset, plugin.presets)
        raise InputError(
            f"unknown preset {written(preset)}",
            key="fabric.queue_discipline",
            hint=hint,
            code="unknown_value",
        )
    for param in plugin.params:
        if param.name in COMMON:
            message = "this name is taken: it is a key of [fabric] for every discipline"
            raise InputError(message, file=str(plugin.path), key=f"PARAMS.{param.name}")
    size = packets.data_bytes
    return resolve_params(
        plugin.params, plugin.presets, given, preset, file=None, key="fabric", packet_bytes=size
    )


def _with_defaults(values: Mapping[str, Any], keys: Mapping[str, Key]) -> dict[str, Any]:
    """The values of keys; those that are None were not written."""
    return {name: keys[name].default if value is None else value for name, value in values.items()}


def _ecn(written: dict[str, Any]) -> Ecn:
    if written["kmax_bytes"] is None:
        written["kmax_bytes"] = written["kmin_bytes"]
    return Ecn(**_with_defaults(written, keys_of(Ecn)))


def _circuits(written: dict[str, Any]) -> CircuitRules:
    given = {
        one.name: written[one.metadata.get("written", one.name)] for one in fields(CircuitRules)
    }
    rules = CircuitRules(**{name: value for name, value in given.items() if value is not None})
    if written["indirect_class"] is not None and rules.indirect != OPPORTUNISTIC:
        raise InputError(
            f'has no effect with indirect = "{rules.indirect}"',
            key="fabric.circuits.indirect_class",
            hint=f'remove it; it belongs to "{OPPORTUNISTIC}"',
            code="no_effect",
        )
    return rules


def ineffective_keys(fabric: Fabric) -> dict[str, InputError]:
    """The keys that make no difference in this fabric, with the error that says why."""
    found = {}
    if fabric.ecn is None:
        found["ecn_from_class"] = ("without ECN", "remove it, or add [fabric.ecn]")
    found |= calls.no_effect(fabric.queue)
    return {
        key: InputError(f"has no effect {why}", key=f"fabric.{key}", hint=hint, code="no_effect")
        for key, (why, hint) in found.items()
    }


def used_keys(fabric: Fabric) -> set[str]:
    """The keys of [fabric] that make a difference in this fabric."""
    keys = {*COMMON, *fabric.queue.params} - ineffective_keys(fabric).keys()
    return keys if fabric.circuits is not None else keys - {"circuits"}


def describe_packets(packets: PacketFormat) -> dict[str, Any]:
    """The [packets] table that says the same, every key written."""
    return {
        "payload_bytes": format_bytes(packets.payload_bytes),
        "header_bytes": format_bytes(packets.header_bytes),
        "control_bytes": format_bytes(packets.control_bytes),
    }


def describe_fabric(fabric: Fabric) -> dict[str, Any]:
    """The [fabric] table that says the same, every key that has an effect written."""
    queue = fabric.queue
    table = _described(fabric)
    table |= {param.name: param.format(queue.params[param.name]) for param in queue.plugin.params}
    keep = used_keys(fabric)
    return {key: value for key, value in table.items() if key in keep}


def size_values(fabric: Fabric) -> dict[str, Any]:
    """The values of a fabric that may be sizes in products, by their keys in [fabric]."""
    ecn = {} if fabric.ecn is None else vars(fabric.ecn)
    return {**fabric.queue.params, **{f"ecn.{name}": value for name, value in ecn.items()}}


def _described(table: Fabric | Ecn) -> dict[str, Any]:
    """Every key with its value as it is written."""
    return {
        name: _as_written(getattr(table, name), key) for name, key in keys_of(type(table)).items()
    }


def _as_written(value: Any, key: Key) -> Any:
    if value is None:
        return key.none
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
    return format_port_size(value) if key.unit == "queue" else value


def _contradictions(fabric: Fabric) -> list[InputError]:
    """What is wrong between values that are each right, and no sizes."""
    errors, queue = [], fabric.queue

    def wrong(key: str, message: str, hint: str) -> None:
        errors.append(InputError(message, key=f"fabric.{key}", hint=hint))

    least, most = classes_of(queue.module) or (1, CLASSES)
    if not least <= fabric.n_traffic_classes <= most:
        hint = f"exactly {least}" if least == most else f"{least} to {most}"
        message = f'{fabric.n_traffic_classes} with queue_discipline = "{fabric.queue_discipline}"'
        wrong("n_traffic_classes", message, hint)
    if fabric.ecn and fabric.ecn_from_class >= fabric.n_traffic_classes:
        there = f"classes are numbered 0 to {fabric.n_traffic_classes - 1}"
        wrong("ecn_from_class", f"there is no class {fabric.ecn_from_class}", there)
    rules = fabric.circuits or CircuitRules()
    if rules.indirect == OPPORTUNISTIC and rules.indirect_class + 1 >= fabric.n_traffic_classes:
        wrong(
            "circuits.indirect_class",
            f"no packet can go indirectly in class {rules.indirect_class}: that is for classes "
            f"above "
            f"it, and n_traffic_classes is {fabric.n_traffic_classes}",
            "a lower one, or more classes, with data in the higher ones",
        )
    if rules.indirect != DIRECT and fabric.load_balancing == ECMP_SYMMETRIC:
        wrong(
            "circuits.indirect",
            f'"{rules.indirect}" takes the two directions of a flow by different ways, '
            f"load_balancing is {ECMP_SYMMETRIC}",
            f'indirect = "{DIRECT}", or another load_balancing',
        )
    return errors


def wrong_sizes(fabric: Fabric, packets: PacketFormat) -> list[InputError]:
    """What is wrong between sizes that are each right, none of them in products."""
    errors = []
    kmin, kmax = (fabric.ecn.kmin_bytes, fabric.ecn.kmax_bytes) if fabric.ecn else (0, 0)
    if isinstance(kmin, int) and isinstance(kmax, int) and kmin > kmax:
        hint = f"at most kmax_bytes, {format_bytes(kmax)}"
        message = f"{format_bytes(kmin)} is more than kmax"
        errors.append(InputError(message, key="fabric.ecn.kmin_bytes", hint=hint))
    for error in calls.problems(fabric.queue, fabric, packets):
        key = error.key or "queue_discipline"
        key = key if "." in key else f"fabric.{key}"
        errors.append(error.replace(file=None, key=key))
    return errors
