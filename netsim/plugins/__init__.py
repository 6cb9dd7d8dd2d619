"""Plugins, whatever their kind: finding them, loading their files, reading what they declare."""
