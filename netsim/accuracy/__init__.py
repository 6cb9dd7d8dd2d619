"""Compare transports with analytic results; `netsim accuracy` prints the table.

Each part of the table is a function that measures and returns rows; `netsim.accuracy.parts` lists
all.
"""
