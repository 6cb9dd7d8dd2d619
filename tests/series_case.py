"""Sample series of a case, and compare them with the reference."""

from dataclasses import fields

import numpy as np
from reference.model import Case
from reference.series import Held, area, largest, percentile
from reference.simulator import Simulator
from reference.switch import SwitchPort

from netsim.engine.engine import Engine
from netsim.engine.state_views import QueueLevels, Sampled, SeriesReading
from netsim.model.sampling import Sampling

FIELDS = {
    "datagram": (),
    "roce": ("tx.next_seq", "tx.una"),
    "ndp": ("tx.pulled", "tx.n_nacks"),
    "rccc": ("tx.pulled", "tx.credit_bytes"),
    "mixed": ("tx.draws", "tx.sent"),
}


def sampled(case: Case, every_ps: int, budget_bytes: int = 64_000_000) -> Sampling:
    """Return a sampling of every port, host, flow and queue of a case."""
    return Sampling(
        interval_ps=every_ps,
        ports=np.arange(2 * len(case.cables)),
        hosts=np.arange(case.n_hosts),
        flows=np.arange(len(case.flows)),
        fields=FIELDS[case.transport],
        sample_budget_bytes=budget_bytes,
        queues=True,
    )


def reading(engine: Engine) -> SeriesReading:
    found = engine.series()
    assert found is not None
    return found


def equal(a: SeriesReading, b: SeriesReading, besides: tuple[str, ...] = ()) -> None:
    """Check that two readings are equal bit by bit, except some fields."""
    for field in fields(SeriesReading):
        if field.name not in besides:
            mine, other = getattr(a, field.name), getattr(b, field.name)
            if isinstance(mine, Sampled):
                assert np.array_equal(mine.things, other.things), field.name
                assert mine.values.keys() == other.values.keys()
                for name, values in mine.values.items():
                    assert np.array_equal(values, other.values[name]), (field.name, name)
            else:
                assert np.array_equal(mine, other), field.name


def compare_series(case: Case, simulator: Simulator, engine: Engine) -> None:
    """Compare the series of a run on both simulators."""
    found = reading(engine)
    moments = simulator.series.up_to(engine.now_ps)
    assert found.end_ps.tolist() == [moment.time_ps for moment in moments]
    n_traffic_classes, levels = engine.fabric.n_link_classes, engine.queue_levels()
    assert levels is not None
    for k, queue in enumerate(found.queues.things.tolist()):
        port, c = divmod(queue, n_traffic_classes)
        counters = [moment.counters[port, c] for moment in moments]
        for name in ("sent_bytes", "drops", "trims", "ecn_marks", "paused_ps"):
            expected = [getattr(each, name) for each in counters]
            ours = np.cumsum(found.queues.values[name][:, k])
            assert ours.tolist() == expected, (name, port, c)
        _compare_levels(simulator, levels, found, (k, port, c), engine.now_ps)
    own = dict(found.flows.values)
    for name in ("delivered", "sent"):
        expected = [getattr(moment, name) for moment in moments]
        assert np.cumsum(own.pop(f"{name}_bytes"), axis=0).tolist() == expected, name
    for name, values in own.items():
        assert values.tolist() == [[s[name] for s in moment.senders] for moment in moments]
    _compare_hosts(case, found, engine)


def _compare_levels(
    simulator: Simulator,
    levels: QueueLevels,
    found: SeriesReading,
    at: tuple[int, int, int],
    now_ps: int,
) -> None:
    """Compare queue levels: empty at hosts, equal to the reference at switches."""
    k, port, c = at
    values, queue = found.queues.values, int(found.queues.things[k])
    where = simulator.ports[port]
    if not isinstance(where, SwitchPort):
        assert not values["max_queue_bytes"][:, k].any()
        assert levels.mean_bytes[queue] == 0
        return
    assert isinstance(where.held, Held)
    history, begin = where.held.history[c], 0
    for j, end in enumerate(found.end_ps.tolist()):
        most, mean = largest(history, begin, end), area(history, begin, end) / (end - begin)
        assert values["max_queue_bytes"][j, k] == most, (port, c, j)
        assert values["mean_queue_bytes"][j, k] == mean, (port, c, j)
        begin = end
    assert levels.mean_bytes[queue] == area(history, 0, now_ps) / now_ps
    exact = percentile(history, now_ps)
    assert abs(levels.p99_bytes[queue] - exact) <= exact // 32, (port, c)


def _compare_hosts(case: Case, found: SeriesReading, engine: Engine) -> None:
    """Compare a host's bytes with the bytes of its ports and of the flows that end there."""
    n_traffic_classes = engine.fabric.n_link_classes
    ports = found.queues.things // n_traffic_classes
    dst = np.array([flow[1] for flow in case.flows])
    for host in range(case.n_hosts):
        first, end = engine.network.node_first_port[host : host + 2].tolist()
        own = (first <= ports) & (ports < end)
        sent = found.queues.values["sent_bytes"][:, own].sum(axis=1)
        assert found.hosts.values["sent_bytes"][:, host].tolist() == sent.tolist()
        delivered = found.flows.values["delivered_bytes"][:, dst == host].sum(axis=1)
        assert found.hosts.values["delivered_bytes"][:, host].tolist() == delivered.tolist()
    received = engine.conservation().bytes.received
    assert found.hosts.values["received_bytes"].sum() == received
