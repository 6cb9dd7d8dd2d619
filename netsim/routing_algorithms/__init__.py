"""Routing algorithms, one file each; an experiment selects one by `fabric.routing`."""
