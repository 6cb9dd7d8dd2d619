"""Plots of AI workloads and of the paper."""
