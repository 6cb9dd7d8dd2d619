"""Figures: one file each, with `draw(results) -> matplotlib Figure`.

`results` is a list of `netsim.results.Result`. What the figures share is in `style.py`.
"""

from netsim.plots.style import save

__all__ = ["save"]
