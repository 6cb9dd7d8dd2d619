"""Draw the picture of speed-comparison.md again: `python docs/speed_comparison.py`.

The data are the files of docs/benchmarks/htsim, which `netsim bench --against` printed.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from gallery import write_small
from matplotlib.ticker import FixedLocator, NullLocator

from netsim.plots import style

DOCS = Path(__file__).parent
SIZE = 500_000  # bytes that each host sends
PROGRAMS = {
    "htsim_ndp": "NDP, csg-htsim",
    "htsim_roce": "RoCE, csg-htsim",
    "htsim_uec": "NSCC, uet-htsim",
}
CURVES = {
    "htsim": style.CurveStyle(style.VERMILION, marker="^"),
    "netsim, 1 thread": style.CurveStyle(style.SKY, marker="o"),
    "netsim, 2 threads": style.CurveStyle(style.BLUE, marker="s"),
}
ROWS = (("time, s", (("whole_s", "-"), ("simulated_s", ":"))), ("memory", (("peak_bytes", "-"),)))
"""The label of each row of panels, and its costs with their lines."""


def runs(program: str) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Yield the curve, the number of hosts and the costs of each run."""
    for path in sorted((DOCS / "benchmarks" / "htsim").glob("*.json")):
        for case in json.loads(path.read_text("utf-8"))["comparisons"]:
            if case["program"] == program and case["bytes"] == case["hosts"] * SIZE:
                threads = case["threads"]
                own = f"netsim, {threads} thread{'s' * (threads > 1)}"
                for name, side in ((own, "netsim"), ("htsim", "peer")):
                    yield from ((name, case["hosts"], run) for run in case["runs"][side])


def main() -> None:
    """Draw times above memory, with one column per htsim program."""
    figure, panels = style.new_figure(columns=len(PROGRAMS), rows=len(ROWS))
    for column, (program, title) in enumerate(PROGRAMS.items()):
        measured: dict[str, dict[int, list[dict[str, Any]]]] = {name: {} for name in CURVES}
        for name, hosts, run in runs(program):
            measured[name].setdefault(hosts, []).append(run)
        counts = sorted(measured["htsim"])
        for row, (label, costs) in enumerate(ROWS):
            axes, first = panels[row * len(PROGRAMS) + column], panels[row * len(PROGRAMS)]
            axes.set(ylabel=label, xlabel="hosts")
            if column:
                axes.sharey(first)
            for name, curve in CURVES.items():
                for cost, line in costs:
                    values = [median(run[cost] for run in measured[name][n]) for n in counts]
                    shown = {**curve.options(), "linestyle": line}
                    axes.plot(counts, values, **shown, label=name if line == "-" else None)
            style.bytes_axis(axes, "y") if label == "memory" else style.logarithmic(axes, "y")
            style.logarithmic(axes, "x")
            axes.xaxis.set_major_locator(FixedLocator(counts))
            axes.xaxis.set_minor_locator(NullLocator())
        panels[column].set_title(title, fontsize="medium")
    caption = "solid: whole command; dotted: simulated part"
    style.finish(figure, panels[0], "500 KB from each host", style.OUTSIDE, caption)
    with TemporaryDirectory() as folder:
        made = style.save(figure, Path(folder) / "made.png")
        write_small(made, DOCS / "speed_comparison.png")


if __name__ == "__main__":
    main()
