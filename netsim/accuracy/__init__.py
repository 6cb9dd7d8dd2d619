"""How accurate netsim is: cases held against laws, measurements and other simulators.

A group is one or more files with a function `cases`. `netsim.accuracy.cases` defines `Case` and
`Row` and lists the groups, including those of applications. `netsim validate` runs them.
"""
