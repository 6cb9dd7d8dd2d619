"""Phase-driven slots of circuit switches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .model import Flow

if TYPE_CHECKING:
    from .simulator import Simulator


class PhaseSchedule:
    """The slots of all phase-driven circuit switches."""

    def __init__(self, sim: Simulator) -> None:
        self.sim = sim
        self.switches = [one for one in sim.case.circuits if one.control_delay_ps is not None]
        self.begins_ps = [0]  # of the slots with a known start
        self.last_ps: dict[int, int] = {}  # phase -> its last delivery
        self.left = [0] * (len(self.switches[0].matchings) if self.switches else 0)
        for phase in sim.case.phases:
            if phase >= 0 and self.left:
                self.left[phase] += 1
        self._order()

    def on_delivered(self, flow: Flow) -> None:
        """Count a delivered flow."""
        phase = self.sim.case.phases[flow.index] if self.left else -1
        if phase >= 0:
            self.left[phase] -= 1
            self.last_ps[phase] = self.sim.now
            self._order()

    def begun(self) -> list[int]:
        """Return the starts of slots that began before now."""
        return [at for at in self.begins_ps if at < self.sim.now] if self.left else []

    def _order(self) -> None:
        """Set the start of slots whose previous phases have ended, and notify ports."""
        while len(self.begins_ps) < len(self.left) and not self.left[len(self.begins_ps) - 1]:
            phase = len(self.begins_ps) - 1
            up_ps = self.begins_ps[-1]
            if phase:
                up_ps += max(
                    one.reconfiguration_delay_ps + one.sync_delay_ps for one in self.switches
                )
            over_ps = max(up_ps, self.last_ps.get(phase, 0))
            control_delay_ps = self.switches[0].control_delay_ps
            assert control_delay_ps is not None
            self.begins_ps.append(over_ps + control_delay_ps)
            for switch in self.sim.switches:
                for port in switch.ports:
                    port.hear_of_order()
