"""Cases of AI workloads."""

GROUPS = {
    "closed_forms": "netsim.workloads.accuracy.collectives",
    "hardware": "netsim.workloads.accuracy.hardware",
}
"""As in `netsim.accuracy.cases`."""
