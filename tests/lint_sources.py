"""Plugins of three kinds without errors, with places (`pass  # NAME`) for statements."""

SOUND = '''
"""A window of packets, each acknowledged."""

from netsim.blocks import selective
from netsim.params import Param
from netsim.transport import ACK, BLOCKED, armed, deliver, finish, send, set_timer

PARAMS = [Param("window", "count", 8, "packets"), Param("rto", "time", "1ms", "timeout")]
TX_STATE = ("next_seq", "acked", ("rate", float), ("sent", 4))
RX_STATE = ("n",)
HOST_STATE = ("credit", ("active", 8))
PACKET_FIELDS = ("stamp", ("notes", 4))
TX_TIMERS, RTO = 1, 0


def setup(env, tx, rx):
    pass  # setup


def ready(env, now, tx):
    if tx.next_seq < tx.n_packets and tx.next_seq - tx.acked < env.par.window:
        return now
    return BLOCKED


def build_packet(env, now, tx, pkt):
    pkt.seq = tx.next_seq
    tx.next_seq += 1
    pass  # build_packet


def on_data(env, now, rx, pkt):
    deliver(env, now, rx, int(pkt.size_bytes) - env.par.header_bytes)
    ack = send(env, rx, ACK, int(pkt.seq), 0, 0)
    pass  # on_data


def on_control(env, now, tx, pkt):
    tx.acked += 1
    if tx.acked == tx.n_packets:
        finish(env, now, tx)
    pass  # on_control


def on_forward(now, pkt, port, queue):
    pass  # on_forward


def helper(env, tx, other):
    pass  # helper


def flow(env, i):
    return env.tx[i]


def on_timer(env, now, tx, k):
    helper(env, tx, env.host)
'''

QUEUE = '''
"""Prefer packets of flows with fewer bytes left."""

from netsim.params import Param
from netsim.queue import DROP, NO_CLASS, class_of, peek, pop_tail, drop, queue_length, wait_until

PARAMS = [Param("room", "queue", "9pkt", "per class")]
COUPLED = True
PORT_STATE = ("turn", ("weights", 8))
CLASS_STATE = (("average", float),)
SWITCH_STATE = ("used",)
PACKET_FIELDS = ("left",)


def on_arrival(env, now, port, pkt):
    env.switch.used += int(pkt.size_bytes)
    pass  # on_arrival
    return 0


def admit(env, now, port, pkt):
    queue = class_of(env, port, int(pkt.prio))
    if queue.bytes > env.par.room:
        return DROP
    last = pop_tail(env, port, queue)
    drop(env, now, port, last)
    head = peek(env, queue, 0)
    pass  # admit
    return int(pkt.prio)


def choose_class(env, now, port):
    port.turn += 1
    pass  # choose_class
    wait_until(env, now, port, now + 5)
    return NO_CLASS


def choose_packet(env, now, port, queue):
    return helper(env, port, queue)


def on_send(env, now, port, queue, pkt):
    queue.average = 0.5 * queue.bytes
    pkt.left = queue_length(queue)
    pass  # on_send


def on_departure(env, now, port, cls, size):
    env.switch.used -= size
    pass  # on_departure


def helper(env, port, other):
    pass  # helper
    return 0
'''

PROGRAM = '''
"""Each task starts the next one when it is done."""

from netsim.params import Param
from netsim.program import armed, cancel_timer, log_row, set_duration, set_timer
from netsim.program import peer_host, flow_bytes, start, task_at

PARAMS = [Param("gap", "time", "1us", "waits"), Param("file", "file", "a.csv", "no number")]
TASK_STATE = ("next", ("weights", 4))
HOST_STATE = ("seen", ("mean", float))
TIMERS = 2
LOG = ("event", "who")


def flows(params, network, rng, context):
    raise NotImplementedError


def on_begin(env, now):
    set_timer(env, now, 0, now + env.par.gap)
    pass  # on_begin


def on_task(env, now, task):
    env.host.seen += task.runs + flow_bytes(env, task) + peer_host(env, task)
    task.weights[1] = env.host.host
    following = task_at(env, task.next)
    set_duration(env, following, env.par.gap)
    start(env, now, following)
    log_row(env, now, 1, task.index)
    pass  # on_task


def on_timer(env, now, k):
    if armed(env, 1 - k):
        cancel_timer(env, 1 - k)
    env.host.mean = 0.5
    helper(env, task_at(env, 0))
    pass  # on_timer


def helper(env, other):
    pass  # helper
'''

SOURCES = {"transport": SOUND, "queue": QUEUE, "traffic": PROGRAM}
