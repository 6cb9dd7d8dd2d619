"""Demand-aware schedules: from bytes between racks to sequences of matchings.

A demand is a `Table`: a list of rows, each a dict from columns to integers. The result is the
column of each row and the bytes. Nothing here depends on networks.
"""
