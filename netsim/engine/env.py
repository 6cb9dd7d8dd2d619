"""``env``: what a handler may reach besides the records that it is given."""

from __future__ import annotations

from typing import Any, NamedTuple


class Env(NamedTuple):
    """A host and what is on it, for the handlers of one transport."""

    host: Any  # the host's record
    par: Any  # parameters of the transport ...
    pars: Any  # ... and of all of the run
    pool: Any  # packets
    blank: Any
    timers: Any
    heap: Any
    bits: Any
    tx: Any  # all flows; those of other hosts are not to be touched
    rx: Any


def env_of(host, par, ends, wires):
    """The `Env` of a host, for the transport whose parameters are ``par``.

    Another `Env` may stand for ``ends`` and ``wires``: it has what is asked of them.
    Compiled code cannot return a tuple of records, so this is copied to where it is called
    (``IN_PLACE`` of bindings.py).
    """
    return Env(
        host=host,
        par=par,
        pars=ends.pars,
        pool=wires.pool,
        blank=wires.blank,
        timers=ends.timers,
        heap=ends.heap,
        bits=ends.bits,
        tx=ends.tx,
        rx=ends.rx,
    )
