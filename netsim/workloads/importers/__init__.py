"""Readers of other tools' files, one module per format: bytes in, columns out.

A reader validates its file and knows nothing of networks, hosts and tasks; what is simulated, and
how, is up to the traffic pattern.
"""
