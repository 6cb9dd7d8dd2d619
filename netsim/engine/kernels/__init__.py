"""What is compiled: the steps of hosts, switches and windows, and the records that they work on."""
