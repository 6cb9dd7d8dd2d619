"""`Experiment`: a TOML file, checked and expanded to its points; and the built-in experiments."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any, ClassVar

from netsim.common.discovery import built_in
from netsim.common.inputs import is_file, path_problem, read_toml, require_file
from netsim.errors import CombinedInputError, InputError, did_you_mean, errors_at
from netsim.experiment.document import Tree, apply_overrides, as_tree, without_faults
from netsim.experiment.resolve import Resolver, check_top_level
from netsim.experiment.schema import FileSection, Point
from netsim.experiment.sweep import Variant, expand
from netsim.params import keys_of
from netsim.units import written

MAX_NAME = 150
IN_MEMORY = "experiment"  # file name in messages for an experiment without a file


class Experiment:
    """A valid experiment, from its tables and keys::

        Experiment(
            topology={"kind": "fat_tree", "hosts": 64},
            transport=["ndp", "roce"],
            traffic={"kind": "permutation", "size": "1MB"},
        )

    The arguments are the tables and keys of an experiment file, with the same checks. File names
    are relative to the working directory. Raises InputError with all errors.

    Attributes:
        file: its name in messages.
        name, description: as in the file.
        axes: each axis of the sweep with its values as written.
        overrides: the changes applied to the file, as "path=value".
    """

    file: str
    name: str
    description: str
    axes: Mapping[str, tuple[Any, ...]]
    overrides: tuple[str, ...]
    _points: tuple[Point, ...]
    _source: tuple[Tree, Path]  # the tables and keys, and the directory of the files that they name

    __signature__: ClassVar = Signature(
        [Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in keys_of(FileSection)]
    )
    """Names the tables and keys, so that notebooks complete them."""

    def __init__(self, **tables: Any) -> None:
        self.__dict__.update(vars(self.from_mapping(tables)))

    @classmethod
    def load(cls, path: Path | str, overrides: Sequence[str] = ()) -> Experiment:
        """Read and check a file, with "path=value" overrides applied.

        Raises InputError with all errors, one line each: "file: key: message (hint)".
        """
        path = Path(path)
        tree = read_toml(path)
        overridden = apply_overrides(tree, overrides)
        loaded = cls.from_tree(tree, str(path), path.resolve().parent, overridden)
        loaded.overrides = tuple(overrides)
        return loaded

    @classmethod
    def from_mapping(cls, content: Mapping[str, Any], overrides: Sequence[str] = ()) -> Experiment:
        """Check an experiment given as a dictionary, with the keys of a file.

        File names are relative to the working directory. Raises the same InputErrors as `load`.
        """
        with errors_at(file=IN_MEMORY):
            tree = as_tree(content)
        overridden = apply_overrides(tree, overrides)
        return cls.from_tree(tree, IN_MEMORY, Path.cwd(), overridden)

    @classmethod
    def from_tree(
        cls, tree: Tree, file: str, directory: Path, overridden: Sequence[str] = ()
    ) -> Experiment:
        """Return the experiment of a parsed file, such as the `resolved` of a result.

        `file` is its name in messages, `directory` the directory of files that it names,
        `overridden` the paths of values from overrides.
        """
        tree = without_faults(tree, overridden)
        resolver = Resolver(file, directory, overridden)
        for error in check_top_level(tree, resolver.find):
            resolver.note(error)
        variants: list[Variant] = []
        try:
            variants, errors = expand(tree, resolver.find)
            for error in errors:
                resolver.note(error)
        except InputError as error:  # too many points
            resolver.note(error)
        title = tree.get("name") or Path(file).stem
        points = [
            resolver.point(index, name, variant, title)
            for index, (name, variant) in enumerate(
                zip(_names(variants, title), variants, strict=True)
            )
        ]
        resolver.note_reference(tree, [point for point in points if point is not None])
        errors = resolver.finish()
        if errors:
            raise CombinedInputError(errors)
        experiment = cls.__new__(cls)
        experiment.file = file
        experiment.name = title
        experiment.description = tree.get("description", "")
        experiment.axes = _axes(variants)
        experiment.overrides = ()
        experiment._points = tuple(point for point in points if point is not None)
        experiment._source = tree, directory
        return experiment

    def changed(self, overrides: Sequence[str]) -> Experiment:
        """Return this experiment with "path=value" overrides applied. Raises the same
        InputErrors as `load`."""
        tree, directory = deepcopy(self._source[0]), self._source[1]
        changed = self.from_tree(tree, self.file, directory, apply_overrides(tree, overrides))
        changed.overrides = (*self.overrides, *overrides)
        return changed

    @property
    def origin(self) -> dict[str, Any] | None:
        """How to load it again: the file, the overrides, and their working directory; None if it
        has no file."""
        if not Path(self.file).is_file():
            return None
        file, directory = str(Path(self.file).resolve()), str(Path.cwd())
        return {"experiment": file, "overrides": list(self.overrides), "directory": directory}

    def points(self) -> list[Point]:
        """Return all points, in the order of the runs."""
        return list(self._points)

    def __repr__(self) -> str:
        axes = "".join(f", {axis}: {len(values)} values" for axis, values in self.axes.items())
        return f"<Experiment {self.name}{axes}>"


def _axes(variants: Sequence[Variant]) -> dict[str, tuple[Any, ...]]:
    values: dict[str, dict[str, Any]] = {}
    for variant in variants:
        for axis, value in variant.axes.items():
            values.setdefault(axis, {}).setdefault(repr(value), value)
    return {axis: tuple(known.values()) for axis, known in values.items()}


def _names(variants: Sequence[Variant], title: str) -> list[str]:
    """Return a name for each point that is a valid file name, such as "transport=ndp,load=0.1"."""
    short = _short_axes(variants)
    names: dict[str, None] = {}
    for index, variant in enumerate(variants):
        parts = [f"{short[axis]}={_label(value)}" for axis, value in variant.axes.items()]
        name = ",".join(parts)[:MAX_NAME] or str(title)
        names[name if name not in names else f"{name},{index}"] = None
    return list(names)


def _short_axes(variants: Sequence[Variant]) -> dict[str, str]:
    """Return the last word of each axis, or its path if that is ambiguous."""
    paths = {axis for variant in variants for axis in variant.axes}
    last = [path.rpartition(".")[2] for path in paths]
    return {
        path: word if last.count(word) == 1 else path
        for path, word in zip(paths, last, strict=True)
    }


def _label(value: Any) -> str:
    text = value if isinstance(value, str) else written(value)
    if text.endswith(".py"):
        text = Path(text).name
    return re.sub(r"[^A-Za-z0-9.+=_-]+", "-", text).strip("-") or "value"


def locate(name: str) -> Path:
    """Return the file of an experiment, given its path or the name of a built-in one.

    "p2p_512", with or without ".toml" and the folders before it, finds the built-in experiment
    unless such a file exists.
    """
    path = Path(name)
    problem = path_problem(name)
    if problem:
        raise InputError(f"{written(name)} {problem}")
    if is_file(path):
        return path
    known = built_in()
    bare = path.name.removesuffix(".toml")
    folder = path.parent.parts[path.parts[:1] == ("experiments",) :]
    if bare in known and folder in ((), (known[bare].parent.name,)):
        return known[bare]
    if os.path.lexists(path):
        require_file(path)
    raise InputError(
        "unknown experiment", file=name, hint=did_you_mean(bare, known), code="unknown_value"
    )
