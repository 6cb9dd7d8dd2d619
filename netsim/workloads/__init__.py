"""AI workloads on top of the packet simulator: jobs, collectives, serving, cost."""
