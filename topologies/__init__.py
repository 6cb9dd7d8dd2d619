"""Topologies: one file each, with PARAMS and build(params) -> Network."""
