"""Experiments: the schema of the TOML file, sweeps, and resolution to points."""
