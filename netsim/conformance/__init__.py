"""Check plugins on small networks: the Python form of `netsim check FILE`.

    from netsim.conformance import check, failures

    def test_my_plugin() -> None:
        assert not failures(check("./mine.py"))

Most cases run as plain Python, within a second and without compiling. They check every handler
call: undeclared fields, records of another host, delivered bytes that never arrived. The other
cases need the compiled engine. `load_testbed("./mine.py").run(flows)` runs any flows.
"""

from netsim.conformance.builder_cases import TopologyTestbed, TrafficTestbed
from netsim.conformance.check import CASES, check, each, failures, kind_of, load_testbed
from netsim.conformance.finding import STATUSES, Case, Finding
from netsim.conformance.testbed import QueueTestbed, RoutingTestbed, Testbed

__all__ = [
    "CASES", "STATUSES", "Case", "Finding", "QueueTestbed", "RoutingTestbed", "Testbed",
    "TopologyTestbed", "TrafficTestbed", "check", "each", "failures", "kind_of",
    "load_testbed",
]  # fmt: skip
