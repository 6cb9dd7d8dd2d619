"""Machines from measured collectives: read, fit, validate and write."""
