"""Templates that `netsim new-...` commands copy and rename."""
