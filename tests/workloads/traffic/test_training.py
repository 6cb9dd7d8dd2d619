"""Training traffic: parameters, files, and the flows and tasks built from them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from raises_input import mentions
from small_job import MACHINE
from task_times import operations_of, steps_of
from topology_of import topology_of
from traffic_cases import made, pairs

from netsim.model.workload import Workload
from netsim.workloads.job.job import Job
from netsim.workloads.training.forecast import at_network_rates

MODEL = {"layers": 4, "hidden": 256, "heads": 8, "sequence": 128, "vocabulary": 64}
MOE = MODEL | {"experts": 8, "active_experts": 2, "layers": 2}


def job(model: dict[str, Any] = MODEL, **layout: Any) -> dict[str, Any]:
    return {"model": model, "machine": MACHINE, "layout": {"global_batch": 8, **layout}}


def training(n_hosts: int, layout: dict[str, Any], **given: Any) -> Workload:
    model = given.pop("model", MODEL)
    return made("training", n_hosts, job=job(model, **layout), **given)


def kinds(load: Workload) -> set[str]:
    """Return the kinds of all flows."""
    flows = load.flows
    assert flows.kind is not None
    return {flows.kinds[kind] for kind in np.unique(flows.kind)}


def test_traffic_class_and_fidelity_are_set_per_kind() -> None:
    classes = {"pp": 0, "tp": 1}
    load = training(
        8,
        {"tp": 2, "pp": 2, "dp": 2},
        classes=classes,
        fidelity={"dp": "formula"},
        n_traffic_classes=2,
    )
    assert kinds(load) == {"tp", "pp"}
    flows = load.flows
    assert flows.kind is not None
    for kind, cls in classes.items():
        assert set(flows.cls[flows.kind == flows.kinds.index(kind)]) == {cls}
    assert mentions(" ".join(load.notes), "link")


def test_message_scale_scales_bytes_and_compute_time() -> None:
    layout = {"tp": 2, "pp": 2, "dp": 2}
    whole, scaled = (training(8, layout, message_scale=scale) for scale in (1.0, 0.25))
    assert len(whole.flows) == len(scaled.flows)
    assert scaled.flows.size_bytes.sum() == pytest.approx(
        whole.flows.size_bytes.sum() / 4, rel=0.01
    )
    assert whole.tasks is not None
    assert scaled.tasks is not None
    times = [one.tasks.duration_ps.sum() for one in (whole, scaled) if one.tasks is not None]
    assert times[1] == pytest.approx(times[0] / 4, rel=1e-6)
    assert steps_of(scaled).model_flops == pytest.approx((steps_of(whole).model_flops or 0) / 4)


def exchanged(load: Workload) -> list[int]:
    """Return the sizes of the expert-parallel flows."""
    flows = load.flows
    assert flows.kind is not None
    return flows.size_bytes[flows.kind == flows.kinds.index("ep")].tolist()


def test_expert_routing_is_uniform_skewed_or_recorded(tmp_path: Path) -> None:
    layout = {"dp": 4, "ep": 4, "global_batch": 4}
    size = 128 * 2 * 256 * 2 // 4
    assert set(exchanged(training(4, layout, model=MOE))) == {size}
    skewed = [
        exchanged(training(4, layout, model=MOE, routing="zipf", zipf_exponent=s, seed=seed))
        for s, seed in ((1.0, 1), (1.0, 1), (1.0, 2), (0.0, 1))
    ]
    assert skewed[0] == skewed[1] != skewed[2]
    assert max(skewed[0]) > 1.3 * size
    assert max(skewed[3]) < 1.3 * size  # drawn uniformly
    # Rank 0 holds experts 0 and 1: rank 1 sends all its tokens there.
    lines = ["source,expert,tokens", *(f"{k},{e},5" for k in (0, 2, 3) for e in range(8))]
    (tmp_path / "tokens.csv").write_text("\n".join([*lines, "1,0,30", "1,1,10"]))
    load = training(
        4, layout, model=MOE, routing="recorded", routing_file="tokens.csv", directory=tmp_path
    )
    flows = load.flows
    pairs = set(zip(flows.src.tolist(), flows.dst.tolist(), strict=True))
    sent = np.array(exchanged(load))
    assert set(sent) == {size, 4 * size}
    assert (1, 2) in pairs  # the combine traffic


@pytest.mark.parametrize("dispatch", ["bf16", "fp8"])
def test_combine_traffic_is_the_transpose_of_dispatch(dispatch: str) -> None:
    moe = job(MOE, dp=4, ep=4, global_batch=4) | {"precision": {"dispatch": dispatch}}
    load = made("training", 4, job=moe, routing="zipf")
    table, flows = operations_of(load), load.flows
    assert table is not None
    assert flows.kind is not None
    of_ep = flows.kind == flows.kinds.index("ep")
    sent = np.zeros((of_ep.sum() // 12, 4, 4), np.int64)  # exchanges of four ranks
    exchange = np.arange(of_ep.sum()) // 12
    sent[exchange, flows.src[of_ep], flows.dst[of_ep]] = flows.size_bytes[of_ep]
    assert len(sent) == 2 * 2 * 2  # layers, passes, dispatch and combine
    factor = 2 if dispatch == "fp8" else 1
    whole = {matrix.tobytes() for matrix in sent}
    there = [m for m in sent if (factor * m.T).tobytes() in whole and m.tobytes() != m.T.tobytes()]
    assert len(there) == (8 if factor == 1 else 4)


def test_sampled_tensor_ranks_are_where_the_whole_group_would_be() -> None:
    rail = {"kind": "fat_tree", "hosts_per_leaf": 2, "leaves": 2}
    network = topology_of({"kind": "multi_rail", "gpus_per_rack": 2, "rail": rail})
    racks = job(tp=2, pp=2, dp=2) | {"machine": MACHINE | {"domain_gpus": 2}}
    how = {"placement": "rail_aligned", "fidelity": {"tp": "formula"}, "network": network}
    whole, sampled = (
        made("training", 8, job=racks, **how, tensor_ranks=ranks).flows for ranks in (None, 1)
    )
    of_first = (whole.src % 2 == 0) & (whole.dst % 2 == 0)
    assert sorted(pairs(sampled)) == sorted(
        pair for pair, first in zip(pairs(whole), of_first, strict=True) if first
    )
    assert set(sampled.src) == {0, 2, 4, 6}


def test_times_by_formula_are_for_the_rate_of_the_simulated_network() -> None:
    """With pp in packets, dp by formula takes the 100 Gbps of the star, not the machine's rate."""
    layout = {"pp": 2, "dp": 4}
    lengths = []
    for rate in ("100Gbps", "400Gbps"):
        machine = MACHINE | {"domain_gpus": 1, "scale_out": {"rate": rate}}
        given = job(MODEL, **layout) | {"machine": machine}
        load = made("training", 8, job=given, fidelity={"dp": "formula"})
        assert load.tasks is not None
        lengths.append(load.tasks.duration_ps.tolist())
    assert lengths[0] == lengths[1]


def test_neighbors_in_a_server_do_not_give_the_rate_between_servers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ranks 0 and 1 of dp share a server; its rate between servers is the rails'."""
    rates = []

    def rated(*sampled: Any) -> Job:
        found = at_network_rates(*sampled[:3])
        rates.append(found.machine.scale_out.rate)
        return found

    monkeypatch.setattr("netsim.workloads.traffic.training.at_network_rates", rated)
    rail = {"kind": "fat_tree", "hosts_per_leaf": 2, "leaves": 2, "host_rate": "100Gbps"}
    parts = {"gpus_per_rack": 2, "scale_up_rate": "900Gbps", "rail": rail}
    machine = MACHINE | {"domain_gpus": 2, "scale_out": {"rate": "400Gbps"}}
    made("training", 8, job=job(dp=8) | {"machine": machine},
         network=topology_of({"kind": "multi_rail", **parts}))  # fmt: skip
    assert rates == [pytest.approx(100e9, rel=1e-3)]
