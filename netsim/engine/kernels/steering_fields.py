"""The record of slots that follow the workload; what records are stands in `fields.py`."""

from __future__ import annotations

from netsim.engine.kernels.fields import Declared
from netsim.engine.kernels.ids import Ps


class SlotRecord(Declared):
    """A slot of the steered circuit switches: when it begins, and what it lasts for."""

    control_ps: Ps  # from when the phase before it is over until it begins
    dark_ps: Ps  # from then until light passes the last of the circuit switches
    begin_ps: Ps  # INF as long as that is not known
    lit_ps: Ps  # likewise
    waits_for: int  # flows of its phase that are not delivered
    done_ps: Ps  # when the last of those was that are
    # Rows of `reconfiguring_ports`: ports whose circuit ends as it begins ...
    first_ending: int
    first_beginning: int  # ... behind them those whose circuit begins ...
    behind: int  # ... and the row behind these
