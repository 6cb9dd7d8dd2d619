"""Cases of netsim validate."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray
from raises_input import raises_input

from netsim.cli.app import app
from netsim.common.inputs import read_toml
from netsim.experiment import Point
from netsim.validation import cases as cases_module
from netsim.validation import congestion, outcomes
from netsim.validation.cases import GROUPS, QUESTIONS, Case, Row, Verdict, cases
from netsim.validation.run import expected, interval, page_text, write_page
from netsim.workloads.inference.deployment import gpu_parameters, pair_flops, prompt_pairs
from netsim.workloads.validation.measures import (
    CHANGE,
    STEPS,
    iterations,
    measured_iterations,
    step_without,
    steps,
)

PAGE = Path(__file__).parents[2] / "docs" / "comparisons.md"


def srpt_mean_time(
    load: float, sizes: Sequence[float], shares: Sequence[float]
) -> NDArray[np.float64]:
    """Return the mean time in an M/G/1 queue under preemptive SRPT per job size (rate 1).

    Schrage and Miller, Operations Research 14 (1966): E[T(x)] = lambda (m2(x) + x^2 (1 - F(x))) /
    (2 (1 - rho(x-)) (1 - rho(x))) + integral of dt / (1 - rho(t)) from 0 to x; jobs of
    equal size are served in FIFO order.
    """
    x, p = np.array(sizes, float), np.array(shares, float) / np.sum(shares)
    rate = load / float(x @ p)
    upto = rate * np.cumsum(x * p)
    below = upto - rate * x * p
    second = np.cumsum(x * x * p) + x * x * (1 - np.cumsum(p))
    waiting = rate * second / (2 * (1 - below) * (1 - upto))
    steps = np.diff(x, prepend=0.0) / (1 - below)
    return np.asarray(waiting + np.cumsum(steps))


def test_formulas_match_theory_and_known_limits() -> None:
    """Simulated SRPT times match Schrage and Miller; other formulas match known limits."""
    rng = np.random.default_rng(1)
    sizes, shares, load = (1000, 5000, 20_000), (0.6, 0.3, 0.1), 0.6
    works = rng.choice(sizes, 100_000, p=shares)
    gaps = rng.exponential(works.mean() / load, works.size)
    times = congestion.srpt_times(np.cumsum(gaps).astype(int).tolist(), works.tolist())
    mean = [times[works == size].mean() for size in sizes]
    assert mean == pytest.approx(srpt_mean_time(load, sizes, shares), rel=0.04)
    assert srpt_mean_time(1e-9, sizes, shares) == pytest.approx(sizes)
    assert congestion.cubic_epoch_s(1000 * 0.4 / 0.3) == pytest.approx(10)
    assert congestion.dctcp_mean_queue(1, 40, 0) == pytest.approx(41 - np.sqrt(80) / 4)
    assert congestion.swift_delay(100, 2, 20, (3, 100, 0.1, 100)) == 26


def test_verdict_follows_tolerance_and_spread() -> None:
    within = {"tolerance": 0.05, "unit": "us"}
    rows = {
        Row("a", 105.0, 100.0, **within): Verdict.PASS,
        Row("b", 106.0, 100.0, **within): Verdict.FAIL,
        Row("c", 106.0, 100.0, **within, why="known, and fails"): Verdict.FAIL,
        Row("d", 114.0, 100.0, **within, spread=(90.0, 110.0)): Verdict.PASS,
        Row("e", 85.0, 100.0, **within, spread=(90.0, 110.0)): Verdict.FAIL,
        Row("f", 1.1 + 2.2, 3.3): Verdict.PASS,
        Row("g", float("nan"), 3.3, **within): Verdict.FAIL,
        Row("h", source="file.cm"): Verdict.NEEDS_DATA,
    }
    assert [row.verdict for row in rows] == list(rows.values())


def test_rows_join_the_data_of_their_case_with_what_was_measured(tmp_path: Path) -> None:
    """Lists have a value per row; `why` is keyed by title and precedes a measured reason."""

    def measure(n: int) -> list[dict[str, object]]:
        return [{"k": k, "ours": n * k, "why": "measured"} for k in (1, 2)]

    common = {"title": "{n} x {k}", "theirs": [3, 5], "tolerance": 0.01, "why": {"3 x 2": "data"}}
    first, second = Case("a", measure, {"n": 3}, common, 1).rows(None)
    assert (first.title, first.verdict, first.why) == ("3 x 1", Verdict.PASS, "measured")
    assert (second.title, second.verdict, second.why) == ("3 x 2", Verdict.FAIL, "data")
    needy = Case("b", measure, {"n": 3}, common, 1, needs=("a.cm",))
    assert [row.source for row in needy.rows(tmp_path)] == ["a.cm"]


def test_every_case_is_described() -> None:
    """All data files load, and each group has quick cases, except for stored predictions."""
    for group in GROUPS:
        assert any(case.quick for case in cases(group).values()) or group == "predictions"
        for case in cases(group).values():
            assert case.common.get("question", "") in {"", *QUESTIONS}
    rows = [row for case in cases("predictions").values() for row in case.rows(None)]
    assert all(row.predicted == (", mended" not in row.title) for row in rows)
    assert all(row.question in QUESTIONS for row in rows)
    assert all(row.ours is not None and row.theirs is not None and row.because for row in rows)


def test_errors_to_expect_are_those_of_a_questions_rows() -> None:
    """Nine in ten of 40 errors leave out two at each end; rows without a question do not count."""
    errors = [k / 100 for k in range(-20, 20)]
    rows = [{"question": "step", "error": e, "predicted": e > 0.17} for e in errors]
    rows += [{"question": "", "error": 9.0, "predicted": True}]
    rows += [{"question": "moe", "error": None, "predicted": False}]
    (found,) = expected(rows)
    assert found == (QUESTIONS["step"], errors, [0.18, 0.19])
    assert interval(found.errors) == "-18.0 % to +17.0 %"
    assert interval(found.predicted) == "+18.0 % to +19.0 %"


def test_repeated_case_has_means_over_seeds_with_its_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Quantiles of seeds 1 and 2 are averaged; a given truth replaces the stored one."""
    queues = []

    def simulate(point: Point) -> object:
        queues.append(point.resolved["fabric"]["queue_bytes"])
        return SimpleNamespace(flows={"acked_ps": np.array([1, 2, 3]) * 10**6 * point.seed})

    monkeypatch.setattr(outcomes, "simulate", simulate)
    case, change = ("transports_fct.toml", "csg_swift_few"), {"fabric.queue_bytes": "7pkt"}
    rows = list(outcomes.repeated(*case, "short", 2, change, {"first": 1.0, "last": 5.0}))
    assert queues == ["28KiB", "28KiB"]
    assert [(row["ours"], row["theirs"]) for row in rows] == [(1.5, 1.0), (4.5, 5.0)]
    assert rows[0]["title"] == "Swift in htsim, 4 to 1, short: first"


