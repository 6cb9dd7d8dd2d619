"""From the tree of one point to a `Point`: defaults filled in, everything checked.

Sections that many points share are resolved once. Mistakes are collected, not raised,
so that one look at the file tells all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from netsim.errors import CombinedInputError, InputError
from netsim.experiment import resolve_fabric as fabrics
from netsim.experiment.document import CLASS_SECTIONS, PLUGIN_SECTIONS, Tree, category
from netsim.experiment.model import FlowClass, Outputs, PluginUse, Point, StopCondition
from netsim.experiment.resolve_faults import FaultUse
from netsim.experiment.schema import (
    FaultSection,
    FileSection,
    OutputsSection,
    StopSection,
    problems,
)
from netsim.experiment.sweep import Variant
from netsim.inputs import ROOM_IN_NAME, is_file, path_problem, user_path
from netsim.limits import INT64, TRANSPORTS
from netsim.lint import check_transport
from netsim.model.fabric import Fabric, PacketFormat
from netsim.plugins import registry
from netsim.plugins.params import resolve_params
from netsim.plugins.registry import Plugin
from netsim.units import format_time, written

SEED_LIMIT = 2**32
TOP_LEVEL_VALUES = ("name", "description", "seed")

T = TypeVar("T")


@dataclass
class Resolver:
    """Resolves the points of one file. After that, `errors` holds all that is wrong."""

    file: str
    directory: Path
    overridden: Sequence[str] = ()
    errors: list[InputError] = field(default_factory=list)
    _memo: dict[str, Any] = field(default_factory=dict)
    _unheeded: dict[str, InputError] = field(default_factory=dict)
    _heeded: set[str] = field(default_factory=set)

    def find(self, section: str, kind: str) -> Plugin | None:
        """The plugin of a written kind (a preset may follow); None after noting the error."""

        def resolve() -> Plugin:
            name, _ = registry.split_preset(kind)
            problem = path_problem(name)
            if problem:
                raise InputError(f"{written(name)} {problem}")
            if name.endswith(".py") and self._is_overridden(f"{section}.kind"):
                name = str(user_path(name, Path.cwd()))
            return registry.find(category(section), name, relative_to=self.directory)

        return self._once(section, f"plugin {section} {kind}", resolve)

    def point(self, index: int, name: str, variant: Variant, title: str) -> Point | None:
        """The point of one variant of the tree, or None after noting what is wrong."""
        tree = variant.value
        uses = [self._plugin_use(section, tree.get(section)) for section in PLUGIN_SECTIONS]
        topology, transport, traffic = uses
        packets = self._section(tree, "packets", fabrics.resolve_packets)
        fabric = None
        classes = self._classes(tree.get("classes", {}))
        if packets is not None and transport is not None and classes is not None:
            fabric = self._fabric(tree.get("fabric", {}), transport, classes, packets)
        faults = self._section(tree, "faults", _faults)
        stop = self._section(tree, "stop", _stop)
        outputs = self._section(tree, "outputs", lambda table: _outputs(table, title))
        seed = self._once("seed", f"seed {tree.get('seed', 1)!r}", lambda: _seed(tree))
        if (
            topology is None
            or transport is None
            or traffic is None
            or classes is None
            or packets is None
            or fabric is None
            or faults is None
            or stop is None
            or outputs is None
            or seed is None
        ):
            return None
        return Point(
            index=index,
            name=name,
            axes=variant.axes,
            seed=seed,
            topology=topology,
            transport=transport,
            traffic=traffic,
            classes=classes,
            packets=packets,
            fabric=fabric,
            faults=faults,
            stop=stop,
            outputs=outputs,
            resolved={
                "name": title,
                "description": tree.get("description", ""),
                "seed": seed,
                **{
                    section: self._describe(use, tree[section])
                    for section, use in zip(
                        PLUGIN_SECTIONS, (topology, transport, traffic), strict=True
                    )
                },
                **self._describe_classes(classes, tree),
                "packets": fabrics.describe_packets(packets),
                "fabric": fabrics.describe_fabric(fabric),
                **({"faults": _describe_faults(faults)} if faults else {}),
                "stop": _describe_stop(stop),
                "outputs": {"directory": outputs.directory, "links": outputs.links},
            },
            file=self.file,
            directory=self.directory,
        )

    def finish(self) -> list[InputError]:
        """All errors, with those that need every point to be known, each with its file."""
        unheeded = [e for key, e in self._unheeded.items() if key not in self._heeded]
        if any(path.split(".")[0] in ("transport", "fabric") for path in self.overridden):
            # What an override leaves without effect is fine: "--set transport=ndp" picks one
            # point of a file that is written for more. What it adds itself has to matter.
            unheeded = [error for error in unheeded if self._is_overridden(error.key)]
        return [self._placed(error) for error in [*self.errors, *unheeded]]

    def note(self, error: InputError) -> None:
        """Add an error (or several) that was found elsewhere."""
        self.errors.extend(error.errors)

    def _placed(self, error: InputError) -> InputError:
        """The error with the file that its key stands in; overrides stand in no file."""
        return error.at(file="--set" if self._is_overridden(error.key) else self.file)

    def _is_overridden(self, key: str | None) -> bool:
        return key is not None and any(
            key == path or key.startswith(f"{path}.") for path in self.overridden
        )

    def _once(self, key: str, memo: str, resolve: Callable[[], T]) -> T | None:
        """What `resolve` gives, computed once for each `memo`; None after noting its errors."""
        if memo not in self._memo:
            try:
                self._memo[memo] = resolve()
            except InputError as error:
                self._memo[memo] = None
                self.errors.extend(one if one.file else one.at(key=key) for one in error.errors)
        result: T | None = self._memo[memo]
        return result

    def _section(self, tree: Tree, name: str, resolve: Callable[[Tree], T]) -> T | None:
        table = tree.get(name, {})
        if not isinstance(table, dict):
            return None  # noted when the top level was checked
        return self._once(name, f"{name} {table!r}", lambda: resolve(table))

    def _plugin_use(self, section: str, table: Any) -> PluginUse | None:
        if not isinstance(table, dict):
            return None  # missing, or noted when sweeps were expanded
        kind = table.get("kind")
        if not isinstance(kind, str):
            return self._once(section, f"no kind {section}", lambda: _no_kind(section, kind))
        plugin = self.find(section, kind)
        if plugin is None:
            return None
        return self._once(
            section, f"{section} {table!r}", lambda: self._use(section, plugin, kind, table)
        )

    def _classes(self, tables: Any) -> tuple[FlowClass, ...] | None:
        """The tables [classes.NAME], or None after noting what is wrong with them."""
        if not isinstance(tables, dict):
            return None  # noted when the top level was checked
        classes = []
        for name, table in tables.items():
            if not isinstance(table, dict):
                return None
            transport, traffic = (
                self._plugin_use(f"classes.{name}.{section}", table.get(section))
                for section in CLASS_SECTIONS
            )
            if transport is None or traffic is None:
                return None
            classes.append(FlowClass(name, transport, traffic))
        if len(classes) >= TRANSPORTS:
            error = InputError(
                f"{len(classes)} classes", key="classes", hint=f"at most {TRANSPORTS - 1}"
            )
            self._once("classes", "too many classes", lambda: _raise(error))
            return None
        return tuple(classes)

    def _use(self, section: str, plugin: Plugin, kind: str, table: Tree) -> PluginUse:
        _, preset = registry.split_preset(kind)
        given = {name: value for name, value in table.items() if name != "kind"}
        errors = []
        for name in TOP_LEVEL_VALUES:
            if name in given and plugin.param(name) is None:
                del given[name]
                hint = f"write {name} above the first [table]"
                errors.append(InputError("unknown parameter", key=f"{section}.{name}", hint=hint))
        params: dict[str, Any] = {}
        try:
            params = resolve_params(
                plugin.params, plugin.presets, given, preset, file=None, key=section
            )
        except InputError as error:
            errors.append(error)
        if errors:
            raise CombinedInputError(errors)
        if category(section) == "transport":
            check_transport(plugin, params)
        for param in plugin.params:
            value = params[param.name]
            if isinstance(value, str) and param.unit in ("file", "sizes"):
                params[param.name] = self._file(f"{section}.{param.name}", value, param.unit)
        return PluginUse(plugin, params, preset)

    def _file(self, key: str, name: str, unit: str) -> str:
        """The path of a file that a parameter names: relative to what says so.

        That is the experiment, or the current directory where an override names it; then the path
        is absolute, so that a result can be traced wherever that is done. Of the names of sizes,
        those are files that are there.
        """
        base = Path.cwd() if self._is_overridden(key) else self.directory
        try:
            path = user_path(name, base)
        except InputError as error:
            raise error.at(key=key) from None
        if unit == "file" or (base != self.directory and is_file(path)):
            return str(path)
        return name

    def _fabric(
        self,
        table: Any,
        transport: PluginUse,
        classes: Sequence[FlowClass],
        packets: PacketFormat,
    ) -> Fabric | None:
        names = [flow_class.name for flow_class in classes]
        others = [flow_class.transport for flow_class in classes]
        if not isinstance(table, dict):
            return None

        def resolve() -> Fabric:
            own = wishes = fabrics.wishes(transport.module, transport.preset)
            more = [fabrics.wishes(other.module, other.preset) for other in others]
            if more:
                needed = [wish.get("n_classes", 1) for wish in (wishes, *more)]
                wishes = {**wishes, "n_classes": max(needed)}
            try:
                fabric = fabrics.resolve_fabric(fabrics.merge(wishes, table), packets)
            except InputError as error:
                raise _own_mistakes(transport, own, packets) or error from None
            _check_classes(fabric, transport, "transport", wishes)
            for name, other, wish in zip(names, others, more, strict=True):
                _check_classes(fabric, other, f"classes.{name}.transport", wish)
            return fabric

        uses = [(use.plugin.path, use.preset, use.params) for use in (transport, *others)]
        memo = f"fabric {table!r} {uses!r} {packets!r}"
        fabric = self._once("fabric", memo, resolve)
        if fabric is not None:
            used = fabrics.used_keys(fabric)
            self._heeded |= used
            for key in table:
                if key in used:
                    continue
                self._unheeded.setdefault(key, fabrics.no_effect(key, fabric))
        return fabric

    def _describe_classes(self, classes: Sequence[FlowClass], tree: Tree) -> dict[str, Any]:
        if not classes:
            return {}
        return {
            "classes": {
                flow_class.name: {
                    section: self._describe(
                        getattr(flow_class, section), tree["classes"][flow_class.name][section]
                    )
                    for section in CLASS_SECTIONS
                }
                for flow_class in classes
            }
        }

    def _describe(self, use: PluginUse, table: Tree) -> dict[str, Any]:
        """The table that gives the same plugin and parameters, every one written."""
        described: dict[str, Any] = {"kind": use.name}
        for param in use.plugin.params:
            value = use.params[param.name]
            written_value = table.get(param.name)
            if (
                param.unit == "file"
                and isinstance(written_value, str)
                and value == str(user_path(written_value, self.directory))
            ):
                described[param.name] = written_value  # the experiment may be moved with its files
            else:
                described[param.name] = param.format(value)
        return described


def check_top_level(tree: Tree) -> list[InputError]:
    """What is wrong with the keys of the top level and the types of the sections."""
    try:
        FileSection.model_validate(tree)
    except ValidationError as error:
        return problems(error, FileSection, "")
    return []


def _raise(error: InputError) -> None:
    raise error


def _no_kind(section: str, kind: Any) -> PluginUse:
    available = ", ".join(registry.names(category(section))) or "none yet"
    if kind is None:
        raise InputError("missing", key=f"{section}.kind", hint=f"there are: {available}")
    raise InputError(f"{written(kind)} is not a name", key=f"{section}.kind", hint=available)


def _seed(tree: Tree) -> int:
    seed = tree.get("seed", 1)
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise InputError(
            f"{written(seed)} is not a seed", hint='a whole number, a list of them, or "1..10"'
        )
    if not 0 <= seed < SEED_LIMIT:
        raise InputError(f"{seed} is out of range", hint=f"0 to {SEED_LIMIT - 1}")
    return seed


def _faults(table: Tree) -> tuple[FaultUse, ...]:
    faults: list[FaultUse] = []
    errors: list[InputError] = []
    for name, fields in table.items():
        key = f"faults.{name}"
        try:
            faults.append(_fault(name, FaultSection.model_validate(fields)))
        except ValidationError as error:
            errors += problems(error, FaultSection, key)
        except InputError as error:
            errors.append(error.at(key=key))
    if errors:
        raise CombinedInputError(errors)
    return tuple(faults)


def _fault(name: str, section: FaultSection) -> FaultUse:
    outages: tuple[tuple[int, int], ...] = ()
    if section.down is not None:
        outages = ((section.down, INT64 if section.up is None else section.up),)
        if section.up is not None and section.up <= section.down:
            raise InputError("the link comes up before it goes down", hint="down is before up")
    elif section.up is not None:
        raise InputError("the link comes up but never goes down", hint='such as down = "1ms"')
    if not outages and not section.model_fields_set & {"loss", "bit_error_rate"}:
        raise InputError("nothing goes wrong", hint="loss, bit_error_rate, or down and up")
    return FaultUse(name, section.links, section.loss, section.bit_error_rate, outages)


def _describe_faults(faults: Sequence[FaultUse]) -> dict[str, Any]:
    described: dict[str, Any] = {}
    for fault in faults:
        table: dict[str, Any] = {
            "links": fault.links,
            "loss": fault.loss,
            "bit_error_rate": fault.bit_error_rate,
        }
        for down, up in fault.outages_ps:
            table["down"] = format_time(down)
            table["up"] = "none" if up >= INT64 else format_time(up)
        described[fault.name] = table
    return described


def _stop(table: Tree) -> StopCondition:
    try:
        section = StopSection.model_validate(table)
    except ValidationError as error:
        raise CombinedInputError(problems(error, StopSection, "stop")) from None
    return StopCondition(section.time, section.flow_deadline, section.drain)


def _describe_stop(stop: StopCondition) -> dict[str, Any]:
    def limit(time_ps: int | None) -> str:
        return "none" if time_ps is None else format_time(time_ps)

    return {
        "time": limit(stop.time_ps),
        "flow_deadline": limit(stop.flow_deadline_ps),
        "drain": stop.drain,
    }


def _outputs(table: Tree, title: str) -> Outputs:
    try:
        section = OutputsSection.model_validate(table)
    except ValidationError as error:
        raise CombinedInputError(problems(error, OutputsSection, "outputs")) from None
    directory = section.directory or f"results/{title}"
    problem = path_problem(directory, reserve=ROOM_IN_NAME)
    if problem:
        raise InputError(f"{written(directory)} {problem}", key="outputs.directory")
    return Outputs(directory, section.links)


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
