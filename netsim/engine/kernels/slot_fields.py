"""The record of a slot of phase-driven circuit switches; see `fields.py` on records."""

from __future__ import annotations

from netsim.engine.kernels.fields import Declared
from netsim.engine.kernels.ids import Ps


class SlotRecord(Declared):
    """A slot of phase-driven circuit switches."""

    control_delay_ps: Ps  # from the end of the previous phase to its start
    night_ps: Ps  # from its start until all its circuits are up
    begin_ps: Ps  # INF until known
    up_ps: Ps  # likewise
    waits_for: int  # undelivered flows of its phase
    done_ps: Ps  # last delivery of its phase
    # Rows of `reconfiguring_ports`: ports whose circuit goes down ...
    first_ending: int
    first_beginning: int  # ... ports whose circuit comes up ...
    behind: int  # ... and the row past them
