"""Topologies read from files of other tools."""
