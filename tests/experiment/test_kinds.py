"""Flow classes by kind: which flows they take, their metrics, and invalid settings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from engine_runs import TRIM, build, run
from experiment_text import load, text
from raises_input import raises_input

from netsim.experiment.scenario import prepare
from netsim.reports.flows import class_metrics

JOB = '''
"""A job of sixteen ranks: all-reduces of pairs, then messages."""

from netsim.workloads.operations import Operations

PARAMS = []


def flows(params, network, rng, context):
    ops = Operations(16)
    pairs = [[2 * k, 2 * k + 1] for k in range(8)]
    reduced = ops.collective("all_reduce", pairs, 100_000, "ring", kind="tp")
    sent, _ = ops.send(range(8), range(8, 16), 50_000, kind="pp")
    ops.after(reduced.reshape(-1)[:8], sent)
    return ops.lower(range(16))
'''

OWN = {
    "traffic": 'kind = "./job.py"',
    "flow_classes.up": 'transport = "roce"\nkinds = ["tp"]',
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "job.py").write_text(JOB)
    return tmp_path


def test_flows_of_a_kind_use_their_class(folder: Path) -> None:
    extra = {
        "flow_classes.wan.transport": 'kind = "roce"',
        "flow_classes.wan.traffic": 'kind = "incast"\nfan_in = 3',
    }
    (point,) = load(folder, text(**OWN, **extra)).points()
    scenario = prepare(point)
    flows = scenario.flows
    assert flows.kind is not None
    names = [flows.kinds[k] for k in flows.kind]
    expected = {"tp": 1, "pp": 0, "": 2}
    assert scenario.class_of_flow.tolist() == [expected[name] for name in names]
    assert names.count("tp") == 8 * 4
    assert point.resolved["flow_classes"]["up"]["kinds"] == ["tp"]
    assert "traffic" not in point.resolved["flow_classes"]["up"]
    assert len(point.uses) == len([use for use in point.uses if use is not None])


def test_run_has_metrics_per_flow_class(folder: Path) -> None:
    (point,) = load(folder, text(**OWN)).points()
    scenario = prepare(point)
    engine = run(
        build(
            scenario.network,
            scenario.flows,
            "ndp",
            TRIM,
            beside=[point.classes[0].transport],
            transport_of_flow=scenario.class_of_flow,
            tasks=scenario.load.tasks,
            jit=False,
        )
    )
    done = engine.flow_states().done_ps
    assert (done > 0).all()
    table = {"flow_class": np.where(scenario.class_of_flow == 1, "up", ""), "fct_ps": done}
    table |= dict.fromkeys(("slowdown", "ideal_ps", "retransmits"), done)
    table["size_bytes"] = scenario.flows.size_bytes
    own, up = class_metrics(point, table)["flow_classes"]
    assert (up["flow_class"], up["transport"], up["flows_finished"]) == ("up", "roce", 32)
    assert own["bytes"] == 8 * 50_000


def test_kind_missing_from_the_traffic_is_rejected(folder: Path) -> None:
    sections = {**OWN, "flow_classes.up": 'transport = "roce"\nkinds = ["tq"]'}
    (point,) = load(folder, text(**sections)).points()
    with raises_input("tq", key="flow_classes.up.kinds"):
        prepare(point)
    (point,) = load(folder, text(**{"flow_classes.up": OWN["flow_classes.up"]})).points()
    with raises_input("kind", key="flow_classes.up.kinds"):
        prepare(point)
