"""Cases of AI workloads."""

GROUPS = {"hardware": "netsim.workloads.accuracy.hardware"}
"""As in `netsim.accuracy.cases`."""
