"""Flow completion times: for each time, the share of the flows that are done by then.

The dashed curve is the ideal: every flow as if it were alone in the network. A curve that does not
reach 1 belongs to a run with unfinished flows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from netsim.errors import InputError
from netsim.plots import style

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from netsim.results import Result


def draw(results: Sequence[Result]) -> Figure:
    """One curve for each result, and the ideal of the first.

    Raises InputError if no flow of any result is finished.
    """
    times = [_sorted(result, "fct_ps") for result in results]
    if not any(len(one) for one in times):
        raise InputError("no flow is finished, so there are no completion times to draw")
    figure, (axes,) = style.new_figure()
    unit, scale = style.time_unit(float(one[-1]) for one in times if len(one))
    for index, (result, one, label) in enumerate(
        zip(results, times, style.labels(results), strict=True)
    ):
        _curve(axes, one / scale, len(result.flows), label=label, color=style.colour(index))
    ideal = _sorted(results[0], "ideal_ps") / scale
    _curve(axes, ideal, len(ideal), label="ideal", color=style.IDEAL, linestyle="--")
    axes.set_xlabel(f"flow completion time ({unit})")
    axes.set_ylabel("share of flows")
    axes.set_ylim(0, 1.02)
    axes.set_title(style.title(results), fontsize="medium")
    # Times over several orders of magnitude need a logarithmic axis to be seen at all.
    shortest = min(float(one[0]) for one in [*times, ideal * scale] if len(one))
    if shortest > 0 and max(float(one[-1]) for one in times if len(one)) > 50 * shortest:
        axes.set_xscale("log")
    else:
        axes.set_xlim(left=0)
    style.legend(figure, axes, "best")
    return figure


def _sorted(result: Result, column: str) -> np.ndarray:
    return result.flows[column].drop_nulls().sort().to_numpy().astype(float)


def _curve(axes: Axes, times: np.ndarray, flows: int, **options: Any) -> None:
    """The curve of sorted `times`, of `flows` flows in all, as steps that start at 0."""
    import numpy as np

    if not len(times):
        return
    chosen = style.thin(len(times))
    axes.step(
        np.concatenate([times[:1], times[chosen]]),
        np.concatenate([[0.0], (chosen + 1) / flows]),
        where="post",
        **options,
    )
