"""Circuit switches: duty cycle of circuits, and the table of slots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.common.terminal import Column as Cells
from netsim.common.terminal import any_of, count, percent
from netsim.model.circuit_times import time_up_ps
from netsim.model.circuits import NONE, Circuits
from netsim.model.fabric import OPPORTUNISTIC
from netsim.results.columns import Metric, TableSpec
from netsim.results.run_result import Run, Table
from netsim.units import listed

if TYPE_CHECKING:
    from netsim.engine.engine import Engine
    from netsim.model.columns import Ints

NAMED = 5  # maximum number of flows that a message lists; it counts the rest

CIRCUIT_SLOTS = TableSpec.of(
    "circuit_slots",
    """
    slot                       index  slot, numbered as its phase
    flows                      flows  flows of the phase
    bytes                      B      payload of these flows
    reconfiguration_start_ps?  ps     when the switches began to reconfigure; null if they did not
    circuit_up_ps?             ps     when the circuits of all switches are up
    start_ps?                  ps     when the first flow of the phase started; null if none did
    exposed_wait_ps?           ps     time from that start to circuit_up_ps: 0 if the
        reconfiguration was hidden; null if one of the two did not happen
    end_ps?                    ps     when the last flow of the phase was delivered; null if one is
        missing
    """,
)

TABLES = (CIRCUIT_SLOTS,)
ORDER = 60

SWEEP = Metric.each("""
no_circuit_drops     packets  circuits.no_circuit_drops    packets lost because no circuit was up;
    included in lost
circuit_duty_cycle%  1        circuits.circuit_duty_cycle  mean share of the time for which circuits
    were up
""")


def report(run: Run) -> dict[str, Any]:
    """Add the table of slots, if circuits follow the workload; return metrics of circuits."""
    if run.engine is None:
        return {}
    slots = slot_table(run.engine)
    if slots is not None:
        run.tables["circuit_slots"] = slots
    return circuit_metrics(run.engine, slots)


def lines(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the duty cycle and the drops."""
    if found := summary.get("circuits"):
        dropped = f"{count(found['no_circuit_drops'])} packets lost without a circuit"
        yield "circuits", f"up {100 * found['circuit_duty_cycle']:.3g} % of the time, {dropped}"


def sweep_columns(rows: Sequence[Mapping[str, Any]]) -> Iterator[Cells]:
    """Yield the duty cycle and the drops of each point."""
    if any_of(rows, "circuit_duty_cycle"):
        shares = [percent(row.get("circuit_duty_cycle")) for row in rows]
        yield Cells("circuits\nup, %", shares, rank=6)
        drops = [count(row.get("no_circuit_drops")) for row in rows]
        yield Cells("no\ncircuit", drops, rank=4)


def current_circuits(engine: Engine) -> Circuits | None:
    """Return the circuits of a run, with the days that the workload has caused so far."""
    circuits = engine.network.circuits
    if circuits is None or not engine.feature_set.phase_driven:
        return circuits
    return circuits.with_slot_starts(engine.slot_states().begin_ps)


def circuit_metrics(engine: Engine, slots: Table | None) -> dict[str, Any]:
    """Return the circuit summary: the mean duty cycle (of changing circuits, if any) and drops.

    With `slots` (`slot_table`), also the number of slots that began and the exposed wait; with
    opportunistic indirection, the number of indirect packets.
    """
    circuits, current = engine.network.circuits, current_circuits(engine)
    if circuits is None or current is None or not circuits.names:
        return {}
    counters = engine.link_counters()
    end_ps = max(1, engine.now_ps)
    changing = bool(circuits.ever.any())
    counted = circuits.of_port >= 0
    if changing:
        counted = np.append(circuits.ever, False)[circuits.calendar]
    figures = {
        "switches": len(circuits.names),
        "circuits": int((counted | counted[engine.network.port_peer]).sum()) // 2,
        "circuit_duty_cycle": float(time_up_ps(current, end_ps)[circuits.ever].mean() / end_ps)
        if changing
        else 1.0,
        "no_circuit_drops": int(counters.no_circuit_packets.sum()),
        "no_circuit_bytes": int(counters.no_circuit_bytes.sum()),
    }
    if _is_opportunistic(engine):
        figures["indirect_packets"] = engine.indirect_packets()
    if slots is not None:
        start_ps = slots["reconfiguration_start_ps"]
        figures["slots"] = int(((start_ps >= 0) & (start_ps < end_ps)).sum())
        figures["exposed_wait_ps"] = int(np.maximum(slots["exposed_wait_ps"], 0).sum())
    return {"circuits": figures}


def no_indirect_packets(engine: Engine) -> str:
    """Return a note if opportunistic indirection applied to no packet, else ""."""
    rules, classes = engine.fabric.circuits, engine.flow_states().traffic_class
    if rules is None or not _is_opportunistic(engine) or engine.indirect_packets():
        return ""
    if not classes.size or classes.max() > rules.indirect_class:
        return ""
    return (
        f"no packet was indirect: data is in class {classes.max()}, not above "
        f"fabric.circuits.indirect_class = {rules.indirect_class}"
    )


def _is_opportunistic(engine: Engine) -> bool:
    return engine.fabric.circuits is not None and engine.fabric.circuits.indirect == OPPORTUNISTIC


def slot_table(engine: Engine) -> Table | None:
    """Return one row per slot of phase-driven circuit switches, None without them."""
    if not engine.feature_set.phase_driven:
        return None
    states, phase = engine.slot_states(), _phases(engine)
    n_slots = states.begin_ps.size
    flows = engine.flow_states()
    has = phase >= 0
    started = has & (flows.waits_for == 0) & (flows.start_ps <= engine.now_ps)
    start_ps = np.full(n_slots, engine.now_ps + 1)
    np.minimum.at(start_ps, phase[started], flows.start_ps[started])
    start_ps[start_ps > engine.now_ps] = NONE
    n_bytes = np.zeros(n_slots, np.int64)
    np.add.at(n_bytes, phase[has], flows.size_bytes[has])
    waited_ps = np.maximum(states.up_ps - start_ps, 0)
    return {
        "slot": np.arange(n_slots),
        "flows": np.bincount(phase[has], minlength=n_slots),
        "bytes": n_bytes,
        "reconfiguration_start_ps": states.begin_ps,
        "circuit_up_ps": states.up_ps,
        "start_ps": start_ps,
        "exposed_wait_ps": np.where((start_ps >= 0) & (states.up_ps >= 0), waited_ps, NONE),
        "end_ps": np.where(states.waits_for == 0, states.done_ps, NONE),
    }


def waiting_slot(engine: Engine) -> str:
    """Return a note on the slot that waits for flows, or ""."""
    if not engine.feature_set.phase_driven:
        return ""
    states = engine.slot_states()
    last = int((states.begin_ps >= 0).sum()) - 1
    flows = np.flatnonzero((_phases(engine) == last) & (engine.flow_states().done_ps < 0))
    if last + 1 == states.begin_ps.size or not flows.size:
        return ""
    named = listed(flows.tolist(), NAMED, "flow {}".format)
    return f"slot {last + 1} of circuit switches waits for {named}"


def _phases(engine: Engine) -> Ints:
    """Return the phase of each flow as int64[n_flows], -1 for none."""
    circuits = engine.network.circuits
    assert circuits is not None
    assert circuits.phase_schedule is not None
    assert circuits.phase_schedule.phase_of_flow is not None
    return circuits.phase_schedule.phase_of_flow
