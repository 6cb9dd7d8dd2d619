"""Cases: the same input gives the same output, whoever computes it and in what steps."""

from __future__ import annotations

from netsim.conformance.delivery import PACKET, incast_of, packets_of
from netsim.conformance.finding import ConformanceError
from netsim.conformance.lab import Lab, Run
from netsim.conformance.networks import tree
from netsim.flows import FlowTable

WINDOWS_PS = (1_000_000, 370_000, 41_001)
THREADS = (1, 2, 4)


def _same(what: str, runs: dict[object, Run]) -> str:
    first, *others = runs
    digest = runs[first].digest()
    for other in others:
        if runs[other].digest() != digest:
            raise ConformanceError(
                f"{what} {first} and {other} give different results: something else than the "
                "declared state and the arguments of a handler has a say"
            )
    return runs[first].line()


def windows(lab: Lab) -> str:
    """Windows of any length; also, the same run several times."""
    flows = incast_of(packets_of(lab, 12) * PACKET)
    runs: dict[object, Run] = {
        f"of {w} ps": lab.run(flows, watched=False, window_ps=w) for w in WINDOWS_PS
    }
    return _same("windows", runs)


def threads(lab: Lab) -> str:
    """One, two and four threads."""
    network = tree(leaves=8, per_leaf=4)
    n = network.n_hosts
    src = [h for h in range(n) for _ in range(2)]
    dst = [(h + step) % n for h in range(n) for step in (5, 16)]
    flows = FlowTable(src, dst, 100 * PACKET + 9)
    runs: dict[object, Run] = {t: lab.run(flows, network, jit=True, threads=t) for t in THREADS}
    return _same("threads", runs)


def compiled_as_plain(lab: Lab) -> str:
    """Compiled and as plain Python."""
    flows = incast_of(12 * PACKET - 5)
    return _same(
        "",
        {
            "compiled code": lab.run(flows, jit=True),
            "plain Python": lab.run(flows, watched=False),
        },
    )
