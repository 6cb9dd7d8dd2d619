"""What every transport, and every queue discipline, has to do, tried on small networks.

That is `netsim check-transport` and `netsim check-queue` in Python:

    from netsim.conformance import check, check_queue, failures

    def test_my_transport() -> None:
        assert not failures(check("./mine.py"))

    def test_my_queue() -> None:
        assert not failures(check_queue("./my_queue.py"))

Most cases run as plain Python, so that they take a second and no compilation, and every call
of a handler is watched: fields that are not declared, records of another host, bytes delivered
that never arrived. The others need the compiled engine.
"""

from netsim.conformance.cases import CASES, QUEUE_CASES, Case
from netsim.conformance.check import check, check_queue, each, failures
from netsim.conformance.finding import Finding
from netsim.conformance.queue_testbed import QueueTestbed
from netsim.conformance.testbed import Testbed
from netsim.renames import former

__all__ = [
    "CASES", "QUEUE_CASES", "Case", "Finding", "QueueTestbed", "Testbed", "check", "check_queue",
    "each", "failures",
]  # fmt: skip

__getattr__ = former(__name__)
