"""The version of netsim."""

__version__ = "1.0.0"
