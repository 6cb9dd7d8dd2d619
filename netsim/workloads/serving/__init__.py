"""Serving runs: requests, instances, and their iterations."""
