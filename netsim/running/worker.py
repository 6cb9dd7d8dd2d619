"""A process that runs points for another process, by JSON messages over a socket.

It answers each message except a stop with a final message, "estimate", "done", "error" or "hang";
before that, it sends "progress", "note" and "warning". It ends when the socket closes. It ignores
signals that reach whole groups of processes, such as Ctrl-C: the other process decides.

Points are sent as JSON. The other process may run different code, or find different files under the
same names. So it computes the point's inputs again, and refuses a point whose fingerprint differs.
On another machine (`run_remotely`), a scheduler's process must not die with a point or block while
one compiles, so it asks a worker process, as `netsim run --jobs` does.
"""

from __future__ import annotations

import atexit
import gc
import hashlib
import json
import os
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields, replace
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NoReturn

from netsim import errors
from netsim.common.inputs import path_problem
from netsim.common.writing import write_text
from netsim.errors import InputError
from netsim.experiment.document import FABRIC_PLUGINS, PLUGIN_SECTIONS
from netsim.experiment.schema import FlowClass, Point
from netsim.model.fabric import Fabric
from netsim.plugins import registry
from netsim.plugins.registry import Plugin, PluginSpec
from netsim.results import files
from netsim.results.destination import exclusive
from netsim.results.files import plain
from netsim.results.provenance import Provenance, code_inputs, run_inputs
from netsim.running.checkpoint import differences
from netsim.running.estimate import NO_FEATURES, estimate
from netsim.running.executor import Callbacks, PointOutcome, PointRun, RunOptions
from netsim.running.point import Progress
from netsim.running.worker_process import MAX_BYTES, Reply, Workers
from netsim.units import written
from netsim.version import __version__

OBJECTS_PER_COLLECTION = 100_000  # as in the command line: a collection scans all imports

STOPPED, HUNG, ALONE = 0, 3, 4
"""Exit statuses: stopped before there was something to save, hung, the other process is gone."""


