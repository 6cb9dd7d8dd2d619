"""netsim: a packet-level simulator of datacenter networks for AI clusters."""

__version__ = "0.1.0"
