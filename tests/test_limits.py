"""Values beyond the engine's arithmetic are rejected before the run, with the limit."""

from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest
from experiment_text import load, text
from hypothesis import given
from hypothesis import strategies as st
from raises_input import mentions, raises_input

from netsim import limits
from netsim.engine.kernels.layout import INF, PACKET
from netsim.engine.simulation import Options
from netsim.errors import InputError
from netsim.experiment.scenario import prepare
from netsim.model.arithmetic import byte_quotient, send_time, serialization_ps
from netsim.running.estimate import estimate
from netsim.running.point import build_engine, simulate
from netsim.transports import dctcp

DUMBBELL = 'kind = "dumbbell"\nhosts = 2\n'


def rejection(tmp_path, content: str, *overrides: str) -> str:
    """Return the message that rejects the only point of an experiment."""
    with pytest.raises(InputError) as caught:
        accepted(tmp_path, content, *overrides)
    return str(caught.value).replace(f"{tmp_path}/", "")


def accepted(tmp_path, content: str, *overrides: str) -> None:
    for point in load(tmp_path, content, *overrides).points():
        prepare(point)


# --- the arithmetic itself ------------------------------------------------------------------------


def ps_per_byte_q20(rate_bps: int) -> int:
    return int(byte_quotient(np.array([rate_bps]))[0])


@given(st.integers(1, limits.PACKET_BYTES), st.data())
def test_serialization_is_exact_at_every_allowed_rate(largest, data):
    """`(size * q) >> 20` never exceeds int64 and is within 1.1 ps of the exact time."""
    slowest = limits.slowest_rate_bps(largest)
    rate = data.draw(
        st.sampled_from([slowest, limits.fastest_rate_bps(largest)])
        | st.integers(slowest, limits.RATE_BPS)
    )
    size = data.draw(st.sampled_from([1, largest]) | st.integers(1, largest))
    quotient = ps_per_byte_q20(rate)
    assert size * quotient < limits.INT64
    took = int(send_time(np.array([size]), np.array([quotient]))[0])
    assert took == serialization_ps(size, quotient) == (size * quotient) >> 20
    assert abs(took - Fraction(limits.PS_BITS * size, rate)) < Fraction(11, 10)


