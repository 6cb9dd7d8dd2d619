"""Fabric of SMaRTT, NSCC and RCCC: trimming, and queues of one bandwidth-delay product.

ECN marks data from 20 % to 80 % of a queue; packets that do not fit are trimmed. Only
acknowledgments and trimmed headers use class 0. `FABRIC` is for four links of 1 us at 100 Gbps,
preset 800g for 800 Gbps.

    FABRIC, PRESET_FABRIC = bdp_queues.FABRIC, bdp_queues.PRESET_FABRIC
"""

FABRIC = {
    "queue_discipline": "trim",
    "routing": "ecmp",
    "plane_balancing": "entropy",
    "n_traffic_classes": 2,
    "queue_bytes": "29pkt",
    "header_queue_bytes": "1MB",
    "ecn": {"kmin_bytes": "6pkt", "kmax_bytes": "24pkt", "pmax": 1.0, "at": "dequeue"},
    "ecn_from_class": 1,
}
PRESET_FABRIC = {
    "800g": {"queue_bytes": "197pkt", "ecn": {"kmin_bytes": "40pkt", "kmax_bytes": "158pkt"}}
}
