"""Readers of other tools' files that several use: bytes in, columns out.

A reader validates its file and knows nothing of networks, hosts and tasks. The reader of a format
of one traffic pattern is in the pattern's file.
"""
