"""The bound that no protocol can beat: every flow as if it had the network to itself.

Nothing is simulated. A flow takes its size at the rate of the slowest link of its path,
plus propagation, plus storing and forwarding one packet at each hop, headers counted.
The same figure stands beside every flow of a simulated run, as its ideal.
"""

from netsim.params import Param

PARAMS: list[Param] = []

FABRIC = {
    "queue_discipline": "drop_tail",
    "load_balancing": "spray_permutation",
    "plane_balancing": "permutation",
}

CLOSED_FORM = True
"""Flow completion times come from `netsim.bounds.ideal`, no packets are sent."""
