"""Choose a path per packet: one path, spraying, or recycled entropies.

ECMP switches hash a packet's entropy with its flow, so a sender selects a path by its entropy. The
parameter ``paths`` selects one of these methods:

- ``ecmp``: always the flow's own entropy, one path;
- ``oblivious``: ``entropies`` values in round-robin order, from a new random start in each round;
- ``reps``: Recycled Entropy Packet Spraying. Entropies of packets acknowledged without a congestion
  mark are put in a ring and used again, oldest first; if the ring is empty, a random one is tried.
  After a timeout only the ring's entropies are used, repeatedly (freezing), since a dead path
  returns no acknowledgment. After ``freeze`` the ring is emptied, and ``EXPLORE`` packets take
  random paths. Where entropies select the host's port, ``KEPT`` entropies stay in the ring, and the
  ring's entropy for the next port in round-robin order is used. In the order of acknowledgments a
  flow would wait for a busy port while others idle, a quarter of the time on eight ports;
- ``bitmap``: oblivious, but with a penalty for each entropy: a mark adds 1, a trim 4, a timeout the
  maximum, ``WORST``. Entropies with a penalty are skipped, at most one round per packet, and the
  first one skipped loses 1;
- ``mixed``: entropies of packets acknowledged without a mark wait in a queue and are reused once,
  oldest first; if none waits, as with ``bitmap``. Ultra Ethernet's simulator uses this by default.

    TX_STATE = (*paths.TX_STATE, ...)

    def build_packet(env, now, tx, pkt):
        pkt.entropy = paths.next_entropy(env, tx)

The sender also calls ``acknowledged``, ``trimmed`` and ``timed_out``; the receiver calls ``answer``
before it sends anything. Requires routing = "ecmp".

Bonato et al., "REPS: Recycled Entropy Packet Spraying for Adaptive Load Balancing and Failure
Mitigation", arXiv 2407.21625; rules and numbers are from its simulator, repository
tommasobo/REPS_EuroSys_Artifact. bitmap and mixed are from uet-htsim, sim/uec_mp.cpp. There a
timeout always penalizes entropy 0, and the queue has no limit.
"""

from netsim.params import Param
from netsim.transport import below, rand32

PARAMS = [
    Param("paths", "choice", "reps", "path of each packet",
          choices=("ecmp", "oblivious", "reps", "bitmap", "mixed")),
    Param("entropies", "count", 64,
          "entropies that a flow uses (in each plane, if they choose it), unless it has one path; "
          "bitmap and mixed at most 128 in all", minimum=1, maximum=65536,
          source="Ultra Ethernet's simulator, repository uet-htsim: main_uec.cpp, -paths"),
    Param("freeze", "time", "10ms",
          "how long REPS freezes after a timeout: reuses known paths only",
          source="repository tommasobo/REPS_EuroSys_Artifact: exit_freeze_after"),
]  # fmt: skip

ECMP, OBLIVIOUS, REPS, BITMAP, MIXED = 0, 1, 2, 3, 4
RING = 8
KEPT = RING // 2
EXPLORE = 16
MARK, TRIM, WORST = 1, 4, 15  # penalties
PENALIZED = 128  # entropies that can have a penalty
PENALTIES_PER_WORD = 15
WAITING_PER_WORD = 7
WAITING = RING * WAITING_PER_WORD  # entropies that can wait, in the memory of the ring
PURPOSE = 64  # purpose of the random numbers

