"""Other simulators, built by the user, run on the same input as netsim."""
