"""The fabric of SMaRTT and NSCC: queues of a bandwidth-delay product of the network, and trimming.

Data is marked from 20 % to 80 % of a queue, and what does not fit is trimmed; acknowledgments and
trimmed headers have class 0 to themselves. `FABRIC` is for four links of 1 us at 100 Gbps, preset
800g for 800 Gbps.

    FABRIC, PRESET_FABRIC = bdp_queues.FABRIC, bdp_queues.PRESET_FABRIC
"""

FABRIC = {
    "queue_discipline": "trim",
    "load_balancing": "ecmp",
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
