"""The Python interface: run and inspect experiments; `netsim/__init__.py` exports it.

import netsim

experiment = netsim.Experiment(
    topology={"kind": "fat_tree", "hosts": 64},
    transport="ndp",
    traffic={"kind": "permutation", "size": "1MB"},
)
results = netsim.run(experiment)
results[0].flows, results.table, results.plot("fct_cdf")
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, overload

from netsim.errors import InputError, raise_all
from netsim.experiment import Experiment, Point, locate
from netsim.frozen import frozen
from netsim.results import FailedPoint, Result, is_sweep, load_result, load_sweep
from netsim.results import load as load_any

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

    from netsim.results.comparison import Comparison
    from netsim.running.executor import PointOutcome, RunOptions
    from netsim.running.point import Stepping
    from netsim.tracing import FlowTrace
    from netsim.tracing.why import Explanation

Described = Experiment | Mapping[str, Any] | Path | str
"""An experiment: itself, a dictionary like a file, the path of a file, or a built-in name."""


class Results(Sequence[Result | FailedPoint]):
    """The results of an experiment, one per point, in the order of the experiment.

    With a single point, its tables are attributes of the results: `results.flows`.

    `path` is their directory, which is deleted with this object if it is temporary.
    """

    def __init__(
        self,
        points: Sequence[Result | FailedPoint],
        path: Path,
        temporary: TemporaryDirectory[str] | None = None,
    ) -> None:
        self._points = tuple(points)
        self._temporary = temporary
        self.path = path

    @overload
    def __getitem__(self, index: int) -> Result | FailedPoint: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Result | FailedPoint]: ...

    def __getitem__(self, index: int | slice) -> Any:
        return self._points[index]

    def __len__(self) -> int:
        return len(self._points)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if len(self) != 1:
            raise AttributeError(f"{name}: there are {len(self)} points, such as results[0].{name}")
        return getattr(self._points[0], name)

    def __dir__(self) -> list[str]:
        tables = dir(self._points[0]) if len(self) == 1 else []
        return sorted({*super().__dir__(), *tables})

    def _result(self, point: int) -> Result:
        """Return the result of a point. Raises InputError if it failed."""
        found = self._points[point]
        if isinstance(found, FailedPoint):
            raise InputError(f"{found.name} failed: {found.reason}", file=str(found.path))
        return found

    @property
    def points(self) -> list[Result]:
        """The points that have a result."""
        return [point for point in self._points if isinstance(point, Result)]

    @cached_property
    def table(self) -> pl.DataFrame:
        """One row per point: the axes of the sweep, then the metrics."""
        import polars as pl

        from netsim.results.write import result_row

        if is_sweep(self.path):
            return load_sweep(self.path).table
        return pl.DataFrame([result_row(point) for point in self.points])

    def plot(
        self,
        kind: str | None = None,
        *,
        x: str | None = None,
        y: str | None = None,
        only: str | Sequence[str] = (),
        **options: Any,
    ) -> Figure:
        """Return a matplotlib figure, as drawn by `netsim plot --kind KIND`, or with `x`, an axis
        of the sweep, the figure of a metric `y`. `only` is "AXIS=VALUE", or several, of the points
        to plot. `options` are the options of the kind.

        Raises InputError for an unknown kind, axis, value or option.
        """
        from netsim.cli.plot import drawing
        from netsim.plots.sweeps import only as chosen

        if "ipykernel" in sys.modules:
            import_module("matplotlib.pyplot")  # lets notebooks show figures

        with _arguments_named():
            points = chosen(self.points, [only] if isinstance(only, str) else only)
            return drawing(points, kind, x=x, y=y, given=options).figure

    def report(
        self, out: Path | str = "report.html", *, explain: int = 0, trust: bool = False
    ) -> Path:
        """Write one HTML page about the results, as `netsim report` does; return its path."""
        from netsim.html_report import write_report

        write_report([point.path for point in self.points], Path(out), trust=trust, explain=explain)
        return Path(out)

    def why(
        self,
        point: int = 0,
        *,
        flow: int | str | None = None,
        step: int | None = None,
        request: int | str | None = None,
        trust: bool = False,
    ) -> Explanation:
        """Explain where time went in a point, as `netsim why` does: the waits, their places, and
        the traffic that caused them. At most one of `flow` (a number, "p99" or "slowest"), `step`
        and `request` (a number, "ttft" or "tbt") is given. The run is simulated again; its own
        plugins run only with `trust`.

        Raises InputError if there is nothing to explain.
        """
        from netsim.cli.why import explanation

        found = self._result(point)
        names = [None if one is None else str(one) for one in (flow, request)]
        asked = {"flow": names[0], "step": step, "request": names[1]}
        with _arguments_named():
            return explanation(found, asked, {"trust": trust})

    def trace(self, point: int = 0, *, flow: int | str = "p99", trust: bool = False) -> FlowTrace:
        """Simulate a point again and record a flow (a number, "p99" or "slowest"), as `netsim
        trace` does: `events`, `segments` of its time, and more.

        Raises the same InputErrors as `netsim.tracing.trace_flow`, and for a point that failed.
        """
        from netsim.cli.options import flow_number
        from netsim.tracing import trace_flow

        found = self._result(point)
        with _arguments_named():
            return trace_flow(found, flow_number(found, str(flow)), trust=trust)

    def compare(self, other: Results) -> Comparison:
        """Return the differences from this result or sweep to another, as `netsim compare` does.

        Raises InputError if their points or flows do not correspond.
        """
        from netsim.results.comparison import compare

        return compare(self.points, other.points)

    def __repr__(self) -> str:
        if len(self) == 1:
            return f"<Results of {self._points[0].name}>"
        return f"<Results of {len(self)} points>"

    def _repr_html_(self) -> str:
        from netsim.cli.tables import sweep_table

        axes = list(self.points[0].experiment["axes"]) if self.points else []
        return sweep_table(self.table.to_dicts(), axes or ["point"]).html()


def run(
    experiment: Described,
    *,
    overrides: Sequence[str] = (),
    out: Path | str | None = None,
    threads: int | None = None,
    jobs: int | None = 1,
    force: bool = False,
    checkpoint_s: float | None = None,
    progress: bool | None = None,
) -> Results:
    """Run every point of an experiment; return the results.

    Points that stall or fail do not stop the others: check `complete`, `status` and `reason`.
    Points that already have a complete result in `out` from the same experiment, code and seed are
    not run again.

    Args:
        experiment: an Experiment, the path of a TOML file, the name of a built-in experiment, or a
            dictionary like such a file, with paths relative to the working directory.
        overrides: `"path=value"` texts as for `netsim run --set`.
        out: directory for the results (default: a temporary one).
        threads: number of threads of each point (default: the cores, divided by `jobs`); does not
            change the result.
        jobs: number of points at a time, each in a separate process (default: one, in this process;
            None: chosen from cores, memory and points); does not change the results.
        force: rerun points that are done.
        checkpoint_s: seconds between checkpoints (default: none); requires `out`. An interrupted
            run resumes from them when it is called again.
        progress: whether to show progress (default: in notebooks and on a terminal).

    Raises InputError for wrong input, and KeyboardInterrupt after Ctrl-C, when finished points are
    written.
    """
    from netsim.running.executor import RunOptions

    if checkpoint_s is not None and out is None:
        raise InputError("checkpoint_s requires a directory", hint='out="results/mine"')
    loaded = described(experiment, overrides)
    directory, temporary = _directory(out, loaded.name)
    options = RunOptions(threads, force=force, checkpoint_s=checkpoint_s, origin=loaded.origin)
    found = _simulated(loaded.points(), directory, options, jobs, progress)
    return Results(_loaded(found), directory, temporary)


@contextmanager
def _arguments_named() -> Iterator[None]:
    """Replace command options in messages by Python arguments, such as kind="saturation"."""

    def in_python(text: str | None) -> str | None:
        found = OPTION.sub(lambda of: f'{of[1]}="{of[2]}"' if of[2] else of[1], text or "")
        return found or text

    try:
        yield
    except InputError as error:
        fields = ("message", "key", "hint")
        raise_all(
            [
                one.replace(**{field: in_python(getattr(one, field)) for field in fields})
                for one in error.errors
            ]
        )


OPTION = re.compile(r"--([a-z]+)(?: ([a-z_]+|[A-Z]+)(?= or | needs|$|,))?")
"""An option in a message, and its value."""


def _directory(out: Path | str | None, name: str) -> tuple[Path, TemporaryDirectory[str] | None]:
    """Return the directory for results, and its owner if it is temporary."""
    if out is not None:
        return Path(out), None
    temporary = TemporaryDirectory(prefix="netsim-")
    return Path(temporary.name) / name, temporary


@frozen
class Saturations:
    """The loads at which networks saturate.

    Attributes:
        table: a row per curve (all axes but load and seed): the axes, the highest load `below`
            saturation and the lowest one `above` it, their middle `saturation`, and its `bound`
            from the routes; null where unknown.
        results: results of all points that ran.
    """

    table: pl.DataFrame
    results: Results

    def plot(self) -> Figure:
        """Return latency and accepted load against offered load, as `netsim plot --kind
        saturation` draws them."""
        return self.results.plot("saturation")

    def _repr_html_(self) -> str:
        return self.table._repr_html_()


LOADS = tuple(0.05 + 0.95 * k / 7 for k in range(8))  # loads of the first round of `saturate`


def steps(
    experiment: Described, *, overrides: Sequence[str] = (), threads: int | None = None
) -> Stepping:
    """Begin a one-point experiment, which then runs step by step::

        run = netsim.steps("incast", overrides=["transport=ndp", "traffic.fan_in=4"])
        (port,) = run.links("leaf0 -> h0")
        while run.step(run.now_ps + 50_000_000):        # 50 us
            print(run.now_ps, run.counters().queue_bytes[2 * port : 2 * port + 2])
        run.finish().summary["simulated_ps"]

    `run.set` changes transport parameters, or the transport's state of flows. Raises the same
    InputErrors as `check`, and one if there are several points.
    """
    from netsim.running.point import stepping

    points = described(experiment, overrides).points()
    if len(points) != 1:
        raise InputError(f"has {len(points)} points", hint="name one of them by overrides")
    return stepping(points[0], threads)


def saturate(
    experiment: Described,
    *,
    loads: Sequence[float] = LOADS,
    tolerance: float = 0.005,
    overrides: Sequence[str] = (),
    out: Path | str | None = None,
    threads: int | None = None,
    jobs: int | None = 1,
    progress: bool | None = None,
) -> Saturations:
    """Find the offered load at which each network of an experiment saturates.

    The experiment has `[measure]` and traffic with a key `load`. It runs at `loads`, then between
    the highest load below saturation and the lowest one above it until half of that interval is at
    most `tolerance`::

        found = netsim.saturate("torus", overrides=['fabric.routing=["ecmp", "valiant"]'])
        found.table                     # below, above, saturation, bound of each routing
        found.plot()

    Other arguments and errors are as for `run`. Points already done in `out` are kept.
    """
    import polars as pl

    from netsim.running.executor import RunOptions
    from netsim.running.saturation import SUFFIX, SaturationSearch
    from netsim.running.sweep import kept_outcomes

    search = SaturationSearch(
        lambda changes: described(experiment, [*overrides, *changes]), loads, tolerance
    )
    options = RunOptions(threads=threads, keep_stalled=True)
    directory, temporary = _directory(out, f"experiment{SUFFIX}")
    while points := search.next_points():
        outcomes = kept_outcomes(points, directory, options)
        if len(outcomes) < len(points):
            outcomes = _simulated(points, directory, options, jobs, progress)
        search.add(outcomes)
    table = pl.DataFrame([curve.summary() for curve in search.curves], infer_schema_length=None)
    return Saturations(table, Results(_loaded(search.outcomes()), directory, temporary))


def _simulated(
    points: list[Point],
    directory: Path,
    options: RunOptions,
    jobs: int | None,
    progress: bool | None,
) -> list[PointOutcome]:
    """Run points; return their outcomes, including partial ones and failures."""
    from netsim.cli.progress import simulate_points
    from netsim.running.sweep import executor_of, in_order, run_points

    executor = executor_of(jobs, options.threads)
    if progress is None:
        progress = sys.stderr.isatty() or "ipykernel" in sys.modules
    if not progress or threading.current_thread() is not threading.main_thread():
        return in_order(run_points(points, directory, options, executor=executor))
    outcomes, interruption = simulate_points(points, directory, options, executor)
    if interruption():
        raise KeyboardInterrupt
    return outcomes


def _loaded(outcomes: Iterable[PointOutcome]) -> list[Result | FailedPoint]:
    """Return the results of points, and the points that failed without a result."""
    return [
        load_result(outcome.directory)
        if outcome.written
        else FailedPoint(outcome.point.name, outcome.directory, outcome.error or "")
        for outcome in outcomes
    ]


def load(path: Path | str) -> Results:
    """Load the result or sweep in `path`. Raises InputError if there is none or it is damaged."""
    loaded = load_any(path)
    return Results([loaded] if isinstance(loaded, Result) else loaded.points, Path(path))


def check(experiment: Described, *, overrides: Sequence[str] = ()) -> pl.DataFrame:
    """Check an experiment and predict its points.

    Returns a row per point with its axes and the predicted `seconds`, `memory_bytes` and
    `packet_hops`. Raises InputError with all errors of the experiment.
    """
    import polars as pl

    from netsim.running.estimate import estimate

    rows = []
    for point in described(experiment, overrides).points():
        one = estimate(point)
        figures = {name: getattr(one, name) for name in PREDICTED}
        rows.append({"point": point.name, **point.axes, **figures})
    return pl.DataFrame(rows)


PREDICTED = ("seconds", "memory_bytes", "packet_hops")  # fields of an estimate that `check` returns


def topo(experiment: Described, *, overrides: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return the counts, capacity, cost and power of each network of an experiment, as in
    `netsim topo --json`. Raises the same InputErrors as `check`."""
    from netsim.cli.topo import as_dict, summaries

    _, counted = summaries(described(experiment, overrides).points())
    return [as_dict(one) for one in counted]


def described(experiment: Described, overrides: Sequence[str] = ()) -> Experiment:
    """Return the experiment that a file, name or dictionary describes. Raises InputError."""
    if isinstance(experiment, Experiment):
        return experiment.changed(overrides) if overrides else experiment
    if isinstance(experiment, Mapping):
        return Experiment.from_mapping(experiment, overrides)
    return Experiment.load(locate(str(experiment)), overrides)