def main(descriptor: int) -> None:
    """Serve the process at the other end of a socket until it closes."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    gc.set_threshold(OBJECTS_PER_COLLECTION)
    _load_libraries()
    Worker(Connection(descriptor)).serve()


def _load_libraries() -> None:
    """Load, before any work arrives, the libraries that every point needs."""
    import arro3.io  # noqa: F401

    from netsim.results.columns import reports

    reports()


class Worker:
    """Handles messages, one after another."""

    def __init__(self, channel: Connection) -> None:
        self._channel = channel
        self._sending = threading.Lock()
        self._messages: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._lock: int | None = None
        self._stopped = False
        self._has_state = False  # nothing is lost by ending at once

    def serve(self) -> None:
        """Work until the channel closes."""
        errors.redirect_warnings(partial(self._send, "warning"))
        threading.Thread(target=self._listen, name="messages", daemon=True).start()
        while True:
            message = self._messages.get()
            try:
                if message["kind"] == "estimate":
                    self._send("estimate", self._estimate(message["spec"]))
                else:
                    self._send("done", self._run(message["spec"]))
            except InputError as error:
                self._send("error", [_parts(one) for one in error.errors])
            self._has_state = False

    def _listen(self) -> None:
        """Receive messages in a separate thread: a stop must be received during a run."""
        while True:
            try:
                message = json.loads(self._channel.recv_bytes(MAX_BYTES))
            except (EOFError, OSError):
                os._exit(ALONE)
            if message["kind"] == "lock":
                self._lock = recv_handle(self._channel)  # held until this process ends
            elif message["kind"] == "stop":
                self._stopped = True
                if not self._has_state:
                    os._exit(STOPPED)
            else:
                self._messages.put(message)

    def _send(self, kind: str, content: Any) -> None:
        data = json.dumps(plain({"kind": kind, "content": content})).encode()
        with self._sending, suppress(OSError):  # the thread that listens ends the process
            self._channel.send_bytes(data)

    def _estimate(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        run, _ = rebuild(spec)
        return asdict(replace(estimate(run.point), feature_set=NO_FEATURES))

    def _run(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        run, options = rebuild(spec)
        if not options.force and (kept := run.kept()) is not None:
            return _reply(kept)  # the process before this one was killed after its last step
        callbacks = Callbacks(
            watch=self._watch, should_stop=lambda: self._stopped, note=partial(self._send, "note")
        )
        return _reply(run.simulate(options, callbacks, self._hang))

    def _watch(self, _: Point) -> Callable[[Progress], None]:
        def report(progress: Progress) -> None:
            self._has_state = progress.phase == "run"
            self._send("progress", asdict(progress))

        return report

    def _hang(self, outcome: PointOutcome) -> NoReturn:
        self._send("hang", outcome.error)
        os._exit(HUNG)


def _reply(outcome: PointOutcome) -> dict[str, Any]:
    """Return where the result of a point is, or why there is none."""
    directory = str(outcome.directory) if outcome.written else None
    return {"directory": directory, "error": outcome.error}


def _parts(error: InputError) -> dict[str, Any]:
    return {name: getattr(error, name) for name in ("message", "file", "key", "hint", "code")}


# --- a point as JSON ------------------------------------------------------------------------------

EXTRACTED = "netsim-stored-"  # prefix of the temporary directory for stored plugin sources
PLUGIN_KEYS = ("kind", *FABRIC_PLUGINS)  # keys that name a plugin, in [fabric] after the first

OPTIONS = ("threads", "checked", "force", "checkpoint_s", "must_fit", "origin")
"""The `RunOptions` that are sent."""

WORKERS = Workers(idle_s=60.0)  # worker processes of this process, for a scheduler


def point_spec(run: PointRun, options: RunOptions) -> dict[str, Any]:
    """Return a point with its folder and options as JSON."""
    point, provenance = run.point, run.provenance
    described = {
        "version": __version__,
        "name": point.name,
        "index": point.index,
        "axes": point.axes,
        "file": point.file,
        "directory": str(point.directory),
        "resolved": point.resolved,
        "folder": str(run.folder),
        "provenance": {
            "fingerprint": provenance.fingerprint,
            "run_inputs": provenance.run_inputs,
            "plugins": provenance.plugins,
            "git": provenance.git(),
        },
        "options": {name: getattr(options, name) for name in OPTIONS},
    }
    spec: dict[str, Any] = plain(described)
    return spec


def rebuild(spec: Mapping[str, Any]) -> tuple[PointRun, RunOptions]:
    """Return the point of a spec, and its options. Raises InputError if this process would not
    simulate the same."""
    known = spec["provenance"]
    provenance = Provenance(
        known["fingerprint"],
        known["run_inputs"],
        plugins=tuple(known["plugins"]),
        inputs=(),
        git=lambda: known["git"],
    )
    options = RunOptions(**spec["options"])
    _require_same(code_inputs(), spec)
    point = _point(spec)
    _require_same(run_inputs(point), spec)
    return PointRun(point, Path(spec["folder"]), provenance), options


def _point(spec: Mapping[str, Any]) -> Point:
    from netsim.experiment import Experiment

    known = spec["provenance"]["plugins"]
    names: dict[str, str] = {}
    tree, directory = spec["resolved"], Path(spec["directory"])
    if not all(_is_here(directory / one["name"], one) for one in known if one.get("sources")):
        stored, names = with_stored_sources(tree, known, spec["file"])
        tree = tree if stored is None else stored
    found = Experiment.from_tree(tree, spec["file"], directory).points()
    point: Point = _with_names(found[0], names)
    return replace(
        point, index=spec["index"], name=spec["name"], axes=spec["axes"], resolved=spec["resolved"]
    )


def _is_here(path: Path, plugin: Mapping[str, Any]) -> bool:
    """Return whether the file is the one that the run used for a plugin."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == str(plugin["sha256"])
    except OSError:
        return False


def _with_names(value: Any, names: Mapping[str, str]) -> Any:
    """Return a point, or a part of it, with plugins under the names that the experiment uses."""
    if isinstance(value, Plugin):
        return replace(value, name=names.get(value.name, value.name))
    if isinstance(value, tuple):
        return tuple(_with_names(one, names) for one in value)
    if isinstance(value, PluginSpec):
        params = {key: _with_names(one, names) for key, one in value.params.items()}
        return replace(value, plugin=_with_names(value.plugin, names), params=params)
    if names and isinstance(value, Point | FlowClass | Fabric):
        parts = {one.name: _with_names(getattr(value, one.name), names) for one in fields(value)}
        return replace(value, **parts)
    return value


