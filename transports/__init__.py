"""Transports: one file each."""