def test_reference_case_that_differs_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight cases of five departures in both simulators pass, unless a case differs."""
    # An installed package does not know where the tests are.
    monkeypatch.setattr(outcomes, "TESTS", Path(__file__).parents[1])
    differs: list[int] = []

    def check(seed: int, *_: object, **__: object) -> tuple[object, object]:
        assert seed not in differs
        engine = SimpleNamespace(counts=SimpleNamespace(hops=5))
        return engine, SimpleNamespace(ports=[SimpleNamespace(departures="abcde")])

    monkeypatch.setattr("agreement.check", check)
    (row,) = cases("reference")["trees"].rows(None)
    assert (row.verdict, row.ours, row.theirs) == (Verdict.PASS, 40, 40)
    differs.append(2)
    (row,) = cases("reference")["trees"].rows(None)
    assert (row.verdict, row.ours) == (Verdict.FAIL, None)
    assert "case 2" in row.why


def test_reference_needs_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases_module, "CHECKOUT", tmp_path)
    shown = CliRunner().invoke(app, ["validate", "reference", "--out", str(tmp_path)])
    assert shown.exit_code == 2
    assert "reference needs a checkout" in shown.output
    assert len(shown.output.strip().splitlines()) == 1


def test_validate_stores_results_and_writes_the_page(tmp_path: Path) -> None:
    """Run cases of each group; the second command reuses them and exits 1 for a failing row."""
    out, page = tmp_path / "out", tmp_path / "accuracy.md"
    names = ["closed_forms/lone_roce_100g", "theory/md1", "simulators/128n_100g_ndp_perm"]
    names += ["hardware/steps_megatron"]
    command = ["validate", *names, "--out", str(out), "--jobs", "1"]
    first = CliRunner().invoke(app, [*command, "--page", str(page)])
    assert first.exit_code == 0, first.output
    assert "4 cases, 15 rows: 15 pass, 0 fail" in first.output
    content = json.loads((out / "validation.json").read_text("utf-8"))
    assert page.read_text("utf-8") == page_text(content, "accuracy")
    assert {one.name for one in tmp_path.glob("accuracy_*.png")} == {
        "accuracy_values.png",
        "accuracy_errors.png",
    }
    content["cases"][0]["rows"][0] |= {"verdict": "fail", "error": 0.5, "why": "unexplained: far"}
    (out / "validation.json").write_text(json.dumps(content), "utf-8")
    second = CliRunner().invoke(app, command)
    assert second.exit_code == 1
    assert "4 of 4 cases are in" in second.output
    assert "14 pass, 1 fail (0 with a reason)" in second.output
    write_page(page, out / "validation.json")
    assert "unexplained" in page.read_text("utf-8")


def test_comparisons_page_matches_its_stored_results() -> None:
    content = json.loads(PAGE.with_suffix(".json").read_text("utf-8"))
    assert PAGE.read_text("utf-8") == page_text(content, PAGE.stem)


def test_uec_outcomes_are_read_and_reproduced(tmp_path: Path) -> None:
    """A single flow of ten packets over six links takes the time of the UEC simulator."""
    matrix = "Nodes 2\nConnections 1\n0->1 id 1 start 0 size 40860\n"
    for name in ("test_cr_1f1m10p.cm", "test_cr_1f1m100p.cm"):
        (tmp_path / name).write_text(matrix)
    plan = "-tm connection_matrices/test_cr_1f10m1p.cm -end 1000"
    lines = ["case,options,last_us,rtx_pkts,acks"]
    lines += [f"connreuse-1,{plan} -sender_cc_only,17.0107,0,4"]
    lines += [f"connreuse-2,{plan} -receiver_cc_only,17.0107,0,4"]
    (tmp_path / "validate.csv").write_text("\n".join(lines))
    found = list(cases("uec_outcomes")["connections"].rows(tmp_path))
    assert [row.ours for row in found] == pytest.approx([17.0107] * 2, abs=1e-4)


COLUMNS = "collective,nodes,gpus_per_node,size_bytes,oop_time_us,ip_time_us"


def measured(tmp_path: Path, name: str, lines: list[str]) -> list[Row]:
    """Return the rows of all cases that need only this table."""
    (tmp_path / f"{name}.csv").write_text("\n".join([COLUMNS, *lines]))
    kinds = [f"{kind}_{name}" for kind in ("collectives", "node_counts")]
    known = [case for case in kinds if case in cases("hardware")]
    return [row for case in known for row in cases("hardware")[case].rows(tmp_path)]


def line(nodes: int, size: int, time: float, in_place: float | None = None) -> str:
    return f"all_reduce,{nodes},8,{size},{time},{in_place or time}"


def test_left_out_sizes_and_node_counts_are_predicted(tmp_path: Path) -> None:
    sizes = [1 << k for k in range(21, 34)]
    lines = [line(nodes, size, 50 + size / 1e5) for nodes in (2, 4) for size in sizes]
    found = {row.title: row for row in measured(tmp_path, "polaris_a100", lines)}
    assert len([name for name in found if name.endswith("GPUs")]) == 2 * 11
    assert all(abs(row.error or 0) < 0.05 for row in found.values() if row.unit == "us")
    (next_count,) = (row for name, row in found.items() if "2 to 4 nodes" in name)
    assert next_count.theirs == 1
    assert 1 < (next_count.ours or 0) < 1.15


def test_reasons_of_failing_rows_are_experiments(tmp_path: Path) -> None:
    """One size takes longer once, one takes three times as long, as do all from 1 GiB on."""
    times = {k: 50 + 2**k / 1e5 for k in range(12, 34)}
    again = dict(times)
    times[16] *= 1.4
    for k in (24, 30, 31, 32, 33):
        times[k] = again[k] = 3 * times[k]
    lines = [line(2, 1 << k, times[k], again[k]) for k in times]
    found = measured(tmp_path, "mi300x_2x8", lines)
    reasons = {row.title.partition(" of ")[2].partition(" ")[0]: row.why for row in found}
    assert reasons["64KiB"] == "the machine's own spread: in place: +0.0%"
    assert not reasons["16MiB"] + reasons["1MiB"]
    assert CHANGE in reasons["32MiB"]
    assert f"{CHANGE} begins somewhere from 512MiB to 2GiB" in reasons["1GiB"]


def test_size_that_jumps_in_another_run_too_has_that_reason(tmp_path: Path) -> None:
    """The stored run of another node jumps at 64 MiB, by 67 %, and not at 2 GiB."""
    sizes = [1 << k for k in (25, 26, 28, 29, 31, 32, 34)]
    for jump in (1 << 26, 1 << 31):
        times = [(200 + size / 4e5) * (1.67 if size == jump else 1) for size in sizes]
        lines = [
            f"sendrecv,1,8,{size},{time},{time}" for size, time in zip(sizes, times, strict=True)
        ]
        found = {row.title: row.why for row in measured(tmp_path, "h100_10x8", lines)}
        why = found[f"h100_10x8: send of {'64MiB' if jump == 1 << 26 else '2GiB'} on 1 x 8 GPUs"]
        assert ("the same bend in another node" in why) == (jump == 1 << 26)


def test_gather_that_bends_like_its_reduce_scatter_has_that_reason(tmp_path: Path) -> None:
    sizes = [1 << k for k in (25, 26, 28, 29, 31, 32, 34)]
    lines = []
    for what, slower in (("all_gather", 1.0), ("reduce_scatter", 1.3)):
        for size in sizes:
            time = slower * (200 + size / 4e5) * (1.5 if size == 1 << 29 else 1)
            lines.append(f"{what},10,8,{size},{time},{time}")
    found = {row.title: row.why for row in measured(tmp_path, "h100_10x8", lines)}
    why = found["h100_10x8: all_gather of 512MiB on 10 x 8 GPUs"]
    assert why.startswith("the same bend in reduce_scatter")


def test_reason_of_mtnlg_is_the_step_of_another_training() -> None:
    """BLOOM's step, which no row shows, took 105 s; equally slow software explains all steps."""
    layout = {"tp": 4, "pp": 12, "dp": 8, "micro_batch": 2, "global_batch": 2048, "zero": 1}
    network = {"rate": "50Gbps", "in_network_reduction": False}
    bloom = {
        "model": "bloom_176b",
        "machine": {"preset": "a100_80gb", "scale_out": network},
        "precision": {},
        "layout": layout | {"recompute": "full", "uneven": True},
    }
    (cause,) = read_toml(STEPS)["group"]["mtnlg"]["causes"]
    assert step_without(bloom, {}) == pytest.approx(79.4, abs=0.1)
    assert step_without(bloom, {"machine": cause["machine"]}) == pytest.approx(105, rel=1e-3)
    reasons = [row["why"] for row in steps("mtnlg")]
    assert [why.startswith(cause["why"]) for why in reasons] == [True] * 3


