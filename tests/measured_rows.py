"""Measured iterations that nothing was fitted to, and errors."""

from statistics import mean

from netsim.workloads.inference.validation import rows

GROUPS = ("h100", "a100")
"""Groups with fitted rows."""


def predicted(group, *, large=False):
    """Rows of a group that are not fitted, with few or many tokens."""
    chosen = [row for row in rows() if row.group == group and not row.fitted]
    return [row for row in chosen if row.large is large]


def errors(found):
    """Mean and largest absolute error."""
    all_of = [abs(one.error) for one in found]
    return mean(all_of), max(all_of)
