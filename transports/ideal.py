"""The lower bound for any protocol: every flow as if alone in the network.

Nothing is simulated. A flow takes its size at the rate of its path's slowest link, plus
propagation, plus store-and-forward of one packet per hop, including headers. Simulated runs report
the same value for every flow as its ideal.

With `routing = "ecmp"` the result also has `fair_max_ps`: the last flow's time with max-min
fair shares on the paths that the hash selects.
"""

from netsim.params import Param

PARAMS: list[Param] = []

FABRIC = {
    "queue_discipline": "drop_tail",
    "routing": "spray_permutation",
    "plane_balancing": "permutation",
}

CLOSED_FORM = True  # flow completion times come from `netsim.model.ideal`; no packets are sent