def test_reasons_of_iterations_are_repetitions_or_other_overheads() -> None:
    found = {row["title"]: row["why"] for row in iterations("a100", "A100")}
    agree = "in 2 of 5 runs it took 70.75 ms; ours is 69.13"
    assert found["bloom_176b on 8 A100: 128 prompt tokens"] == agree
    (row,) = (row for row in measured_iterations() if row.fitted and row.measured_ms == 73)
    more_ms = (0.411 - row.deployment.overheads.sequence_overhead / 1e9) * row.size
    assert row.ms + more_ms == pytest.approx(row.measured_ms, rel=1e-3)
    assert "411 us" in found["bloom_176b on 8 A100: 64 sequences"]


def test_several_prompts_are_held_against_one_of_as_many_tokens() -> None:
    found = {row["title"]: row["why"] for row in iterations("a100", "A100")}
    near = "one prompt of as many tokens took 403.3 ms; for it, ours is 427"
    assert found["llama2_70b on 4 A100: 4 prompts"] == near
    assert found["llama2_70b on 4 A100: 16 prompts"].endswith("is unknown: 2081 (-8.7%)")
    # On 8 GPUs, no cause makes one prompt of 8,192 tokens agree.
    assert not found["llama2_70b on 8 A100: 8,192 prompt tokens"]
    assert not found["llama2_70b on 8 A100: 16 prompts"]


