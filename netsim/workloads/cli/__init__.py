"""Commands about AI workloads."""
