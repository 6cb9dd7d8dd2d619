"""Experiments that come with netsim: one TOML file each."""
