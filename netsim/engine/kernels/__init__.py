"""The compiled part: the steps of hosts, switches and windows, and their records."""
