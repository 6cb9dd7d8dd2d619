"""Entropy values of MRC: a flow's table of paths, some of them skipped or being tested.

An entropy value (EV) is a path: its plane, which is the port pair that it takes, and the choices of
the switches. A flow has `entropy_values` active EVs, equally many in each plane, and spares.
States:

- good;
- skipped: a packet that took it was marked, or trimmed before the last hop. It is skipped at its
  next turn, and good after that;
- assumed bad: a packet that took it was lost. A spare of its plane replaces it, if there is one.
  The first probe is sent after 15/16 to one `probe_interval`, the others once per interval. After
  `probes_needed` answers the EV is good again, or a spare. If fewer than `min_active` of the EVs
  would be left, the EV stays good.

A packet takes the least loaded port, and in its plane the next EV in a pseudo-random order that
changes with each round. The port of a plane without an active EV is not used while another has one.

    PARAMS = [*entropy_values.PARAMS, ...]
    TX_STATE, TX_TIMERS = (*entropy_values.TX_STATE, ...), 2  # number 1 is for probes

    def build_packet(env, now, tx, pkt):
        pkt.entropy = entropy_values.next_entropy(env, now, tx, int(pkt.seq))

The transport also sets ``tx.period_ps``, the time unit for transmissions, and calls ``start``,
``skip``, ``lost``, ``answered`` and ``on_timer``; the receiver calls ``answer_probe``.

Good, assumed bad, and `min_active` come from MRC's public interface, repository
opencomputeproject/OCP-Multipath-Reliable-Connection, mrc_ctl.h (`mrc_ctl_ev_state`,
`ev_min_active`); skipped EVs and spares come from arXiv 2605.04333. How long an EV stays bad is not
published. A controller may deny all EVs of a plane (`denied_plane`, which `run.set` of
`netsim.steps` changes during a run), but not single EVs. Probes are never marked.
"""

from netsim.params import Param
from netsim.transport import (
    armed,
    mix,
    permuted,
    port_pair,
    port_pairs_in_use,
    rand32,
    send,
    set_timer,
)

PARAMS = [
    Param("entropy_values", "count", 128,
          "active EVs of a flow, on all planes together; published: 128 to 256",
          minimum=1, maximum=256),
    Param("spare_values", "count", 32,
          "EVs that replace lost ones, on all planes together; no published value", maximum=32),
    Param("min_active", "fraction", 0.25,
          "EVs that stay active, however many packets are lost, of all active ones",
          source="mrc_ctl.h: ev_min_active; a quarter in examples/mrc_ctl_gen_ev.md"),
    Param("probe_interval", "time", "1ms",
          "until a lost EV is probed, and between its probes; no published value",
          minimum="16us", maximum="10s"),
    Param("probes_needed", "count", 1,
          "answered probes that make an EV good again; no published value",
          minimum=1, maximum=3),
    Param("denied_plane", "count", None,
          "plane of which a controller denies all EVs, if there are others; default: none",
          maximum=15, source="mrc_ctl.h: MRC_CTL_EV_DENIED"),
]  # fmt: skip

SPARE, GOOD, SKIP, BAD = 0, 1, 2, 3
STATE = 3  # bits 0 and 1 of an EV's byte; 2 to 5: the tick of its probe; 6 and 7: answers
TICK, ANSWER = 1 << 2, 1 << 6
TICKS = 16  # per interval of probes
EVS_PER_WORD = 7
WORDS = 46  # for 256 active and 32 spare EVs, both rounded up to whole planes
MAX_PLANES = 16
RANGE = 1024  # packets, from the oldest missing one, whose last transmission is known
SENT_PER_WORD, SENT_BITS = 5, 12  # 9 for the EV, 3 for the time in periods
PERIODS = 8
MAX_PROBES = 8  # per handler call
PROBE, PROBED = 2, 13  # kinds of packets
TIMER = 1
PURPOSE = 66  # purpose of the random numbers
CONTROL = 0

