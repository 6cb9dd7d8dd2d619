"""Reports of a run, a file for each subject: see `netsim/results/columns.py`."""
