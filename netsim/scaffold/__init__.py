"""The files that `netsim new-transport` and `new-queue` copy, with another name put in."""
