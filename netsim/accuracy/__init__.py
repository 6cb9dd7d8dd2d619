"""Transports held against analytic results: `netsim accuracy` makes the table.

A part of the table is a function that measures and returns rows: `netsim.accuracy.parts` has all.
"""
