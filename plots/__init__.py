"""Plots: one file each, with `draw(results) -> matplotlib Figure`; results are
`netsim.results.Result`.

A file with `PLOT`, one line that says what it shows, is a kind of `netsim plot --kind`. Parameters
of `draw` other than the results are options of the command: `y`, `trust`, and those in its
`OPTIONS`. If the file has `compare(results)`, the command prints the `table` of the comparison
that it returns, and `draw` takes the comparison. `SUFFIXES` are further file formats, saved by
`write`.

Start with `figure, (axes,) = style.new_figure()`. `seed_curves.py` makes one curve of the
seeds of a point, `sweeps.py` compares points, `network_drawing.py` draws networks.
"""

from netsim.plots.style import fit_for_print, save

__all__ = ["fit_for_print", "save"]
