"""The files that `netsim new-transport` copies, with another name put in."""
