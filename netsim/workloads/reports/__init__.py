"""Reports of AI workloads."""
