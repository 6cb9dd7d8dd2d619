"""The packet engine: see README.md in this folder for its contract."""
