"""How right netsim is: cases held against laws, measurements and other simulators.

A group is a file with a function `cases`; `netsim.accuracy.cases` has the record and lists the
groups, those of applications too. `netsim validate` runs them.
"""
