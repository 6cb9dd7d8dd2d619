"""Measured iterations that were not used for fitting, and prediction errors."""

from statistics import mean

from netsim.workloads.inference.validation import rows

GROUPS = ("h100", "a100")
"""Groups with fitted rows."""


def predicted(group, *, large=False):
    """Return a group's rows not used for fitting, with few or many tokens."""
    chosen = [row for row in rows() if row.group == group and not row.fitted]
    return [row for row in chosen if row.large is large]


def errors(found):
    """Return the mean and the largest absolute error."""
    all_of = [abs(one.error) for one in found]
    return mean(all_of), max(all_of)
