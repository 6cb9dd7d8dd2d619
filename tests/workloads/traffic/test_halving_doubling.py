"""All-reduce by halving and doubling: partners, sizes and dependencies of its flows."""

from __future__ import annotations

import numpy as np
from raises_input import raises_input
from traffic_cases import make

from netsim.flows import FlowTable


def steps_of(table: FlowTable, n_hosts: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the destinations and sizes of each step."""
    shape = (-1, n_hosts)
    return list(zip(table.dst.reshape(shape), table.size_bytes.reshape(shape), strict=True))


def test_every_host_ends_with_the_whole_vector() -> None:
    """Track the set of bytes that each host holds while the flows halve and join it."""
    for n_hosts, group, size in [(8, 8, 1000), (8, 4, 17), (2, 2, 3)]:
        table = make("halving_doubling", n_hosts, size=f"{size}B", group_size=group)
        has = [set(range(size)) for _ in range(n_hosts)]
        sent = steps_of(table, n_hosts)
        halvings = len(sent) // 2
        assert 2**halvings == group
        for step, (dst, sizes) in enumerate(sent):
            kept = []
            for host, other in enumerate(dst.tolist()):
                assert host // group == other // group
                assert dst[other] == host
                own = sorted(has[host])
                if step >= halvings:
                    assert sizes[host] == len(own)
                    kept.append(has[host] | has[other])
                    continue
                first = len(own) - len(own) // 2
                low, high = set(own[:first]), set(own[first:])
                assert sizes[host] == len(low if host > other else high)
                kept.append(high if host > other else low)
            has = kept
            if step == halvings - 1:
                for first in range(0, n_hosts, group):
                    shares = has[first : first + group]
                    assert sum(map(len, shares)) == size
                    assert set.union(*shares) == set(range(size))
        assert all(one == set(range(size)) for one in has)


def test_step_waits_for_the_message_received_in_the_previous_step() -> None:
    table = make("halving_doubling", 4, size="400B", compute="3us")
    assert table.after_ptr is not None
    assert table.after_flow is not None
    assert table.start_ps.tolist() == [0] * 4 + [3_000_000] * 12
    for flow in range(4, 16):
        (before,) = table.after_flow[slice(*table.after_ptr[flow : flow + 2])].tolist()
        assert before // 4 == flow // 4 - 1
        assert table.dst[before] == table.src[flow]


def test_invalid_group_sizes_and_message_sizes_are_rejected() -> None:
    for given, message in [
        ({"group_size": 3}, "3"),
        ({"group_size": 16}, "8"),
        ({"size": "7B"}, ("7", "8")),
    ]:
        with raises_input(message):
            make("halving_doubling", 8, **given)
