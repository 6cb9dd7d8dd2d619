"""The fabric of a point: what its transports wish for, changed by what the experiment says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netsim.errors import CombinedInputError, InputError
from netsim.experiment import resolve_fabric as fabrics
from netsim.experiment.mistakes import Mistakes
from netsim.model.fabric import Fabric, PacketFormat
from netsim.plugins.registry import PluginUse


class FabricResolver:
    """Resolves the fabrics of one experiment; what is wrong goes to its `Mistakes`."""

    def __init__(self, mistakes: Mistakes) -> None:
        self._mistakes = mistakes
        self._unheeded: dict[str, InputError] = {}
        self._heeded: set[str] = set()

    def fabric(
        self, table: Any, transports: Mapping[str, PluginUse], packets: PacketFormat
    ) -> Fabric | None:
        """The fabric of a [fabric] table; None after noting what is wrong.

        `transports` are those of the point by the section that names them, its own first: that
        one's wishes stand where the table says nothing, with traffic classes enough for all.
        """
        if not isinstance(table, dict):
            return None  # noted when the top level was checked
        uses = [(use.plugin.path, use.preset, use.params) for use in transports.values()]
        memo = f"fabric {table!r} {uses!r} {packets!r}"
        fabric = self._mistakes.once("fabric", memo, lambda: _resolve(table, transports, packets))
        if fabric is not None:
            used = fabrics.used_keys(fabric)
            self._heeded |= used
            for key in table:
                if key not in used:
                    self._unheeded.setdefault(key, fabrics.no_effect(key, fabric))
        return fabric

    def note_unheeded(self) -> None:
        """Note the keys of [fabric] that no point heeds, once every point is known."""
        for key, error in self._unheeded.items():
            # What an override leaves without effect is fine: "--set transport=ndp" picks one
            # point of a file that is written for more. What it adds itself has to matter.
            if key not in self._heeded and (
                not self._overrides_choose() or self._mistakes.is_overridden(error.key)
            ):
                self._mistakes.note(error)

    def _overrides_choose(self) -> bool:
        sections = {path.split(".")[0] for path in self._mistakes.overridden}
        return not sections.isdisjoint(("transport", "fabric"))


def _resolve(
    table: Mapping[str, Any], transports: Mapping[str, PluginUse], packets: PacketFormat
) -> Fabric:
    by_section = {
        section: fabrics.wishes(use.module, use.preset) for section, use in transports.items()
    }
    first = next(iter(transports))
    wishes = own = by_section[first]
    if len(by_section) > 1:
        n_classes = max(wish.get("n_classes", 1) for wish in by_section.values())
        wishes = by_section[first] = {**own, "n_classes": n_classes}
    try:
        fabric = fabrics.resolve_fabric(fabrics.merge(wishes, table), packets)
    except InputError as error:
        raise _own_mistakes(transports[first], own, packets) or error from None
    for section, use in transports.items():
        _check_classes(fabric, use, section, by_section[section])
    return fabric


def _own_mistakes(
    transport: PluginUse, wishes: Mapping[str, Any], packets: PacketFormat
) -> InputError | None:
    """What is wrong with the fabric that a transport declares, whatever the experiment says."""
    try:
        fabrics.resolve_fabric(wishes, packets)
    except InputError as error:
        file = str(transport.plugin.path)
        own = [
            InputError(e.message, file=file, key=f"FABRIC.{e.key[7:]}", hint=e.hint)
            for e in error.errors
            if e.key and e.key.startswith("fabric.")
        ]
        return CombinedInputError(own) if own else None
    return None


def _check_classes(
    fabric: Fabric, transport: PluginUse, section: str, wishes: Mapping[str, Any]
) -> None:
    """Refuse fewer classes than the transport says it uses, or than its parameters name."""
    needed = wishes.get("n_classes", 1)
    if fabric.n_classes < needed:
        raise InputError(
            f"{fabric.n_classes} traffic class(es) for {transport.name}",
            key="fabric.n_classes",
            hint=f"at least {needed}",
        )
    for name, value in transport.params.items():
        if name.endswith("_class") and isinstance(value, int) and value >= fabric.n_classes:
            raise InputError(
                f"there is no class {value}",
                key=f"{section}.{name}",
                hint=f"fabric.n_classes is {fabric.n_classes}, so 0 to {fabric.n_classes - 1}",
            )
