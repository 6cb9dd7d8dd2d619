"""Generate the tables of pages from the code, between markers.

python tests/generated.py     # updates the pages
"""

import ast
import inspect
import json
import pkgutil
import re
import tomllib
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from statistics import mean, median
from types import ModuleType
from typing import Any

import click

import netsim.blocks
import netsim.network
import netsim.program
import netsim.queue
import netsim.routing
import netsim.transport
from netsim.cli import bench
from netsim.cli.app import app, groups
from netsim.common.discovery import GROUPS, stated_time
from netsim.common.terminal import Wide
from netsim.engine.kernels import fields, made_packets, ports, routing, services, tasks
from netsim.engine.kernels.handlers import (
    HANDLERS,
    PROGRAM_HANDLERS,
    QUEUE_HANDLERS,
    ROUTING_HANDLERS,
)
from netsim.engine.kernels.layout import annotated
from netsim.experiment import built_in, schema
from netsim.experiment.schema import Reference
from netsim.model.fabric import CircuitRules, Ecn, Fabric, LinkRetry, Nic, PacketFormat
from netsim.model.patterns import PATTERNS
from netsim.params import Param, keys_of
from netsim.plugins import registry
from netsim.results import COLUMNS
from netsim.units import format_bytes, format_number
from netsim.validation.run import expected, interval, percent, rows_of
from netsim.workloads.cli import cost, workload_inference
from netsim.workloads.cost.costs import (
    FailureRates,
    Fleet,
    Gpu,
    LinkKind,
    Memory,
    Package,
    Wafer,
    compare,
    load_cost_tables,
)
from netsim.workloads.inference.deployment import Formats, LatencyLimits, Options, Overheads
from netsim.workloads.inference.limits import comparison
from netsim.workloads.job import load as files
from netsim.workloads.job.job import Layout, Model, Optimizer, Overlap, Precision
from netsim.workloads.job.machine import ComputeUnit, Link, Machine
from netsim.workloads.job.paper import Infrastructure, TrainingTarget
from netsim.workloads.validation import measures

ROOT = Path(__file__).parent.parent
MARKED = re.compile(r"(<!-- generated: ([\w. -]+) -->\n).*?(<!-- /generated -->)", re.DOTALL)


def pages() -> list[Path]:
    """Return the pages with generated tables."""
    folders = ("docs", "experiments", "netsim", "topologies", "transports")
    found = [ROOT / "README.md", *(page for one in folders for page in (ROOT / one).rglob("*.md"))]
    return sorted(page for page in found if MARKED.search(page.read_text("utf-8")))


def regenerated(text: str) -> str:
    """Return a page with its tables regenerated."""

    def write(match: re.Match[str]) -> str:
        kind, *arguments = match[2].split()
        table = "\n".join(TABLES[kind](*arguments)).strip()
        return f"{match[1]}\n{table}\n\n{match[3]}"

    return MARKED.sub(write, text)


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    columns = list(head)
    for row in (columns, ["---"] * len(columns), *rows):
        cells = " | ".join(row).replace("|", "\\|").replace(" \\| ", " | ")
        yield f"| {cells} |"


def _line(text: str) -> str:
    return " ".join(text.split())


def _value(value: object, none: str = "none") -> str:
    if value in ("", (), {}):
        return ""
    if value is None:
        value = none
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"


HEAD = ("key", "value", "default", "meaning")


def _row(param: Param) -> list[str]:
    default = "required" if param.required else _value(param.default, param.none)
    unit = ", ".join(f"`{name}`" for name in param.choices) or str(param.unit)
    return [f"`{param.name}`", unit, default, _line(param.doc)]


def parameters(kind: str) -> Iterator[str]:
    """Yield the parameters and presets of every plugin of a kind."""
    for plugin in registry.plugins(kind):
        yield f"### {plugin.name}"
        yield ""
        presets = ", ".join(f"`{plugin.name}:{one}`" for one in plugin.presets)
        yield plugin.summary + (f" Presets: {presets}." if presets else "")
        yield ""
        if plugin.params:
            yield from _table(HEAD, map(_row, plugin.params))
            yield ""