TX_STATE = (
    ("ring", RING),
    "ring_next",  # slot for the next recycled entropy
    "ring_used",  # slots that hold an entropy
    "ring_fresh",  # the newest of them, not used again yet
    "ring_turn",  # slot that a frozen sender uses next
    "path_draws",
    "explore_left",
    "frozen_until_ps",  # 0: not frozen
    ("penalties", -(-PENALIZED // PENALTIES_PER_WORD)),  # 4 bits each
)


def next_entropy(env, tx):
    """Return the entropy of the packet being sent.

    If entropies also choose the host's port, the port was fixed when the previous packet was sent.
    Then this returns that choice and draws the next one; a random one takes the least loaded port.
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
        return _round_robin(env, tx, _entropies(env))
    if env.par.paths >= BITMAP:
        if tx.ring_used > 0:
            return _take_waiting(tx)
        return _without_penalty(env, tx)
    if tx.explore_left > 0:
        tx.explore_left -= 1
        return _any(env, tx)
    if tx.frozen_until_ps > 0 and tx.ring_used > 0:
        slot = tx.ring_turn % tx.ring_used
        tx.ring_turn = slot + 1
        return tx.ring[slot]
    if tx.frozen_until_ps == 0 and tx.ring_fresh > (KEPT if env.par.pair_by_entropy > 0 else 0):
        return _recycled(env, tx)
    return _any(env, tx)


def _recycled(env, tx):
    """Return the oldest fresh entropy, or with several ports the one for the next port."""
    oldest = (tx.ring_next - tx.ring_fresh) & (RING - 1)
    chosen = oldest
    n_ports = nearest = env.par.pair_by_entropy
    for i in range(tx.ring_fresh if n_ports > 0 else 0):
        slot = (oldest + i) & (RING - 1)
        turn = (tx.ring[slot] - tx.entropy - 1) % n_ports
        if turn < nearest:
            nearest, chosen = turn, slot
    entropy = tx.ring[chosen]
    tx.ring[chosen] = tx.ring[oldest]
    tx.ring[oldest] = entropy
    tx.ring_fresh -= 1
    return entropy


def _entropies(env):
    """Return how many entropies a flow uses on all ports of the host."""
    return min(env.par.entropies * max(env.par.pair_by_entropy, 1), 65536)


def _round_robin(env, tx, n):
    start = below(rand32(env.par.seed, PURPOSE, tx.flow, tx.path_draws // n), n)
    entropy = (start + tx.path_draws) % n
    tx.path_draws += 1
    return entropy


def _without_penalty(env, tx):
    """Return the next entropy without a penalty, or, after a round of them, simply the next."""
    n = min(_entropies(env), PENALIZED)
    entropy = _round_robin(env, tx, n)
    if _penalty(tx, entropy) > 0:
        _punish(tx, entropy, -1)
        entropy = _round_robin(env, tx, n)
        left = n - 1
        while left > 0 and _penalty(tx, entropy) > 0:
            left -= 1
            entropy = _round_robin(env, tx, n)
    return entropy


def _penalty(tx, entropy):
    shift = 4 * (entropy % PENALTIES_PER_WORD)
    return (tx.penalties[entropy // PENALTIES_PER_WORD] >> shift) & WORST


def _punish(tx, entropy, penalty):
    """Change an entropy's penalty, up to ``WORST``. If entropies choose ports, the first packet's
    entropy may have no penalty."""
    if entropy >= PENALIZED:
        return
    change = min(penalty, WORST - _penalty(tx, entropy))
    tx.penalties[entropy // PENALTIES_PER_WORD] += change << 4 * (entropy % PENALTIES_PER_WORD)


def _take_waiting(tx):
    """Return the oldest waiting entropy."""
    at = (tx.ring_next - tx.ring_used) % WAITING
    tx.ring_used -= 1
    return (tx.ring[at // WAITING_PER_WORD] >> 8 * (at % WAITING_PER_WORD)) & 0xFF


def _let_wait(tx, entropy):
    """Add an entropy to the waiting entropies, unless there are too many or it was the first
    packet's."""
    if entropy < PENALIZED and tx.ring_used < WAITING:
        at = tx.ring_next // WAITING_PER_WORD
        shift = 8 * (tx.ring_next % WAITING_PER_WORD)
        tx.ring[at] = (tx.ring[at] & ~(0xFF << shift)) | entropy << shift
        tx.ring_next = (tx.ring_next + 1) % WAITING
        tx.ring_used += 1


def _any(env, tx):
    draw = rand32(env.par.seed, PURPOSE, tx.flow, tx.path_draws)
    tx.path_draws += 1
    entropy = below(draw, _entropies(env))
    if env.par.pair_by_entropy != 0:
        return -1 - entropy
    return entropy


def answer(env, rx, pkt):
    """Make replies leave by the port that ``pkt`` arrived on, if entropies choose ports. Otherwise
    all replies to a flow that uses every port would take one port, which may be down."""
    if env.par.pair_by_entropy != 0:
        rx.entropy = int(pkt.entropy)


def acknowledged(env, now, tx, entropy, marked):
    """Recycle the entropy of an acknowledged packet unless it was ``marked``."""
    if env.par.paths >= BITMAP and marked:
        _punish(tx, entropy, MARK)
    if env.par.paths == MIXED and not marked:
        _let_wait(tx, entropy)
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


def trimmed(env, now, tx, entropy, at_last_hop):
    """Learn from a trimmed packet. One trimmed on the link to the receiver took a good path."""
    if at_last_hop:
        acknowledged(env, now, tx, entropy, False)
    elif env.par.paths >= BITMAP:
        _punish(tx, entropy, TRIM)


def timed_out(env, now, tx):
    """Freeze after a retransmission timeout, or penalize the entropy."""
    if env.par.paths >= BITMAP:
        _punish(tx, 0, WORST)
    if env.par.paths == REPS and tx.frozen_until_ps == 0 and tx.explore_left == 0:
        tx.frozen_until_ps = now + env.par.freeze
