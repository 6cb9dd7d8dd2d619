"""The version of netsim."""

__version__ = "0.1.0"