def fabric_plugins(kind: str) -> Iterator[str]:
    """Yield the keys of every queue discipline or routing algorithm."""
    for plugin in registry.plugins(kind):
        yield f"**`{plugin.name}`**: {plugin.summary}"
        yield ""
        if plugin.params:
            yield from _table(HEAD, map(_row, plugin.params))
            yield ""


def patterns() -> Iterator[str]:
    """Yield the traffic patterns of networks."""
    rows = [[f"`{name}`", to] for name, to in PATTERNS.items()]
    return _table(("pattern", "a host sends to"), rows)


def part(name: str) -> Iterator[str]:
    """Yield the keys of a table of a job, a deployment or a price file."""
    return _table(HEAD, map(_row, keys_of(PARTS[name]).values()))


PARTS: dict[str, Any] = {
    one.__name__: one
    for one in (
        *(Formats, Options, Overheads, LatencyLimits),
        *(
            Model,
            Layout,
            Machine,
            ComputeUnit,
            Link,
            Precision,
            Optimizer,
            Overlap,
            Infrastructure,
            TrainingTarget,
        ),
        *(Wafer, Memory, Package, LinkKind, FailureRates, Fleet, Gpu),
    )
}


def names(kind: str) -> Iterator[str]:
    """Yield the plugins of a kind."""
    singular = {"topologies": "topology", "transports": "transport"}.get(kind, kind)
    rows = ([f"`{one.name}`", one.summary] for one in registry.plugins(singular))
    return _table((singular, "summary"), rows)


def rates() -> Iterator[str]:
    """Yield the presets of transports by the line rate that ends their names."""
    made: dict[int, list[str]] = {rate: [] for rate in (25, 100, 200, 400, 800)}
    for plugin in registry.plugins("transport"):
        for preset in plugin.presets:
            if match := re.search(r"(\d+)g$", preset):
                made.setdefault(int(match[1]), []).append(f"`{plugin.name}:{preset}`")
    rows = (
        [f"{rate} Gbps", ", ".join(made[rate]) or "none: take the bare name"]
        for rate in sorted(made)
    )
    return _table(("line rate", "presets made for it"), rows)


def experiments() -> Iterator[str]:
    """Yield the built-in experiments by group."""
    for group in GROUPS:
        rows = []
        for name, path in built_in().items():
            if path.parent.name == group:
                told = tomllib.loads(path.read_text("utf-8")).get("description", "")
                rows.append([f"[`{name}`]({group}/{path.name})", _line(told), stated_time(path)])
        yield f"**{group.replace('_', ' ')}**"
        yield ""
        yield from _table(("experiment", "shows", "time"), rows)
        yield ""


def columns() -> Iterator[str]:
    """Yield the columns of every table."""
    for table, of in COLUMNS.items():
        yield f"## {table}"
        yield ""
        yield from _table(
            ("column", "unit", "meaning"), ([f"`{n}`", c.unit, _line(c.doc)] for n, c in of.items())
        )
        yield ""


def keys() -> Iterator[str]:
    """Yield the keys of the fixed sections of an experiment file."""
    for title, section in SECTIONS.items():
        yield f"## {title}"
        yield ""
        rows = [_row(param) for param in keys_of(section).values()]
        for row in rows:
            row[2] = "" if "default: " in row[3] else row[2]  # the meaning says it
        yield from _table(HEAD, rows)
        yield ""


SECTIONS = {
    "Top level": schema.FileSection,
    "[flow_classes.NAME]": schema.ClassSection,
    "[packets]": PacketFormat,
    "[packets.nic]": Nic,
    "[faults.NAME]": schema.FaultSection,
    "[routing]": schema.RoutingSection,
    "[stop]": schema.StopSection,
    "[measure]": schema.MeasureSection,
    "[outputs]": schema.OutputsSection,
    "[reference]": Reference,
    "[fabric]": Fabric,
    "[fabric.ecn]": Ecn,
    "[fabric.circuits]": CircuitRules,
    "[fabric.llr]": LinkRetry,
}


