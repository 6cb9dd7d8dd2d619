"""Traffic patterns of AI workloads, one module each."""
