"""Trace one flow: its packet events and the state of both its sides over time.

    from netsim.tracing import trace_flow
    trace = trace_flow(netsim.load("results/p2p_512")[1], flow=17)
    print(trace.events)

Results hold no traces. Runs are deterministic, so the flow is simulated again with recording on.
"""

from netsim.tracing.flow_trace import FlowTrace
from netsim.tracing.record import trace_flow

__all__ = ["FlowTrace", "trace_flow"]
