"""DRILL(d, m): each packet takes the shortest of d random queues and the last queue chosen.

For each packet, an ingress port compares `samples` (d) random candidates. With `remember` (m = 1),
it also compares the port that it chose last. The packet leaves by the port that holds the fewest
bytes. If `samples` is at least the number of candidates, all are compared, as in least_loaded.
Packets of a flow may arrive out of order.

Ghorbani et al., "DRILL: Micro Load Balancing for Low-Latency Data Center Networks", SIGCOMM 2017,
section 3, which finds d = 2 and m = 1 enough.
"""

from netsim.params import Param
from netsim.routing import candidate, held
from netsim.routing_algorithms import least_loaded, spray_random

PARAMS = [
    Param("samples", "count", 2, "random ports to compare (d)", "DRILL, section 3: 2", minimum=1),
    Param("remember", "bool", True, "also the last port chosen (m = 1)", "DRILL, section 3: 1"),
]

COUPLED = True
PORT_SALTS = spray_random.PORT_SALTS
PORT_STATE = ("port", "index")  # chosen last: port + 1; 0: none yet


def choose(env, now, port, pkt, first, n):
    if env.par.samples >= n:
        best = least_loaded.choose(env, now, port, pkt, first, n)
    else:
        best = spray_random.choose(env, now, port, pkt, first, n)
        for _ in range(1, env.par.samples):
            other = spray_random.choose(env, now, port, pkt, first, n)
            best = shorter(env, first, best, other)
    if env.par.remember:
        last = int(port.index)
        if last < n and int(candidate(env, first, last)) + 1 == port.port:
            best = shorter(env, first, best, last)
        port.port = int(candidate(env, first, best)) + 1
        port.index = best
    return best


def shorter(env, first, a, b):
    """Return the candidate with fewer bytes held, `a` if equal."""
    if held(env, candidate(env, first, b)) < held(env, candidate(env, first, a)):
        return b
    return a