def _require_same(here: Mapping[str, Any], spec: Mapping[str, Any]) -> None:
    """Raise InputError with the differences from the inputs of a spec."""
    there = spec["provenance"]["run_inputs"]
    values, code = differences(there, {**there, **here}, spec["version"])
    if values or code:
        message = f"differs in worker {socket.gethostname()}: {', '.join([*code, *values])}"
        hint = "a worker needs the code and files with which the run began"
        raise InputError(message, file=spec["file"], hint=hint)


def plugin_files_of(tree: Mapping[str, Any]) -> list[str]:
    """Return the plugins of a resolved experiment that are given as files."""
    tables = [tree, *tree.get("flow_classes", {}).values()]
    sections = [table.get(section, {}) for table in tables for section in PLUGIN_SECTIONS]
    for section in sections:  # also tables within tables, as of a nested topology
        sections += [value for value in section.values() if isinstance(value, dict)]
    sections.append(tree.get("fabric", {}))
    kinds = [str(section[key]) for section in sections for key in PLUGIN_KEYS if key in section]
    named = [registry.split_preset(kind)[0] for kind in kinds]
    return [name for name in named if name.endswith(".py")]


def with_stored_sources(
    tree: Mapping[str, Any], plugins: Sequence[Mapping[str, Any]], file: str
) -> tuple[dict[str, Any] | None, dict[str, str]]:
    """Write the stored sources of `plugins` to a temporary directory.

    Returns the tree that names those files, None if a source is missing; and, for each of them, the
    name in `tree`. Raises InputError, with `file`, for a source outside its plugin's directory.
    """
    stored = {plugin["name"]: plugin for plugin in plugins}
    names = plugin_files_of(tree)
    if not names or not all(stored.get(name, {}).get("sources") for name in names):
        return None, {}
    root = Path(tempfile.mkdtemp(prefix=EXTRACTED))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    paths = {}
    for number, name in enumerate(dict.fromkeys(names)):
        folder = root / str(number)
        sources = stored[name]["sources"]
        for path, text in sources.items():
            target = folder / path
            is_inside = not path_problem(path) and target.resolve().is_relative_to(folder.resolve())
            if not is_inside or stored[name]["file"] not in sources:
                message = f"{written(path)} must be in the directory of {name}"
                raise InputError(message, file=file)
            target.parent.mkdir(parents=True, exist_ok=True)
            write_text(target, text.encode("utf-8", "replace").decode())
        paths[name] = str(folder / stored[name]["file"])

    def extracted(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: extracted(inner, name) for name, inner in value.items()}
        if key in PLUGIN_KEYS and isinstance(value, str):
            name, preset = registry.split_preset(value)
            return paths.get(name, name) + (f":{preset}" if preset else "")
        return value

    changed: dict[str, Any] = extracted(dict(tree))
    return changed, {path: name for name, path in paths.items()}


def remote_spec(run: PointRun, options: RunOptions, lock: int) -> dict[str, Any]:
    """Return the spec of a point for another machine, which may share the result directory: there
    the lock file has the same content.
    """
    path = os.readlink(f"/proc/self/fd/{lock}") if Path("/proc/self/fd").is_dir() else ""
    token = os.pread(lock, 64, 0).decode("ascii", "replace")
    return {**point_spec(run, options), "store": {"lock": path, "token": token}}


def run_remotely(spec: Mapping[str, Any], should_stop: Callable[[], bool]) -> Reply:
    """Return the reply for a point (`Workers.ask`); without a shared result directory, the reply
    has the result's files under "files", by name."""
    folder, lock = Path(spec["folder"]), Path(spec["store"]["lock"])
    if lock.is_file() and lock.read_bytes() == spec["store"]["token"].encode():
        with exclusive(folder, patient=True):  # of another task for the same point
            return WORKERS.ask("run", spec, should_stop)
    with tempfile.TemporaryDirectory(prefix="netsim-point-") as scratch:
        there = {**spec, "folder": str(Path(scratch) / folder.name)}
        reply = WORKERS.ask("run", there, should_stop)
        if reply.get("directory") is not None:
            paths = [path for path in Path(reply["directory"]).iterdir() if path.is_file()]
            contents = {path.name: path.read_bytes() for path in paths}
            contents.pop(files.CHECKPOINT, None)
            reply["files"] = contents
        return reply
