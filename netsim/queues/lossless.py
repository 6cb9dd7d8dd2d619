"""Priority flow control: an ingress port that fills up pauses its neighbor, so nothing is dropped.

A switch counts its buffered bytes per ingress port and class. Above XOFF it pauses that class at
the other end of the cable; below XON it resumes it. With a shared buffer XOFF is `alpha` times the
switch's free buffer. IEEE 802.1Qbb; Zhu et al., "Congestion control for large-scale RDMA
deployments" (DCQCN), SIGCOMM 2015, section 4.
"""

from netsim.errors import InputError
from netsim.limits import ALPHA
from netsim.model.fabric import longest_headroom_bytes
from netsim.params import Param
from netsim.queue import ACCEPT, DROP, class_of, is_pausing, pause, resume
from netsim.units import format_bytes

PARAMS = [
    Param("xoff_bytes", "queue", "15pkt", "an ingress port pauses a class above this"),
    Param("xon_bytes", "queue", "12pkt", "an ingress port resumes a class below this"),
    Param(
        "headroom_bytes",
        "queue",
        None,
        "buffer above XOFF; auto: for the longest cable",
        none="auto",
    ),
    Param(
        "shared_buffer_bytes", "buffer", None, "per switch; makes XOFF alpha times the free buffer"
    ),
    Param(
        "alpha", "ratio", 0.125, "XOFF as a share of the free buffer", minimum=1e-6, maximum=ALPHA
    ),
    Param("xon_gap_bytes", "queue", "3KB", "with a shared buffer: distance of XON below XOFF"),
]

COUPLED = True
CLASS_STATE = ("came_in_bytes", "headroom_used")
SWITCH_STATE = ("used_bytes",)


def no_effect(params):
    if params["shared_buffer_bytes"] is None:
        why = ("without a shared buffer", "remove it, or set shared_buffer_bytes")
        return {"alpha": why, "xon_gap_bytes": why}
    remedy = 'remove it, or set shared_buffer_bytes = "none"'
    why = ("with a shared buffer, whose thresholds move", remedy)
    return {"xoff_bytes": why, "xon_bytes": why}


def check(params, fabric, packets):
    xoff, xon, shared = (params[k] for k in ("xoff_bytes", "xon_bytes", "shared_buffer_bytes"))
    if shared is not None:
        if shared < packets.data_bytes:
            message = f"{format_bytes(shared)} is less than one packet"
            hint = f"at least {format_bytes(packets.data_bytes)}"
            yield InputError(message, key="shared_buffer_bytes", hint=hint)
        return
    if xon > xoff:
        message = f"{format_bytes(xon)} exceeds XOFF"
        hint = f"at most xoff_bytes, {format_bytes(xoff)}"
        yield InputError(message, key="xon_bytes", hint=hint)
    if xon == 0:
        yield InputError("must be positive, or pauses never end", key="xon_bytes")


def settle(params, network, packets):
    if params["headroom_bytes"] is not None:
        return params
    return {**params, "headroom_bytes": longest_headroom_bytes(network, packets)}


def exceeds_xoff(env, held):
    """Return whether an ingress port pauses its neighbor when a class holds these bytes."""
    par = env.par
    if par.shared_buffer_bytes < 0:
        return held > par.xoff_bytes
    # Not rounded: comparisons with whole numbers do not need it.
    return held > par.alpha * max(0, par.shared_buffer_bytes - env.switch.used_bytes)


def on_arrival(env, now, port, pkt):
    return take_in(env, port, pkt, env.par.headroom_bytes)


def take_in(env, port, pkt, headroom):
    """Count an arriving packet and decide on a pause; drop the packet if there is no headroom."""
    cls, size = int(pkt.prio), int(pkt.size_bytes)
    ingress = class_of(env, port, cls)
    paused = is_pausing(port, cls)
    if paused and ingress.headroom_used + size > headroom:
        return DROP
    ingress.came_in_bytes += size
    if env.par.shared_buffer_bytes >= 0:
        env.switch.used_bytes += size
    if paused:
        ingress.headroom_used += size
    elif exceeds_xoff(env, ingress.came_in_bytes):
        ingress.headroom_used = 0
        pause(env, port, cls)
    return ACCEPT


def admit(env, now, port, pkt):
    return int(pkt.prio)


def on_departure(env, now, port, cls, size):
    ingress = class_of(env, port, cls)
    ingress.came_in_bytes -= size
    if env.par.shared_buffer_bytes >= 0:
        env.switch.used_bytes -= size
    if not is_pausing(port, cls):
        return
    # Resume an empty class: no later event would.
    done = ingress.came_in_bytes == 0
    if env.par.shared_buffer_bytes < 0:
        done = done or ingress.came_in_bytes < env.par.xon_bytes
    else:
        done = done or not exceeds_xoff(env, ingress.came_in_bytes + env.par.xon_gap_bytes)
    if done:
        resume(env, port, cls)
