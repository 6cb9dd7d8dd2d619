"""The record of a slot of phase-driven circuit switches; see `fields.py` on records."""

from __future__ import annotations

from netsim.engine.kernels.fields import Declared
from netsim.engine.kernels.ids import Ps


class SlotRecord(Declared):
    """A slot: when it begins, and the flows that it waits for."""

    control_delay_ps: Ps  # from the end of the phase before it to its begin
    night_ps: Ps  # from its begin until all its circuits are up
    begin_ps: Ps  # INF until known
    up_ps: Ps  # likewise
    waits_for: int  # flows of its phase that are not delivered
    done_ps: Ps  # when the last delivered one was
    # Rows of `reconfiguring_ports`: ports whose circuit goes down as it begins ...
    first_ending: int
    first_beginning: int  # ... then ports whose circuit comes up ...
    behind: int  # ... and the row past them
