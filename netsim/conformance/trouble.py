"""Cases: every byte arrives although switches drop, trim or reorder packets."""

from __future__ import annotations

from typing import Any

from netsim.conformance.delivery import PACKET, incast_of, packets_of, permutation_of
from netsim.conformance.finding import NotApplicableError
from netsim.conformance.lab import Lab


def full_queues(lab: Lab) -> str:
    """Seven hosts send to one through switches that drop what is more than eight packets."""
    changes: dict[str, Any] = {"model": "drop_tail", "queue_bytes": "8pkt"}
    return lab.run(incast_of(packets_of(lab, 20) * PACKET), changes=changes).line()


def trimming(lab: Lab) -> str:
    """Switches cut packets that do not fit down to their headers."""
    changes: dict[str, Any] = {
        "model": "trim",
        "n_classes": 2,
        "queue_bytes": "4pkt",
        "header_queue_bytes": "1MB",
    }
    if lab.fabric_defaults.get("model") != "trim" and not hasattr(lab.plugin.module, "on_trimmed"):
        raise NotApplicableError("no on_trimmed, and the fabric is not one that trims")
    run = lab.run(incast_of(packets_of(lab, 20) * PACKET), changes=changes)
    if run.total("trims") == 0:
        raise NotApplicableError("nothing was trimmed")
    return run.line()


def full_header_queues(lab: Lab) -> str:
    """Headers and control packets are lost as well: the last resort has to work."""
    if lab.fabric_defaults.get("model") != "trim":
        raise NotApplicableError("the fabric is not one that trims")
    changes: dict[str, Any] = {"queue_bytes": "2pkt", "header_queue_bytes": "256B"}
    return lab.run(incast_of(packets_of(lab, 20) * PACKET), changes=changes).line()


def reordering(lab: Lab) -> str:
    """Every packet takes a path of its own, so that many are overtaken."""
    changes = {"load_balancing": "spray_random"}
    run = lab.run(permutation_of(packets_of(lab, 40) * PACKET), changes=changes)
    return run.line()