@given(st.integers(1, limits.PACKET_BYTES))
def test_rate_limits_are_tight(n_bytes):
    slowest, fastest = limits.slowest_rate_bps(n_bytes), limits.fastest_rate_bps(n_bytes)
    assert n_bytes * ps_per_byte_q20(slowest) < limits.INT64
    assert n_bytes * ps_per_byte_q20(slowest - 1) >= limits.INT64
    assert serialization_ps(n_bytes, ps_per_byte_q20(fastest)) >= 1
    assert serialization_ps(n_bytes, ps_per_byte_q20(fastest + fastest // 10)) == 0


@given(st.integers(0, 1 << 43), st.integers(1, 1 << 50))
def test_serialization_of_many_packets_does_not_overflow(n_bytes, quotient):
    """Intermediate values of `serialization_ps` stay below int64 whenever the result does."""
    took = (n_bytes * quotient) >> 20
    assert serialization_ps(n_bytes, quotient) == took
    if took < limits.INT64:
        parts = n_bytes * (quotient >> 20), n_bytes * (quotient & 0xFFFFF)
        assert max(parts) < 2**63


def test_limits_fit_the_fields_they_protect():
    assert limits.INT64 == INF
    assert np.iinfo(PACKET["size_bytes"]).max == limits.PACKET_BYTES
    for field in ("flow", "seq", "dst", "aux"):
        assert np.iinfo(PACKET[field]).max == limits.COUNT
    longest_send = limits.INT64 >> limits.RATE_SHIFT
    swift = 10 * (limits.TIMEOUT_PS - 1) << 10
    assert limits.HORIZON_PS + max(swift, limits.DELAY_PS + longest_send) < limits.INT64
    assert limits.ALPHA * limits.SIZE_BYTES < limits.INT64
    assert limits.RATIO * limits.PATH_BYTES < limits.INT64


# --- links ----------------------------------------------------------------------------------------


def test_slowest_allowed_rate_depends_on_packet_size(tmp_path):
    small = text(packets='payload_bytes = "100B"\nheader_bytes = "0B"\ncontrol_bytes = "1B"')
    slow = 'topology.host_rate="7.567kbps"'
    accepted(tmp_path, text(), slow, "traffic.size=1MB")
    accepted(tmp_path, small, "topology.host_rate=182bps", "traffic.size=1KB")
    assert mentions(rejection(tmp_path, small, "topology.host_rate=181bps"), "182bps")


def test_fastest_allowed_rate_is_accepted(tmp_path):
    accepted(tmp_path, text(), "topology.host_rate=512Tbps")


# --- packets and flows ----------------------------------------------------------------------------


def test_run_with_too_many_total_bytes_is_rejected(tmp_path):
    content = text(packets='payload_bytes = "1B"\nheader_bytes = "65534B"', topology=DUMBBELL)
    more = 'kind = "all_to_all"\nsize = "2GB"'
    rate = ["topology.host_rate=1Tbps", "topology.bottleneck_rate=1Tbps"]
    content = content.replace('kind = "permutation"', more)
    accepted(tmp_path, content, *rate, "traffic.size=1GB")
    message = rejection(tmp_path, content, *rate, "topology.hosts=100")
    assert mentions(message, "7.96e", "13", "65.535KB", "2", "60")


def test_serialization_on_slow_links_does_not_overflow(tmp_path):
    """1,008 bytes take the exact time on links of 2 and 10 kbps; 10 bps is rejected."""
    content = text(
        packets='payload_bytes = "1000B"\nheader_bytes = "8B"\ncontrol_bytes = "8B"',
        topology=DUMBBELL,
    )
    slow = ["topology.host_rate=10kbps", "topology.bottleneck_rate=2kbps", "traffic.size=1000B"]
    (point,) = load(tmp_path, content, *slow).points()
    scenario = prepare(point)
    across = scenario.flows.src // 2 != scenario.flows.dst // 2
    wire_ps = 8 * 10**12 * 1008
    expected = 2 * wire_ps // 10_000 + across * (wire_ps // 2_000)
    delays = 2 * 10**7 + across * 3 * 10**10
    assert scenario.ideal.fct_ps.tolist() == (expected + delays).tolist()
    assert "too slow" in rejection(tmp_path, content, "topology.bottleneck_rate=10bps")


# --- traffic classes ------------------------------------------------------------------------------


def test_unknown_traffic_class_error_names_file_and_row(tmp_path):
    (tmp_path / "flows.csv").write_text("src,dst,size_bytes,class\n0,1,5000,0\n1,2,5000,1\n")
    listed = text(traffic='kind = "flow_list"\nfile = "flows.csv"', top='transport = "dctcp"')
    assert mentions(
        rejection(tmp_path, listed), "flows.csv:3", "class 1", "class 0", "fabric.n_traffic_classes"
    )
    accepted(tmp_path, listed, "fabric.n_traffic_classes=2")


# --- times, rates and other numbers ---------------------------------------------------------------


# --- memory ---------------------------------------------------------------------------------------


def test_memory_estimate_counts_packet_bitmaps(tmp_path):
    """Both sides of DCTCP keep bitmaps with one bit per packet, in words of 32 packets."""
    content = text(top="", transport='kind = "dctcp"', traffic='kind = "incast"\nfan_in = 2')

    def needed(size: str) -> tuple[int, int]:
        (point,) = load(tmp_path, content, f"traffic.size={size}").points()
        one = estimate(point)
        return one.packets, one.memory_bytes

    (few, less), (many, more) = needed("131072B"), needed("1000210432B")
    bitmaps = (many - few) // 32 * 8 * (dctcp.TX_BITMAPS + dctcp.RX_BITMAPS)
    assert bitmaps <= more - less < 1.05 * bitmaps  # and a few packets more in flight


def test_invalid_thread_counts_are_rejected(tmp_path):
    (point,) = load(tmp_path, text()).points()
    for threads in (0, -1, 1025, 10**9):
        with raises_input(threads, "1", "1024"):
            simulate(point, threads=threads)


def test_failed_allocation_is_an_input_error(tmp_path):
    """An address-space limit, for example, is unknown to the memory estimate."""
    (point,) = load(tmp_path, text()).points()
    scenario = prepare(point)
    no_room = MemoryError("Unable to allocate 16.5 GiB")
    with (
        patch("netsim.engine.link_state.build_links", side_effect=no_room),
        raises_input("e.toml", "16.5"),
    ):
        build_engine(point, scenario, Options(jit=False))
