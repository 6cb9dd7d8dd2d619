"""Several transports in one run, by flow class."""

import numpy as np
import polars as pl
from engine_runs import TRIM, build, fat_tree, fct_ps, flow_table, resolve, run
from experiment_text import load, messages, text
from raises_input import raises_input

from netsim.experiment.scenario import prepare
from netsim.model.flows import FlowTable
from netsim.plugins import registry
from netsim.plugins.registry import PluginSpec
from netsim.running.point import simulate
from netsim.tracing.flow_trace import event_table
from netsim.tracing.segments import order_trace

NETWORK = fat_tree(4, 2, "100Gbps")
# Each flow stays in its leaf and each host has one flow, so that no two share a link.
APART = [(0, 1, 200_000, 0), (4, 5, 300_000, 0)]


def use(name: str, **params: object) -> PluginSpec:
    plugin = registry.find("transport", name)
    return PluginSpec(plugin, resolve(plugin, params))


def alone(name: str, flow: tuple[int, int, int, int]) -> int:
    return int(fct_ps(run(build(NETWORK, flow_table([flow]), name, TRIM, jit=False)))[0])


def test_fields_of_the_same_name_are_kept_apart():
    """State of flows with another type, packet fields that both use, and host state."""
    for names in (("nscc", "swift"), ("bbr", "cubic"), ("ndp", "ndp"), ("smartt", "nscc")):
        given = {"beside": [use(names[1])], "transport_of_flow": np.array([0, 1]), "trace": (1,)}
        both = build(NETWORK, flow_table(APART), names[0], TRIM, jit=False, **given)
        own = [alone(name, flow) for name, flow in zip(names, APART, strict=True)]
        assert fct_ps(run(both)).tolist() == own
    # A trace uses the transport's own field names: NSCC's integer window next to SMaRTT's.
    module = registry.find("transport", "nscc").module
    table, _ = event_table(
        NETWORK, order_trace(NETWORK, both.drain_trace()), module, both.own_names(1)
    )
    windows = table["tx.cwnd_bytes"].drop_nulls()
    assert (windows.dtype, windows.min()) == (pl.Int64, both.state.hosts.tx["largest_bytes"][1])


def test_same_transport_may_run_twice_with_other_parameters():
    """roce has no host state, so a run may contain it twice."""
    given = {"beside": [use("roce", data_class=1, ack_every=4)], "jit": False}
    given |= {"params": {"data_class": 1, "ack_every": 1}, "transport_of_flow": np.array([0, 1])}
    engine = run(build(NETWORK, flow_table(APART), "roce", TRIM, **given))
    received = np.asarray(engine.state.hosts.nics["received_packets"])
    assert received[0] == 49  # 200,000 bytes are 49 packets
    assert received[4] == 74 // 4 + 1


def test_joined_flow_tables_renumber_dependencies():
    waiting = FlowTable([0, 1], [1, 2], 100, label=["a", "b"])
    waiting.wait_for([[], [0]])
    joined = FlowTable.join([FlowTable([5], [6], 50), waiting])
    assert joined.src.tolist() == [5, 0, 1]
    assert joined.size_bytes.tolist() == [50, 100, 100]
    assert [joined.awaited(f) for f in range(3)] == [[], [], [1]]
    assert joined.label == ["", "a", "b"]


CLASSES = {
    "flow_classes.wan.transport": 'kind = "roce"\ndata_class = 1',
    "flow_classes.wan.traffic": 'kind = "permutation"\nsize = "20KB"',
}


class TestExperiment:
    def test_results_have_flows_and_a_summary_per_class(self, tmp_path, monkeypatch):
        monkeypatch.setattr("netsim.engine.engine.jit_enabled", lambda: False)
        small = {"traffic": 'kind = "permutation"\nsize = "40KB"'}
        (point,) = load(tmp_path, text(**small, **CLASSES)).points()
        result = simulate(point)
        assert result.complete
        names = result.flows["flow_class"].tolist()
        assert names == [""] * 16 + ["wan"] * 16
        assert set(result.flows["size_bytes"][16:]) == {20_000}
        own, wan = result.summary["flow_classes"]
        assert (own["flow_class"], wan["flow_class"]) == ("", "wan")
        assert (wan["transport"], wan["flows"], wan["flows_finished"]) == ("roce", 16, 16)
        assert wan["fct_ps"]["max"] == result.flows["fct_ps"][16:].max()
        assert own["bytes"] + wan["bytes"] == result.summary["bytes"]

    def test_classes_draw_different_random_traffic(self, tmp_path):
        (point,) = load(tmp_path, text(**CLASSES)).points()
        flows = prepare(point).flows
        assert flows.dst[:16].tolist() != flows.dst[16:].tolist()

    def test_parameter_of_a_class_may_be_swept(self, tmp_path):
        sections = {
            **CLASSES,
            "flow_classes.wan.traffic": 'kind = "permutation"\nload = [0.5, 1.0]',
        }
        points = load(tmp_path, text(**sections)).points()
        assert [point.classes[0].traffic.params["load"] for point in points] == [0.5, 1.0]
        assert list(points[0].axes) == ["flow_classes.wan.traffic.load"]

    def test_fabric_has_the_traffic_classes_that_all_need(self, tmp_path):
        content = text(
            top='transport = "roce"', **{**CLASSES, "flow_classes.wan.transport": 'kind = "ndp"'}
        )
        (point,) = load(tmp_path, content).points()
        assert point.fabric.n_traffic_classes == 2

    def test_resolved_experiment_contains_the_classes(self, tmp_path):
        (point,) = load(tmp_path, text(**CLASSES)).points()
        assert point.resolved["flow_classes"]["wan"]["traffic"]["size"] == "20KB"
        assert point.resolved["flow_classes"]["wan"]["transport"]["data_class"] == 1

    def test_errors_of_a_class_are_reported_with_its_keys(self, tmp_path):
        for section, body, message in [
            ("transport", 'kind = "rose"', "flow_classes.wan.transport: unknown transport"),
            ("transport", 'kind = "roce"\nrtt = 1', "flow_classes.wan.transport.rtt: unknown key"),
            ("transport", 'kind = "roce"\ndata_class = 5', "flow_classes.wan.transport.data_class"),
            ("traffic", 'kind = "permutation"\nload = 2', "flow_classes.wan.traffic.load"),
        ]:
            found = messages(tmp_path, text(**{**CLASSES, f"flow_classes.wan.{section}": body}))
            assert [message in line for line in found] == [True], found

    def test_class_without_traffic_is_rejected(self, tmp_path):
        content = text(**{"flow_classes.wan.transport": 'kind = "roce"'})
        assert any("flow_classes.wan.traffic" in line for line in messages(tmp_path, content))

    def test_closed_form_transport_of_a_class_is_rejected(self, tmp_path):
        content = text(**{**CLASSES, "flow_classes.wan.transport": 'kind = "ideal"'})
        (point,) = load(tmp_path, content).points()
        with raises_input("ideal"):
            prepare(point)
