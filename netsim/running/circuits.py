"""What circuits did in a run: columns of the table of links, and their figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.model.circuit_times import lit_ps

if TYPE_CHECKING:
    from netsim.engine.engine import Engine
    from netsim.results.run_result import Table


def circuit_columns(engine: Engine) -> Table:
    """Of each link and class: the circuit switch that it goes through, and what went dark."""
    circuits = engine.network.circuits
    if circuits is None:
        return {}
    counters = engine.link_counters()
    names = np.array([*circuits.names, ""])  # that of -1 is the last
    return {
        "circuit_switch": np.repeat(names[circuits.of_port], engine.fabric.n_classes),
        "dark": counters.dark_packets,
        "dark_bytes": counters.dark_bytes,
    }


def circuit_figures(engine: Engine) -> dict[str, Any]:
    """The circuits' part of the summary: for how much of the time they were there on average."""
    circuits = engine.network.circuits
    if circuits is None or not circuits.ever.any():
        return {}
    counters = engine.link_counters()
    end_ps = max(1, engine.now_ps)
    changes = np.append(circuits.ever, False)[circuits.calendar]
    return {
        "circuits": {
            "switches": len(circuits.names),
            "circuits": int((changes | changes[engine.network.port_peer]).sum()) // 2,
            "duty": float(lit_ps(circuits, end_ps)[circuits.ever].mean() / end_ps),
            "dark": int(counters.dark_packets.sum()),
            "dark_bytes": int(counters.dark_bytes.sum()),
        }
    }
