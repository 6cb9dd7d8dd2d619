"""Fabric of SMaRTT, NSCC, RCCC and MRC: trimming, and queues of one bandwidth-delay product.

ECN marks data from 20 % to 80 % of a queue; packets that do not fit are trimmed. Only
acknowledgments and trimmed headers use class 0. The presets are the bandwidth-delay products of
four links of 1 us at 100 and 800 Gbps, in packets of 4160 bytes.

    FABRIC, PRESET_FABRIC = bdp_queues.FABRIC, bdp_queues.PRESET_FABRIC
"""

from typing import Any

FABRIC: dict[str, Any] = {
    "queue_discipline": "trim",
    "routing": "ecmp",
    "plane_balancing": "entropy",
    "n_traffic_classes": 2,
    "queue_bytes": "1bdp",
    "header_queue_bytes": "1MB",
    "ecn": {"kmin_bytes": "0.2bdp", "kmax_bytes": "0.8bdp", "pmax": 1.0, "at": "dequeue"},
    "ecn_from_class": 1,
}
PRESET_FABRIC = {
    "100g": {"queue_bytes": "29pkt", "ecn": {"kmin_bytes": "6pkt", "kmax_bytes": "24pkt"}},
    "800g": {"queue_bytes": "197pkt", "ecn": {"kmin_bytes": "40pkt", "kmax_bytes": "158pkt"}},
}
