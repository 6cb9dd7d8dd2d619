"""The network, its flows, fabric and faults as checked data, and the arithmetic of time."""
