"""Check transports, queue disciplines, routing algorithms and traffic patterns on small networks.

The same in Python as `netsim check-transport`, `check-queue`, `check-routing` and `check-traffic`:

    from netsim.conformance import check, check_queue, check_routing, check_traffic, failures

    def test_my_transport() -> None:
        assert not failures(check("./mine.py"))

    def test_my_queue() -> None:
        assert not failures(check_queue("./my_queue.py"))

    def test_my_routing() -> None:
        assert not failures(check_routing("./my_routing.py"))

    def test_my_traffic() -> None:
        assert not failures(check_traffic("./my_traffic.py"))

Most cases run as plain Python, within a second and without compiling. They check every handler
call: undeclared fields, records of another host, bytes delivered that never arrived. The other
cases need the compiled engine.
"""

from netsim.conformance.cases import CASES, QUEUE_CASES, ROUTING_CASES, TRAFFIC_CASES, Case
from netsim.conformance.check import (
    check,
    check_queue,
    check_routing,
    check_traffic,
    each,
    failures,
)
from netsim.conformance.finding import Finding
from netsim.conformance.queue_testbed import QueueTestbed
from netsim.conformance.routing_testbed import RoutingTestbed
from netsim.conformance.testbed import Testbed
from netsim.conformance.traffic_testbed import TrafficTestbed

__all__ = [
    "CASES", "QUEUE_CASES", "ROUTING_CASES", "TRAFFIC_CASES", "Case", "Finding", "QueueTestbed",
    "RoutingTestbed", "Testbed", "TrafficTestbed", "check", "check_queue", "check_routing",
    "check_traffic", "each", "failures",
]  # fmt: skip