def steps() -> Iterator[str]:
    """Yield the mean and largest error of each source's training steps."""
    rows = []
    for group, title in measures.step_sources().items():
        errors = [abs(row["ours"] / row["theirs"] - 1) for row in measures.steps(group)]
        shown = (f"{100 * one:.1f} %" for one in (mean(errors), max(errors)))
        rows.append([title, str(len(errors)), *shown])
    return _table(("source", "steps", "mean", "largest"), rows)


def cli() -> Iterator[str]:
    """Yield every command with its options, by group."""
    context = click.Context(app, info_name="netsim")
    for group, entries in groups().items():
        yield f"## {group}"
        yield ""
        for name in entries:
            yield from _command(name, context)


def _command(name: str, parent: click.Context) -> Iterator[str]:
    command = parent.command.get_command(parent, name)  # type: ignore[attr-defined]
    context = click.Context(command, info_name=name, parent=parent)
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            yield from _command(inner, context)
        return
    path = context.command_path.removeprefix("netsim ")
    usage = [one for one in command.collect_usage_pieces(context) if one != "[OPTIONS]"]
    yield f"### {path}"
    yield ""
    yield f"`{' '.join([path, *usage])}`"
    yield ""
    yield _line((command.help or "").partition("\n\n")[0])
    yield ""
    options = [one for one in command.params if isinstance(one, click.Option)]
    records = [one.get_help_record(context) for one in options if one.name != "help"]
    rows = [[f"`{record[0]}`", _line(record[1])] for record in records if record]
    if rows:
        yield from _table(("option", "effect"), rows)
        yield ""


def handlers(kind: str) -> Iterator[str]:
    """Yield when the engine calls each handler of a kind of plugin."""
    if kind == "transport":
        rows = [[f"`{row.form}`", row.runs_on, row.called] for row in HANDLERS.values()]
        return _table(("handler", "runs on", "called when"), rows)
    others = {"queue": QUEUE_HANDLERS, "routing": ROUTING_HANDLERS, "program": PROGRAM_HANDLERS}
    rows = [[f"`{row.form}`", row.called] for row in others[kind].values()]
    return _table(("handler", "called"), rows)


def _doc(node: object) -> str:
    """Return the first paragraph of a module's, class's or function's docstring."""
    text = inspect.getdoc(node) or ""
    return _line(text.partition("\n\n")[0]).replace("``", "`")


