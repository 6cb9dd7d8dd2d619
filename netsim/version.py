"""The version of netsim."""

__version__ = "1.1.0"
