"""Choosing a path packet by packet: one path, oblivious spray, or REPS.

Switches that balance by ECMP hash a packet's entropy besides its flow, so its sender picks a path
by picking an entropy. Three ways, the parameter ``paths``:

- ``ecmp``: the flow's own entropy always, one path;
- ``oblivious``: ``entropies`` values in turn, starting at a new random one in each round;
- ``reps``: Recycled Entropy Packet Spraying. Entropies of packets that were acknowledged without a
  congestion mark wait in a ring and are used again, oldest first; with none waiting a random one
  is tried. After a timeout only the ring's entropies are used, again and again (freezing), since
  a path that is dead gives no acknowledgment; when that has lasted for ``freeze``, the ring is
  emptied, and ``EXPLORE`` packets go to random paths.

    TX_STATE = (*paths.TX_STATE, ...)

    def build_packet(env, now, tx, pkt):
        pkt.entropy = paths.next_entropy(env, tx)

and ``acknowledged`` and ``timed_out`` when that happens; a receiver calls ``answer`` before it
sends anything. Needs load balancing "ecmp".

Bonato et al., "REPS: Recycled Entropy Packet Spraying for Adaptive Load Balancing and Failure
Mitigation", arXiv 2407.21625; rules and numbers are those of its simulator, repository
tommasobo/REPS_EuroSys_Artifact.
"""

from netsim.params import Param
from netsim.transport import below, rand32

PARAMS = [
    Param(
        "paths",
        "choice",
        "reps",
        "how packets are spread over the paths",
        choices=("ecmp", "oblivious", "reps"),
    ),
    Param(
        "entropies",
        "count",
        64,
        "different entropies that a spraying flow uses",
        minimum=1,
        maximum=65536,
        source="Ultra Ethernet's simulator, repository uet-htsim: main_uec.cpp, -paths",
    ),
    Param(
        "freeze",
        "time",
        "10ms",
        "how long REPS keeps to the paths it knows after a timeout",
        source="repository tommasobo/REPS_EuroSys_Artifact: exit_freeze_after",
    ),
]

ECMP, OBLIVIOUS, REPS = 0, 1, 2
RING = 8
EXPLORE = 16
PURPOSE = 64
"""Of the random numbers."""

TX_STATE = (
    ("ring", RING),
    "ring_next",  # slot that the next recycled entropy is put in
    "ring_used",  # slots that hold an entropy
    "ring_fresh",  # of them, the newest, that have not been used again
    "ring_turn",  # slot that a frozen sender uses next
    "path_draws",
    "explore_left",
    "frozen_until_ps",  # 0: not frozen
)


def next_entropy(env, tx):
    """The entropy of the packet that is sent now.

    Where it says by which of its host's ports a packet leaves as well, it was chosen as the one
    before was sent, and this chooses for the next one: by now the packet has its port.
    """
    if env.par.pair_by_entropy == 0:
        return _chosen(env, tx)
    entropy = tx.entropy
    tx.entropy = _chosen(env, tx)
    return entropy


def _chosen(env, tx):
    if env.par.paths == ECMP:
        return tx.entropy
    if env.par.paths == OBLIVIOUS:
        return _in_turn(env, tx)
    if tx.explore_left > 0:
        tx.explore_left -= 1
        return _any(env, tx)
    if tx.frozen_until_ps > 0 and tx.ring_used > 0:
        slot = tx.ring_turn % tx.ring_used
        tx.ring_turn = slot + 1
        return tx.ring[slot]
    if tx.frozen_until_ps == 0 and tx.ring_fresh > 0:
        slot = (tx.ring_next - tx.ring_fresh) & (RING - 1)
        tx.ring_fresh -= 1
        return tx.ring[slot]
    return _any(env, tx)


def _in_turn(env, tx):
    n = env.par.entropies
    start = below(rand32(env.par.seed, PURPOSE, tx.flow, tx.path_draws // n), n)
    entropy = (start + tx.path_draws) % n
    tx.path_draws += 1
    return entropy


def _any(env, tx):
    draw = rand32(env.par.seed, PURPOSE, tx.flow, tx.path_draws)
    tx.path_draws += 1
    return below(draw, env.par.entropies)


def answer(env, rx, pkt):
    """What ``rx`` sends next goes by the port that packet ``pkt`` came by, if entropies choose it.

    Else answers to what takes all ports would go by one, whether that is there or not.
    """
    if env.par.pair_by_entropy != 0:
        rx.entropy = int(pkt.entropy)


def acknowledged(env, now, tx, entropy, marked):
    """A packet with this entropy arrived, ``marked`` by a congested queue or not."""
    if env.par.paths != REPS:
        return
    if tx.frozen_until_ps > 0 and now > tx.frozen_until_ps:
        tx.frozen_until_ps = 0
        tx.ring_next = 0
        tx.ring_used = 0
        tx.ring_fresh = 0
        tx.ring_turn = 0
        tx.explore_left = EXPLORE
    if not marked:
        tx.ring[tx.ring_next] = entropy
        tx.ring_next = (tx.ring_next + 1) & (RING - 1)
        tx.ring_used = min(tx.ring_used + 1, RING)
        tx.ring_fresh = min(tx.ring_fresh + 1, RING)


def timed_out(env, now, tx):
    """Nothing was heard of a packet for a retransmission timeout."""
    if env.par.paths == REPS and tx.frozen_until_ps == 0 and tx.explore_left == 0:
        tx.frozen_until_ps = now + env.par.freeze
