"""Topologies from files of other tools."""
