"""Small cases for tests with hand-computed numbers.

Packets of 936 + 64 = 1000 bytes take 80 ns at 100 Gbps and 160 ns at 50 Gbps, control packets of 64
bytes 5.12 ns and 10.24 ns; cables have 100 ns.
"""

from typing import Any

from .model import Cable, Case, Departure, Outcome

G = 10**9
NS = 1_000
DELAY = 100 * NS
PAYLOAD = 936
FULL = 1000


def cable(a: int, b: int, gbps: int = 100, delay_ps: int = DELAY) -> Cable:
    """Return a cable that is the same in both directions."""
    return Cable(a, b, gbps * G, delay_ps, delay_ps)


def fabric(model: str = "drop_tail", **changes: Any) -> dict[str, Any]:
    """Return a fabric with limits out of reach, apart from the changes."""
    return {
        "queue_discipline": model, "routing": "ecmp",
        "n_traffic_classes": 2 if model in ("trim", "credit_shaper") else 1,
        "queue_bytes": 10**6, "header_queue_bytes": 10**6, "header_ratio": 10,
        "ecn": None, "ecn_from_class": 0,
        "xoff_bytes": 10**6, "xon_bytes": 10**6, "headroom_bytes": 10**6,
        "shared_buffer_bytes": None, "alpha": None, "xon_gap_bytes": 0,
        "target_ps": 10**9, "interval_ps": 10**9, "mark": False,
        "credit_bytes": 64, "credit_burst": 2, "credit_slots": 8,
        **changes,
    }  # fmt: skip


def case(
    n_hosts: int,
    cables: list[Cable],
    flows: list[tuple[int, int, int, int]],
    transport: str = "datagram",
    params: dict[str, Any] | None = None,
    in_fabric: dict[str, Any] | None = None,
    **changes: Any,
) -> Case:
    """Return a case; nodes that are not hosts are switches."""
    defaults: dict[str, dict[str, Any]] = {
        "datagram": {"rate_bps": None, "data_class": 0},
        "roce": {"ack_every": 1, "rto_ps": 10**10, "data_class": 0, "ack_class": None},
        "ndp": {"initial_window": 8, "rto_ps": 10**10},
    }
    n_nodes = 1 + max(max(c.a, c.b) for c in cables)
    return Case(
        n_hosts=n_hosts,
        n_switches=n_nodes - n_hosts,
        cables=cables,
        fabric=in_fabric or fabric(),
        packets={"payload_bytes": PAYLOAD, "header_bytes": 64, "control_bytes": 64},
        transport=transport,
        params={**defaults[transport], **(params or {})},
        flows=flows,
        **changes,
    )


def star(n_senders: int, gbps_out: int = 100) -> list[Cable]:
    """Hosts 0.. send to the last host; the switch's local port i leads to host i. Host h has global
    port h, and the switch's port to it is n_senders + 1 + h."""
    switch = n_senders + 1
    hosts = [cable(h, switch) for h in range(n_senders)]
    return [*hosts, cable(n_senders, switch, gbps_out)]


def starts(departures: list[Departure], kind: int) -> list[tuple[int, int]]:
    """Return (time, seq) of the transmissions of a kind."""
    return [(d.start_ps, d.seq) for d in departures if d.kind == kind]


def total(outcome: Outcome, counter: str) -> int:
    """Sum a counter over all ports and classes."""
    return sum(getattr(counters, counter) for counters in outcome.counters.values())
