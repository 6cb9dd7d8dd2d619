"""What one flow did: every event of its packets, and the state of its two sides, over time.

    from netsim.tracing import trace_flow
    trace = trace_flow(netsim.load("results/p2p_512"), flow=17)
    print(trace.events)

Results hold no traces. A run is the same every time, so its experiment is simulated again, up to
the end of the flow, by an engine that records.
"""

from netsim.tracing.flow_trace import FlowTrace
from netsim.tracing.record import trace_flow

__all__ = ["FlowTrace", "trace_flow"]
