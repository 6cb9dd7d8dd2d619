"""What every transport has to do, tried on small networks: `netsim check-transport` in Python.

    from netsim.conformance import check, failures

    def test_my_transport() -> None:
        assert not failures(check("./mine.py"))

Most cases run as plain Python, so that they take a second and no compilation, and every call
of a handler is watched: fields that are not declared, records of another host, bytes delivered
that never arrived. The others need the compiled engine.
"""

from netsim.conformance.cases import CASES, Case
from netsim.conformance.check import check, each, failures
from netsim.conformance.finding import Finding
from netsim.conformance.lab import Lab

__all__ = ["CASES", "Case", "Finding", "Lab", "check", "each", "failures"]
