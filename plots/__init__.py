"""Figures: one file each, with `draw(results) -> matplotlib Figure`.

`results` is a list of `netsim.results.Result`. What the figures share is in `style.py`:
`figure, (axes,) = style.new_figure()` is where one begins. `netsim plot --kind` knows a figure by
its name in `KINDS`, or `COMPARISONS`, of `netsim/cli/plot.py`.

`fct_vs_load`, `transports` and `against` compare the points of sweeps: `compare(results)` gives a
`Comparison`, which holds a table of its figures, and `draw(comparison)` draws it. What these share
is in `sweeps.py`; `pool.py` makes one curve, with a name and a look, of the seeds of a point.

The figures of a paper that netsim makes again, `fig1` to `fig6` and `exposed`, have the paper's
values beside ours: `make(results)` gives a `Reproduced` (`reproduced.py`), for `netsim reproduce`.

Networks are drawn by `network_layout.py` (what stands where), `network_drawing.py` and
`matchings.py`
(circuit switches); `topology` is that in the colors of a result.
"""

from netsim.plots.style import save

__all__ = ["save"]
