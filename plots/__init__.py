"""Plots, by subject: flows, sweeps by axis, links, values over time; drawings of networks.

A file's `PLOTS` lists its kinds for `netsim plot --kind`, with a line each. A kind is a function of
that name: it takes results (`netsim.results.Result`) and returns a `sweeps.Picture`: a figure, and
the table that is printed with it. Its other parameters are options of the command: `y`, `trust`,
and those in `OPTIONS` of the file. `SUFFIXES` are further file formats, saved by `write`.

Start with `figure, (axes,) = style.new_figure()`. `sweeps.py` combines a point's seeds into one
curve, and has statistics over seeds, lines, bars and tables.
"""

from netsim.plots.style import fit_for_print, save

__all__ = ["fit_for_print", "save"]
