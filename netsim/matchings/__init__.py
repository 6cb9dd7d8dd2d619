"""Demand-aware schedules: from bytes between racks to matchings, one behind the other.

It knows nothing of networks: a demand is a `Table`, a list of rows, each a dict from columns to
whole numbers, and what comes out says which column each row is joined to, and for how many bytes.
"""