TX_STATE = (
    "n_planes",
    "n_rows",  # EVs of a plane, with spares
    "first_row",  # of the entropies that the flow uses
    "n_active",
    "n_bad",
    "least_active",
    "last_plane",  # chosen round-robin
    "ev_salt",
    ("active_in", MAX_PLANES),  # active EVs of a plane
    ("turns", MAX_PLANES),  # EVs that have had their turn
    ("evs", WORDS),  # a byte each
    "period_ps",
    ("sent_evs", -(-RANGE // SENT_PER_WORD)),  # EV and time of each packet
)


def start(env, tx):
    """Make the first EVs of each plane active and the others spares."""
    tx.n_planes = env.par.pair_by_entropy
    if tx.n_planes < 1 or tx.n_planes > MAX_PLANES:
        tx.n_planes = 1
    n = (env.par.entropy_values + tx.n_planes - 1) // tx.n_planes
    tx.n_rows = n + (env.par.spare_values + tx.n_planes - 1) // tx.n_planes
    tx.ev_salt = rand32(env.par.seed, PURPOSE, tx.flow, 0)
    tx.first_row = tx.ev_salt % n_rows_in_all(tx)
    tx.n_active = n * tx.n_planes
    tx.least_active = max(int(env.par.min_active * tx.n_active), 1)
    for plane in range(tx.n_planes):
        tx.active_in[plane] = n
    for ev in range(tx.n_active):
        put(tx, ev, GOOD)
    if env.par.denied_plane >= 0:
        tx.entropy = next_port(env, tx)


def n_rows_in_all(tx):
    """Return how many entropies a plane has. An entropy is row * planes + plane. An EV is the same,
    with rows counted from the flow's first row."""
    return 65536 // tx.n_planes


def entropy_of(tx, ev):
    row = (tx.first_row + ev // tx.n_planes) % n_rows_in_all(tx)
    return row * tx.n_planes + ev % tx.n_planes


def ev_of(tx, entropy):
    row = (entropy // tx.n_planes - tx.first_row) % n_rows_in_all(tx)
    return row * tx.n_planes + entropy % tx.n_planes


def get(tx, ev):
    """Return an EV's byte."""
    return (tx.evs[ev // EVS_PER_WORD] >> 8 * (ev % EVS_PER_WORD)) & 0xFF


def put(tx, ev, byte):
    shift = 8 * (ev % EVS_PER_WORD)
    tx.evs[ev // EVS_PER_WORD] += (byte - get(tx, ev)) << shift


def next_entropy(env, now, tx, seq):
    """Return the entropy of packet ``seq``, being sent, and choose the port of the next one."""
    plane = 0
    if tx.n_planes > 1:
        plane = port_pair(env, tx)
    ev = next_ev(tx, plane)
    sent = ev | (now // tx.period_ps % PERIODS) << 9
    word = seq % RANGE // SENT_PER_WORD
    shift = SENT_BITS * (seq % RANGE % SENT_PER_WORD)
    tx.sent_evs[word] += (sent - last_sent(tx, seq)) << shift
    if env.par.pair_by_entropy > 0:
        tx.entropy = next_port(env, tx)
    return entropy_of(tx, ev)


def last_sent(tx, seq):
    """Return a packet's EV and, in the bits above, when it was last sent."""
    word = tx.sent_evs[seq % RANGE // SENT_PER_WORD]
    return (word >> SENT_BITS * (seq % RANGE % SENT_PER_WORD)) & 0xFFF


def is_older(now, tx, seq, sent_ps):
    """Return whether packet ``seq`` was last sent more than one or two periods before ``sent_ps``.
    After more than ``PERIODS``, this may wrongly be false."""
    period = now // tx.period_ps
    ago = (period - (last_sent(tx, seq) >> 9)) % PERIODS
    return ago >= period - sent_ps // tx.period_ps + 2


def next_ev(tx, plane):
    """Return the next good EV of a plane in this round's order, or the next one if none is good."""
    n = tx.n_rows
    ev = plane
    for _ in range(2 * n):
        turn = tx.turns[plane]
        tx.turns[plane] = turn + 1
        key = mix(tx.ev_salt ^ ((turn // n * MAX_PLANES + plane) & 0xFFFFFFFF))
        ev = permuted(key, turn % n, n) * tx.n_planes + plane
        byte = get(tx, ev)
        if byte & STATE == GOOD:
            return ev
        if byte & STATE == SKIP:
            put(tx, ev, GOOD)
    return ev


def next_port(env, tx):
    """Return an entropy that chooses a port: the least loaded one or, if a plane in use is denied
    or has no active EV, the next port of the other planes in round-robin order."""
    up = port_pairs_in_use(env, tx)
    everywhere = True
    chosen = -1
    for k in range(1, tx.n_planes + 1):
        plane = (tx.last_plane + k) % tx.n_planes
        if (up >> plane) & 1 == 1:
            if tx.active_in[plane] == 0 or plane == env.par.denied_plane:
                everywhere = False
            elif chosen < 0:
                chosen = plane
    if everywhere or chosen < 0:
        return -1
    tx.last_plane = chosen
    return index_of(up, chosen)


def index_of(up, plane):
    """Return a plane's number among the planes in use."""
    index = 0
    for k in range(plane):
        index += (up >> k) & 1
    return index


def skip(tx, entropy):
    """Skip an active EV at its next turn."""
    ev = ev_of(tx, entropy)
    if get(tx, ev) & STATE == GOOD:
        put(tx, ev, SKIP)


def lost(env, now, tx, seq):
    """Assume that the EV of packet ``seq`` is bad, and replace it by a spare."""
    ev = last_sent(tx, seq) & 0x1FF
    state = get(tx, ev) & STATE
    if state in (SPARE, BAD):
        return
    plane = ev % tx.n_planes
    spare = plane
    while spare < tx.n_rows * tx.n_planes and get(tx, spare) & STATE != SPARE:
        spare += tx.n_planes
    if spare < tx.n_rows * tx.n_planes:
        put(tx, spare, GOOD)
    elif tx.n_active > tx.least_active:
        tx.n_active -= 1
        tx.active_in[plane] -= 1
    else:
        return
    tx.n_bad += 1
    put(tx, ev, BAD + tick_at(env, now, tx) % TICKS * TICK)
    if not armed(env, tx, TIMER):
        set_next_tick(env, now, tx)


def tick_at(env, now, tx):
    """Return the number of ticks until now; each flow has different tick times."""
    tick_ps = env.par.probe_interval // TICKS
    return (now + tx.ev_salt % tick_ps) // tick_ps


def set_next_tick(env, now, tx):
    tick_ps = env.par.probe_interval // TICKS
    next_ps = (tick_at(env, now, tx) + 1) * tick_ps - tx.ev_salt % tick_ps
    set_timer(env, now, tx, TIMER, next_ps)


def on_timer(env, now, tx):
    """Probe the EVs of this tick. Excess probes wait for the next round."""
    tick = tick_at(env, now, tx) % TICKS
    left = MAX_PROBES
    for ev in range(tx.n_rows * tx.n_planes):
        byte = get(tx, ev)
        if byte & STATE == BAD and byte // TICK % TICKS == tick:
            if left > 0:
                left -= probe(env, tx, ev)
            else:
                put(tx, ev, byte + ((tick + 1) % TICKS - tick) * TICK)
    if tx.n_bad > 0:
        set_next_tick(env, now, tx)


def probe(env, tx, ev):
    """Send a probe by an EV if its port is in use. Return how many were sent."""
    plane = ev % tx.n_planes
    up = port_pairs_in_use(env, tx)
    if (up >> plane) & 1 == 0:
        return 0
    own = tx.entropy
    tx.entropy = index_of(up, plane)
    pkt = send(env, tx, PROBE, 0, 0, CONTROL)
    pkt.entropy = entropy_of(tx, ev)
    tx.entropy = own
    return 1


def answer_probe(env, rx, pkt):
    """Answer a probe, at the receiver."""
    answer = send(env, rx, PROBED, 0, 0, CONTROL)
    answer.entropy = int(pkt.entropy)


def answered(env, tx, entropy):
    """Process the answer to a probe."""
    ev = ev_of(tx, entropy)
    byte = get(tx, ev)
    if byte & STATE != BAD:
        return
    if byte // ANSWER + 1 < env.par.probes_needed:
        put(tx, ev, byte + ANSWER)
        return
    tx.n_bad -= 1
    plane = ev % tx.n_planes
    n = (env.par.entropy_values + tx.n_planes - 1) // tx.n_planes
    if tx.active_in[plane] < n:
        tx.active_in[plane] += 1
        tx.n_active += 1
        put(tx, ev, GOOD)
    else:
        put(tx, ev, SPARE)
