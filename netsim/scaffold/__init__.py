"""The files that `netsim new-...` commands copy, with another name put in."""
