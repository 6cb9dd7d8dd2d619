"""The [packets] and [fabric] sections: defaults, the transport's wishes, cross checks."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from pydantic import ValidationError

from netsim.errors import CombinedInputError, InputError
from netsim.experiment.schema import EcnSection, FabricSection, PacketsSection, problems
from netsim.limits import PACKET_BYTES
from netsim.model.fabric import Ecn, Fabric, PacketFormat
from netsim.units import format_bytes

DEFAULT_QUEUE_PACKETS = 100
DEFAULT_TRIM_QUEUE_PACKETS = 8
DEFAULT_XOFF_PACKETS = 15
DEFAULT_XON_PACKETS = 12

_COMMON_KEYS = {"model", "load_balancing", "n_classes", "ecn"}
_QUEUE_KEYS = {
    "drop_tail": {"queue_bytes"},
    "trim": {"queue_bytes", "header_queue_bytes", "header_ratio"},
    "lossless": {"xoff_bytes", "xon_bytes", "headroom_bytes", "shared_buffer_bytes"},
}
_SHARED_KEYS = {"shared_buffer_bytes", "alpha", "xon_gap_bytes", "headroom_bytes"}


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
    full = packets.data_bytes
    trim = section.model == "trim"
    values = section.model_dump(exclude={"ecn"})
    defaults = {
        "n_classes": 2 if trim else 1,
        "queue_bytes": full * (DEFAULT_TRIM_QUEUE_PACKETS if trim else DEFAULT_QUEUE_PACKETS),
        "header_queue_bytes": full * DEFAULT_QUEUE_PACKETS,
        "xoff_bytes": full * DEFAULT_XOFF_PACKETS,
        "xon_bytes": full * DEFAULT_XON_PACKETS,
    }
    values |= {name: value for name, value in defaults.items() if values[name] is None}
    fabric = Fabric(**values, ecn=_ecn(section.ecn))
    errors = _contradictions(fabric, packets)
    if errors:
        raise CombinedInputError(errors)
    return fabric


def used_keys(fabric: Fabric) -> set[str]:
    """The keys of [fabric] that make a difference in this fabric."""
    keys = _COMMON_KEYS | _QUEUE_KEYS[fabric.model]
    if fabric.model == "lossless" and fabric.shared_buffer_bytes is not None:
        keys = _COMMON_KEYS | _SHARED_KEYS
    return keys | ({"ecn_from_class"} if fabric.ecn else set())


def no_effect(key: str, fabric: Fabric) -> InputError:
    """The error for a key of [fabric] that no point of the experiment heeds."""
    if key == "ecn_from_class":
        reason, hint = "without ECN", "remove it, or add [fabric.ecn]"
    elif fabric.model == "lossless" and key in ("xoff_bytes", "xon_bytes"):
        reason = "with a shared buffer, whose thresholds move"
        hint = 'remove it, or set shared_buffer_bytes = "none"'
    elif fabric.model == "lossless" and key in _SHARED_KEYS:
        reason, hint = "without a shared buffer", "remove it, or set shared_buffer_bytes"
    else:
        models = [name for name, keys in _QUEUE_KEYS.items() if key in keys]
        models = models or ["lossless"]
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
    ecn = fabric.ecn
    table: dict[str, Any] = {
        "model": fabric.model,
        "load_balancing": fabric.load_balancing,
        "n_classes": fabric.n_classes,
        "queue_bytes": format_bytes(fabric.queue_bytes),
        "header_queue_bytes": format_bytes(fabric.header_queue_bytes),
        "header_ratio": fabric.header_ratio,
        "ecn": {
            "kmin_bytes": format_bytes(ecn.kmin_bytes),
            "kmax_bytes": format_bytes(ecn.kmax_bytes),
            "pmax": ecn.pmax,
            "at": ecn.at,
        }
        if ecn
        else "none",
        "ecn_from_class": fabric.ecn_from_class,
        "xoff_bytes": format_bytes(fabric.xoff_bytes),
        "xon_bytes": format_bytes(fabric.xon_bytes),
        "headroom_bytes": _or_word(fabric.headroom_bytes, "auto"),
        "shared_buffer_bytes": _or_word(fabric.shared_buffer_bytes, "none"),
        "alpha": fabric.alpha,
        "xon_gap_bytes": format_bytes(fabric.xon_gap_bytes),
    }
    keep = used_keys(fabric)
    return {key: value for key, value in table.items() if key in keep}


def _or_word(size_bytes: int | None, word: str) -> str:
    return word if size_bytes is None else format_bytes(size_bytes)


def _ecn(section: EcnSection | None) -> Ecn | None:
    if section is None:
        return None
    kmax = section.kmin_bytes if section.kmax_bytes is None else section.kmax_bytes
    return Ecn(section.kmin_bytes, kmax, section.pmax, section.at)


def _contradictions(fabric: Fabric, packets: PacketFormat) -> list[InputError]:
    """What is wrong between values that are each right."""
    full, errors = packets.data_bytes, []

    def wrong(key: str, message: str, hint: str) -> None:
        errors.append(InputError(message, key=f"fabric.{key}", hint=hint))

    used = used_keys(fabric)
    if fabric.model == "trim" and fabric.n_classes != 2:
        wrong("n_classes", f'{fabric.n_classes} with model "trim"', "headers and data: exactly 2")
    if fabric.model == "trim" and packets.control_bytes > packets.header_bytes + 1:
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
    if fabric.model == "lossless" and shared is not None and shared < full:
        hint = f"at least {format_bytes(full)}"
        wrong("shared_buffer_bytes", f"{format_bytes(shared)} does not hold one packet", hint)
    if fabric.ecn and fabric.ecn.kmin_bytes > fabric.ecn.kmax_bytes:
        hint = f"at most kmax_bytes, {format_bytes(fabric.ecn.kmax_bytes)}"
        wrong("ecn.kmin_bytes", f"{format_bytes(fabric.ecn.kmin_bytes)} is more than kmax", hint)
    return errors
