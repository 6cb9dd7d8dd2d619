"""What a run reports, a file for each subject: see `netsim/results/columns.py`."""
