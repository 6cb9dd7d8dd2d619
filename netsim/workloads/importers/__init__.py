"""Files of other simulators and tracers, read: bytes in, columns out.

One file a format. A reader checks that its file is whole and means what it says, and knows nothing
of networks, hosts and tasks: what of it is simulated, and how, stands with the traffic pattern of
its name in `netsim/traffic/`.
"""