def _functions(module: ModuleType, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the form and effect of the functions that a module defines, in its order."""
    tree = ast.parse(inspect.getsource(module))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in names:
            rest = node.args.vararg
            arguments = [one.arg for one in node.args.args] + ([f"*{rest.arg}"] if rest else [])
            effect = _line((ast.get_docstring(node) or "").partition("\n\n")[0])
            yield f"`{node.name}({', '.join(arguments)})`", effect.replace("``", "`")


def functions(kind: str) -> Iterator[str]:
    """Yield the functions that the handlers of a kind of plugin may call."""
    modules, front = {
        "transport": ([services], netsim.transport),
        "queue": ([ports, made_packets], netsim.queue),
        "routing": ([routing], netsim.routing),
        "program": ([tasks], netsim.program),
    }[kind]
    rows = (row for module in modules for row in _functions(module, front.__all__))
    return _table(("function", "effect"), rows)


def builder() -> Iterator[str]:
    """Yield the methods of NetworkBuilder."""
    rows = []
    for name, method in vars(netsim.network.NetworkBuilder).items():
        if name[0] != "_":
            arguments = list(inspect.signature(method).parameters)[1:]
            rows.append((f"`{name}({', '.join(arguments)})`", _doc(method)))
    return _table(("call", "effect"), rows)


def template(kind: str) -> Iterator[str]:
    """Yield the file that `netsim new KIND` writes."""
    path = ROOT / "netsim" / "conformance" / "templates" / f"my_{kind}.py"
    yield "```python"
    yield path.read_text("utf-8").rstrip()
    yield "```"


def exports() -> Iterator[str]:
    """Yield the names of netsim.network with the first sentence about each."""
    values = {name: getattr(netsim.network, name) for name in netsim.network.__all__}
    told = {name: _doc(value) for name, value in values.items() if inspect.getmodule(value)}
    rows = ((f"`{name}`", re.split(r"(?<=\w\.) ", text)[0]) for name, text in told.items() if text)
    return _table(("name", "meaning"), rows)


def blocks() -> Iterator[str]:
    """Yield the building blocks of transports."""
    found = pkgutil.iter_modules(netsim.blocks.__path__)
    rows = ((f"`{one.name}`", _doc(import_module(f"netsim.blocks.{one.name}"))) for one in found)
    return _table(("block", "provides"), rows)


def reserved() -> Iterator[str]:
    """Yield the fields of the engine's records, which a transport cannot declare."""
    sides = [set(annotated(one)) for one in (fields.TxRecord, fields.RxRecord)]
    common = [name for name in annotated(fields.TxRecord) if name in set.intersection(*sides)]
    rows = [("both sides", common)]
    for state, record in {
        "TX_STATE": fields.TxRecord,
        "RX_STATE": fields.RxRecord,
        "HOST_STATE": fields.HostRecord,
        "PACKET_FIELDS": fields.PacketRecord,
    }.items():
        own = [name for name in annotated(record) if name not in common or "HOST" in state]
        rows.append((f"`{state}`", annotated(record) if "PACKET" in state else own))
    return _table(("state", "names"), ((a, ", ".join(f"`{name}`" for name in b)) for a, b in rows))


def modules(folder: str) -> Iterator[str]:
    """Yield the modules of a folder of netsim."""
    package = import_module(folder)
    rows = []
    for found in pkgutil.iter_modules(package.__path__):
        if not found.ispkg:
            source = Path(package.__path__[0], f"{found.name}.py").read_text("utf-8")
            effect = (ast.get_docstring(ast.parse(source)) or "").partition("\n\n")[0]
            rows.append((f"`{found.name}.py`", _line(effect)))
    return _table(("file", "contents"), rows)


def folders() -> Iterator[str]:
    """Yield the folders of netsim, the packages above `netsim` first."""
    mapped = ("plots", "topologies", "transports")
    found = [(f"../{name}/", ROOT / name) for name in mapped]
    for path in sorted((ROOT / "netsim").rglob("__init__.py")):
        name = path.parent.relative_to(ROOT / "netsim").as_posix()
        if name not in (".", "workloads") and not name.startswith(("engine/", "conformance/")):
            found.append((f"{name}/", path.parent))
    rows = []
    for name, path in found:
        text = ast.get_docstring(ast.parse((path / "__init__.py").read_text("utf-8"))) or ""
        rows.append((f"`{name}`", _line(text.partition("\n\n")[0])))
    return _table(("folder", "contents"), rows)


def presets(*kinds: str) -> Iterator[str]:
    """Yield the names of the presets of each kind of file."""
    rows = ([kind, ", ".join(f"`{name}`" for name in files.presets(kind))] for kind in kinds)
    return _table(("presets of", ""), rows)


def _wide(table: Wide) -> Iterator[str]:
    rows = zip(*(column.cells for column in table.columns), strict=True)
    return _table([column.name for column in table.columns], rows)


def costs() -> Iterator[str]:
    """Yield the tables of `netsim cost`, each with its note."""
    book = load_cost_tables("lite")
    for table in cost.tables(book, compare(book)):
        yield from [table] if isinstance(table, str) else _wide(table)
        yield ""


def counts() -> Iterator[str]:
    """Yield the operations and bytes of a layer of the compared models."""
    return _wide(workload_inference.count_table(comparison()))


def claims() -> Iterator[str]:
    """Yield which Lite-GPUs match an H100 for all models, by the assumptions."""
    return _wide(workload_inference.claim_table(workload_inference.lite_rows(comparison())))


HEADLINES = ("sprayed flows", "step of a dense model")
"""Parts of the questions that the landing pages answer."""


def accuracy(extent: str = "") -> Iterator[str]:
    """Yield the errors to expect by question: of the headlines, or with those predicted before."""
    content = json.loads((ROOT / "docs" / "comparisons.json").read_text("utf-8"))
    detail = extent == "detail"
    rows = []
    for question, errors, before in expected(rows_of(content)):
        if extent == "headlines" and not any(part in question for part in HEADLINES):
            continue
        size = percent(median(map(abs, errors)))
        cells = [question, f"{len(errors):,}", size, interval(errors)]
        if detail:
            cells.append(f"{interval(before)} ({len(before)} rows)" if before else "-")
        rows.append(cells)
    head = ["question", "rows", "median error", "nine in ten between"]
    return _table(head + ["of these, predicted before"] * bool(detail), rows)


Speeds = dict[tuple[str, int, int], str]
"""Transport, hosts, threads -> million packet-hops per second."""


def benchmarks() -> Iterator[tuple[str, Speeds]]:
    """Yield date and commit of each version measured, the oldest first, and its speeds."""
    for path in sorted((ROOT / "docs" / "benchmarks").glob("*.json")):
        speeds = {
            (case["transport"], case["hosts"], case["threads"]): (
                f"{case['packet_hops_per_s'] / 1e6:.1f}"
            )
            for case in json.loads(path.read_text("utf-8"))["cases"]
        }
        yield path.stem, speeds


def speed(*transports: str) -> Iterator[str]:
    """Yield the newest speeds of all transports, or of these at 8,192 hosts as one row."""
    newest: dict[tuple[str, int], tuple[str, str, str]] = {}
    for name, speeds in benchmarks():
        for (transport, hosts, threads), value in speeds.items():
            if threads == 1:
                two = speeds.get((transport, hosts, 2), "")
                newest[transport, hosts] = (value, two, f"`{name.rpartition('-')[2]}`")
    if transports:
        cells = (newest[transport, 8192] for transport in transports)
        return _table(transports, [[f"{one} ({two})" for one, two, _ in cells]])
    order = sorted(newest.items(), key=lambda item: (item[0][1], -float(item[1][0])))
    rows = ((transport, f"{hosts:,}", *row) for (transport, hosts), row in order)
    return _table(("transport", "hosts", "1 thread", "2 threads", "commit"), rows)


def _beside(name: str, netsim: float, peer: float, ratio: float) -> str:
    """Return a cost of netsim, of another simulator, and the ratio."""
    both = (
        f"{v:.2g} s" if name.endswith("_s") else format_bytes(int(v), 2) for v in (netsim, peer)
    )
    return f"{' / '.join(both)} / {format_number(ratio, 2)}"


def beside_htsim(program: str) -> Iterator[str]:
    """Yield the costs of an htsim program and of netsim on the same input, and the difference."""
    rows = []
    for path in sorted((ROOT / "docs" / "benchmarks" / "htsim").glob("*.json")):
        for case in json.loads(path.read_text("utf-8"))["comparisons"]:
            if case["program"] == program:
                size, hosts, threads = (
                    case["bytes"] // case["hosts"],
                    case["hosts"],
                    case["threads"],
                )
                costs = (_beside(name, **cost) for name, cost in case["costs"].items())
                times = (case["completion_us"][name] for name in ("p50", "max"))
                differences = (f"{100 * (t['netsim'] / t['peer'] - 1):+.1f} %" for t in times)
                head = (f"{hosts:,}", format_bytes(size, 3), str(threads))
                rows.append(((hosts, size, threads), (*head, *costs, *differences)))
    names = ("hosts", "each", "threads", *(name for name, _ in bench.COSTS.values()))
    return _table((*names, "median", "maximum"), (row for _, row in sorted(rows)))


TABLES: dict[str, Any] = {
    "accuracy": accuracy,
    "parameters": parameters,
    "fabric": fabric_plugins,
    "part": part,
    "list": names,
    "rates": rates,
    "experiments": experiments,
    "columns": columns,
    "keys": keys,
    "cli": cli,
    "steps": steps,
    "patterns": patterns,
    "handlers": handlers,
    "functions": functions,
    "builder": builder,
    "blocks": blocks,
    "exports": exports,
    "template": template,
    "reserved": reserved,
    "modules": modules,
    "folders": folders,
    "presets": presets,
    "costs": costs,
    "counts": counts,
    "claims": claims,
    "speed": speed,
    "beside_htsim": beside_htsim,
}

if __name__ == "__main__":
    for page in pages():
        page.write_text(regenerated(page.read_text("utf-8")), "utf-8")
