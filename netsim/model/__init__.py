"""Checked data of the network, flows, fabric and faults, and integer arithmetic."""
