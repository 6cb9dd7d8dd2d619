"""Random networks of any shape, for property tests."""

import itertools

from hypothesis import strategies as st

from netsim.model.builder import NetworkBuilder
from netsim.model.network import Network

GBPS = 10**9
US = 10**6


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """A connected graph of up to 9 switches with parallel cables, and 1 to 12 hosts on them."""
    n_switches = draw(st.integers(1, 9))
    n_hosts = draw(st.integers(1, 12))
    rates = st.sampled_from([25 * GBPS, 100 * GBPS, 400 * GBPS])
    delays = st.integers(1, 5 * US)
    builder = NetworkBuilder()
    hosts = builder.add_hosts(n_hosts)
    switches = [builder.add_switch() for _ in range(n_switches)]
    cables = [(host, draw(st.sampled_from(switches))) for host in hosts]
    cables += [(switches[i], switches[draw(st.integers(0, i - 1))]) for i in range(1, n_switches)]
    pairs = list(itertools.combinations(switches, 2))
    if pairs:
        cables += draw(st.lists(st.sampled_from(pairs), max_size=15))
    for a, b in draw(st.permutations(cables)):
        builder.cable(a, b, draw(rates), draw(delays))
    return builder.build("random")