def test_efficiencies_of_reasons_follow_from_measured_times() -> None:
    rows = {
        (row.group, row.model, row.deployment.tp, row.phase, row.size): row
        for row in measured_iterations()
    }
    few = rows["a100", "llama2_70b", 2, "prefill", 128]
    layer_flop = 128 * 2 * gpu_parameters(few.deployment)[0] / few.deployment.model.layers
    share = layer_flop / 0.734e-3 / few.deployment.machine.matrix.rate("fp16")
    assert few.causes[-1]["overheads"]["prefill_efficiency"] == pytest.approx(share, rel=1e-3)
    one = rows["h100", "bloom_176b", 8, "prefill", 4096]
    more_s = (one.measured_ms - rows["h100", "bloom_176b", 8, "prefills", 8].measured_ms) / 1e3
    model, pairs = (
        one.deployment.model,
        prompt_pairs(True, 0, 4096) - 8 * prompt_pairs(True, 0, 512),
    )
    share = model.layers * pair_flops(model) / 8 * pairs / more_s
    share /= one.deployment.machine.matrix.rate("fp16")
    assert one.causes[-1]["overheads"]["attention_efficiency"] == pytest.approx(share, rel=1e-3)


def test_malformed_tables_are_rejected(tmp_path: Path) -> None:
    for wrong in ("all_reduce,2,8,x,5,5", "all_reduce,0,8,8,5,5", "all_reduce,2,8,8,nan,5", "send"):
        with raises_input(file="mi300x_2x8.csv"):
            measured(tmp_path, "mi300x_2x8", [wrong])
