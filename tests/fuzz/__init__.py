"""A fuzzer: run netsim on mutated experiments and files, and judge the outcome.

Every case follows from its kind and its number alone, so a finding is repeated by its number.
`README.md` says how to run many; `test_fuzz.py` runs a fixed few of each kind.
"""
