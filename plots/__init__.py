"""Figures: one file each, with `draw(results) -> matplotlib Figure`.

`results` is a list of `netsim.results.Result`. What the figures share is in `style.py`:
`figure, (axes,) = style.new_figure()` is where one begins. A file that assigns `PLOT`, what it
shows in one line, is a kind of `netsim plot --kind`. Parameters of `draw` beyond the results are
options of the command: `y`, `trust`, and those in its `OPTIONS`.

A file with `compare(results)` gives a comparison with a `table`, which the command prints, and
`draw(comparison)` draws it. What these share
is in `sweeps.py`; `seed_curves.py` makes one curve, with a name and a style, of the seeds of a
point.

The figures of a paper that netsim makes again, `fig1` to `fig6` and `exposed`, have the paper's
values beside ours: `make(results)` gives a `PaperFigure` (`paper_figure.py`), for `netsim
reproduce`.

Networks are drawn by `network_layout.py` (what stands where), `network_drawing.py` and
`matchings.py`
(circuit switches); `topology` is that in the colors of a result.
"""

from netsim.plots.style import save

__all__ = ["save"]
