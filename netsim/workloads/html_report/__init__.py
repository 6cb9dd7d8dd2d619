"""Sections of AI workloads in the report of results (`netsim report`)."""
