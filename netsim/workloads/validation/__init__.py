"""Cases of AI workloads; see `netsim.validation.cases`."""
