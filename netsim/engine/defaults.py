"""What happens where a transport does not say anything."""

from __future__ import annotations


def setup(env, tx, rx):
    """Nothing to initialise beyond zeros."""


def on_start(env, now, tx):
    """The flow joins the ready list, no more."""


def on_data(env, now, rx, pkt):
    """Data is ignored."""


def on_trimmed(env, now, rx, pkt):
    """A trimmed packet counts as lost."""


def on_request(env, now, rx, pkt):
    """No such packets."""


def on_control(env, now, tx, pkt):
    """No such packets."""


def on_timer(env, now, tx, k):
    """No timers."""


def on_rx_timer(env, now, rx, k):
    """No timers."""


def on_host_timer(env, now, k):
    """No timers."""


def rank(env, tx):
    """All flows are alike."""
    return 0


def on_forward(now, pkt, port, queue):
    """Switches tell nothing."""
