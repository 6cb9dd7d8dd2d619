"""The [packets] and [fabric] sections: defaults, the transport's wishes, cross checks."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from pydantic import ValidationError

from netsim.errors import CombinedInputError, InputError
from netsim.experiment.schema import FabricSection, PacketsSection, problems
from netsim.limits import PACKET_BYTES
from netsim.model.fabric import (
    LOSSLESS,
    MARKING,
    MODELS,
    SHARED_BUFFER,
    TRIM,
    Ecn,
    Fabric,
    Key,
    PacketFormat,
    keys_of,
)
from netsim.units import format_bytes


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
        )
    return packets


def wishes(module: ModuleType, preset: str | None) -> Mapping[str, Any]:
    """The [fabric] table a transport expects: `FABRIC`, below what `PRESET_FABRIC[preset]` says.

    Raises InputError if one of them is not a dict.
    """
    tables = getattr(module, "PRESET_FABRIC", {})
    declared = {"FABRIC": getattr(module, "FABRIC", {}), "PRESET_FABRIC": tables}
    if isinstance(tables, Mapping):
        declared[f'PRESET_FABRIC["{preset}"]'] = tables.get(preset, {})
    for key, table in declared.items():
        if not isinstance(table, Mapping):
            raise InputError("is not a dict", file=str(module.__file__), key=key)
    return merge(declared["FABRIC"], tables.get(preset, {}))


def merge(wishes: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    """A fabric overridden key by key, inside the table `ecn` as well."""
    merged = {**wishes, **written}
    if isinstance(wishes.get("ecn"), Mapping) and isinstance(written.get("ecn"), Mapping):
        merged["ecn"] = {**wishes["ecn"], **written["ecn"]}
    return merged


def resolve_fabric(table: Mapping[str, Any], packets: PacketFormat) -> Fabric:
    """The fabric of a [fabric] table; `InputError`s with keys, without a file."""
    context = {"packet_bytes": packets.data_bytes}
    try:
        section = FabricSection.model_validate(table, context=context)
    except ValidationError as error:
        raise CombinedInputError(problems(error, FabricSection, "fabric")) from None
    written = section.model_dump()
    ecn = written.pop("ecn")
    model = written["model"] or keys_of(Fabric)["model"].default
    values = _with_defaults(written, keys_of(Fabric), model, packets)
    fabric = Fabric(**values, ecn=None if ecn is None else _ecn(ecn, model, packets))
    errors = _contradictions(fabric, packets)
    if errors:
        raise CombinedInputError(errors)
    return fabric


def _with_defaults(
    written: Mapping[str, Any], keys: Mapping[str, Key], model: str, packets: PacketFormat
) -> dict[str, Any]:
    """The values of keys; those that are None were not written."""
    return {
        name: keys[name].default_in(model, packets.data_bytes) if value is None else value
        for name, value in written.items()
    }


def _ecn(written: dict[str, Any], model: str, packets: PacketFormat) -> Ecn:
    if written["kmax_bytes"] is None:
        written["kmax_bytes"] = written["kmin_bytes"]
    return Ecn(**_with_defaults(written, keys_of(Ecn), model, packets))


def used_keys(fabric: Fabric) -> set[str]:
    """The keys of [fabric] that make a difference in this fabric."""
    return {
        name
        for name, key in keys_of(Fabric).items()
        if not key.heeded_by or fabric.kinds.intersection(key.heeded_by)
    }


def no_effect(key: str, fabric: Fabric) -> InputError:
    """The error for a key of [fabric] that no point of the experiment heeds."""
    heeded_by = keys_of(Fabric)[key].heeded_by
    if MARKING in heeded_by:
        reason, hint = "without ECN", "remove it, or add [fabric.ecn]"
    elif fabric.model == LOSSLESS and LOSSLESS in heeded_by:
        reason = "with a shared buffer, whose thresholds move"
        hint = 'remove it, or set shared_buffer_bytes = "none"'
    elif fabric.model == LOSSLESS and SHARED_BUFFER in heeded_by:
        reason, hint = "without a shared buffer", "remove it, or set shared_buffer_bytes"
    else:
        models = [name for name in MODELS if name in heeded_by] or [LOSSLESS]
        reason = f'with model "{fabric.model}"'
        hint = "it belongs to " + " and ".join(f'"{name}"' for name in models)
    return InputError(f"has no effect {reason}", key=f"fabric.{key}", hint=hint)


def describe_packets(packets: PacketFormat) -> dict[str, Any]:
    """The [packets] table that says the same, every key written."""
    return {
        "payload_bytes": format_bytes(packets.payload_bytes),
        "header_bytes": format_bytes(packets.header_bytes),
        "control_bytes": format_bytes(packets.control_bytes),
    }


def describe_fabric(fabric: Fabric) -> dict[str, Any]:
    """The [fabric] table that says the same, every key that has an effect written."""
    table = _described(fabric)
    keep = used_keys(fabric)
    return {key: value for key, value in table.items() if key in keep}


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
    return format_bytes(value) if key.unit == "queue" else value


def _contradictions(fabric: Fabric, packets: PacketFormat) -> list[InputError]:
    """What is wrong between values that are each right."""
    full, errors = packets.data_bytes, []

    def wrong(key: str, message: str, hint: str) -> None:
        errors.append(InputError(message, key=f"fabric.{key}", hint=hint))

    used = used_keys(fabric)
    if fabric.model == TRIM and fabric.n_classes != 2:
        wrong("n_classes", f'{fabric.n_classes} with model "trim"', "headers and data: exactly 2")
    if fabric.model == TRIM and packets.control_bytes > packets.header_bytes + 1:
        # The smallest data packet carries one byte; trimming must not make it grow.
        errors.append(
            InputError(
                f"a trimmed header of {format_bytes(packets.control_bytes)} is larger than "
                f"a packet of one byte, {format_bytes(packets.header_bytes + 1)}",
                key="packets.control_bytes",
                hint="at most header_bytes + 1B",
            )
        )
    if "ecn_from_class" in used and fabric.ecn_from_class >= fabric.n_classes:
        classes = f"classes are numbered 0 to {fabric.n_classes - 1}"
        wrong("ecn_from_class", f"there is no class {fabric.ecn_from_class}", classes)
    for key, least in (("queue_bytes", full), ("header_queue_bytes", packets.control_bytes)):
        size = getattr(fabric, key)
        if key in used and size < least:
            hint = f"at least {format_bytes(least)}"
            wrong(key, f"{format_bytes(size)} does not hold one packet", hint)
    if "xon_bytes" in used and fabric.xon_bytes > fabric.xoff_bytes:
        hint = f"at most xoff_bytes, {format_bytes(fabric.xoff_bytes)}"
        wrong("xon_bytes", f"{format_bytes(fabric.xon_bytes)} is more than XOFF", hint)
    if "xon_bytes" in used and fabric.xon_bytes == 0:
        wrong("xon_bytes", "a pause would never end", "at least one byte")
    shared = fabric.shared_buffer_bytes
    if fabric.model == LOSSLESS and shared is not None and shared < full:
        hint = f"at least {format_bytes(full)}"
        wrong("shared_buffer_bytes", f"{format_bytes(shared)} does not hold one packet", hint)
    if fabric.ecn and fabric.ecn.kmin_bytes > fabric.ecn.kmax_bytes:
        hint = f"at most kmax_bytes, {format_bytes(fabric.ecn.kmax_bytes)}"
        wrong("ecn.kmin_bytes", f"{format_bytes(fabric.ecn.kmin_bytes)} is more than kmax", hint)
    return errors
