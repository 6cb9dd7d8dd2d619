"""The dumbbell: shape, packet times and invalid parameters."""

from engine_runs import acked_ps, build, dumbbell, fabric_with, fct_ps, flow_table, run
from raises_input import raises_input

MS = 10**9
G = 10**9
FULL = 4160  # bytes of a full packet on the wire


def test_packet_and_acknowledgment_times_match_closed_form() -> None:
    """The round trip equals the formula in the topology's docstring, to the picosecond."""
    network = dumbbell(
        hosts=1, host_rate="100Gbps", bottleneck_rate="10Gbps", host_delay="1ms",
        bottleneck_delay="28ms",
    )  # fmt: skip
    fabric = fabric_with("lossless", xoff_bytes=10**7, xon_bytes=10**6)
    engine = run(
        build(network, flow_table([(0, 1, 4096, 0)]), "roce", fabric, params={"rto": "1s"})
    )
    forth = (2 * 80 + 800) * FULL + 30 * MS
    back = (2 * 80 + 800) * 64 + 30 * MS
    assert fct_ps(engine).tolist() == [forth]
    assert acked_ps(engine).tolist() == [forth + back]


def test_invalid_parameters_are_rejected() -> None:
    for given, message in [
        ({"hosts": 0}, ("topology.hosts", "0")),
        ({}, "topology.hosts"),
        ({"hosts": 2, "host_delay": "0us"}, ("topology.host_delay", "0us")),
        ({"hosts": 2, "bottleneck_delay": 30}, "topology.bottleneck_delay"),
        ({"hosts": 2, "bottleneck_rate": "0Gbps"}, "topology.bottleneck_rate"),
        ({"hosts": 2, "buffer": "1MB"}, "topology.buffer"),
    ]:
        with raises_input(message):
            dumbbell(**given)
