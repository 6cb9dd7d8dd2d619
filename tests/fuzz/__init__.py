"""Mutated experiments and files, and what netsim must never do with them (`tests/test_fuzz.py`).

Hypothesis draws every choice, so that it repeats a finding and makes it smaller.
"""
