"""`netsim why`: small runs with known causes, and time budgets that add up."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from raises_input import raises_input
from small_runs import SERVED

from netsim.engine.kernels.trace import FLOW, TIME
from netsim.plugins import registry
from netsim.results import COLUMNS, load_result
from netsim.tracing.causes import Part
from netsim.tracing.record import Replay, hosts_with
from netsim.tracing.why import Explanation, explain_flow
from netsim.workloads.tracing.why import explain_request

TREE = """[topology]
kind = "fat_tree"
hosts_per_leaf = 4
leaves = 3
spines = {spines}
host_rate = "100Gbps"
"""
TWO, NARROW = TREE.format(spines=2), TREE.format(spines=1)
FAR = TWO + 'link_latency = "5us"\n'
PLANES = """[topology]
kind = "multi_plane"
planes = 2
last_plane_rate_fraction = 0.25
""" + TWO.replace("[topology]", "[topology.plane]")
DUMBBELL = """[topology]
kind = "dumbbell"
hosts = 2
bottleneck_delay = "2us"
host_delay = "1us"
"""
ROTOR = """[topology]
kind = "ocs"
racks = 4
hosts_per_rack = 3
"""
RAILS = """[topology]
kind = "rail_only"
racks = 3
gpus_per_rack = 2
rail_rate = "100Gbps"
scale_up_rate = "400Gbps"
relay_chunk = "16KB"
"""
SMALL_QUEUES = '[fabric]\nqueue_bytes = "20KB"\n'


def fault(links, keys):
    return f'[faults.bad]\nlinks = "{links}"\n{keys}\n'


def slow(links, rate="25Gbps"):
    return fault(links, f'rate = "{rate}"')


def lost(links, since="3us", until="6us"):
    return fault(links, f'at = "{since}"\nuntil = "{until}"\nloss_rate = 1.0')


INCAST = [(i, 0) for i in (1, 4, 5, 8)]
NIC = [(0, 4), (0, 5), (0, 8)]
UPLINK = [(0, 8), (1, 9)]
DOWNLINK = [(0, 8, "400KB"), *[(3, 2, "1KB")] * 4, (4, 9, "400KB")]
VICTIM = [(4, 1, "60KB", "5us"), *((i, 0, "200KB") for i in (2, 3, 5, 8))]
HELD = [(4, 8, "60KB", "5us"), *((i, 0, "200KB") for i in (2, 3, 4, 5))]
UNDER_ONE = [(i, i + 4) for i in range(4)]
ONE, LONG, SHORT = [(0, 4)], [(0, 4, "400KB")], [(0, 4, "40KB")]
TO_HOST, FROM_HOST, TO_SPINE = "leaf1 -> h4", "h0 -> leaf0", "leaf0 -> spine0"


def each(transports, *case, **more):
    """A case for each of several transports."""
    return [(name, *case, more) for name in transports.split()]


CASES = [
    *each(
        "ndp roce dctcp dcqcn swift hpcc nscc smartt expresspass homa cubic rccc",
        *("incast", INCAST, "leaf0 -> h0", {1, 2, 3}),
    ),
    *each("ndp roce dctcp swift", "nic", NIC, FROM_HOST, {1, 2}),
    *each("roce dcqcn cubic hpcc", "collision", UPLINK, "leaf0 -> spine1", {1}),
    *each("roce dctcp", "collision", DOWNLINK, "spine1 -> leaf2", {5}),
    *each("roce:htsim", "pfc", VICTIM, "leaf1 -> spine0", {1, 2, 3, 4}, topology=NARROW),
    *each("roce:htsim", "pfc", HELD, "h4 -> leaf1", {1, 2, 3, 4}, topology=NARROW),
    *each("ndp roce", "shared_link", UNDER_ONE, TO_SPINE, {1, 2, 3}, topology=NARROW),
    *each("ndp roce dctcp homa", "slow_link", ONE, TO_HOST, set(), more=slow(TO_HOST)),
    *each("ndp cubic", "slow_link", ONE, FROM_HOST, set(), more=slow(FROM_HOST)),
    *each(
        "roce", *("slow_link", ONE, TO_SPINE, set()), topology=NARROW, more=slow(TO_SPINE, "10Gbps")
    ),
    *each("ndp roce", "slow_link", LONG, "h0 -> plane1.leaf0", set(), topology=PLANES),
    *each("cubic", "slow_link", [(0, 2)], "left -> right", set(), topology=DUMBBELL),
    *each("ndp", "circuit", [(0, 9, "20KB")], "tor0 -> tor3", set(), topology=ROTOR),
    *each("ndp roce dctcp swift homa", "loss", SHORT, TO_HOST, set(), more=lost(TO_HOST)),
    *each("dctcp", "loss", SHORT, FROM_HOST, set(), more=lost(FROM_HOST, "0us", "3us")),
    *each("dctcp cubic", "loss", INCAST, "leaf0 -> h0", {1, 2, 3}, more=SMALL_QUEUES),
    *each("expresspass", "receiver", LONG, "", set()),
    *each("ndp", "window", ONE, "", set(), params="initial_window = 1"),
    *each("dctcp", "window", ONE, "", set(), params="initial_window = 2"),
    *each("cubic", "window", LONG, "", set(), topology=FAR),
    *each("bbr", "pacing", LONG, "", set()),
    *each("ndp hpcc", "", ONE, "", set()),
    *each("ndp roce", "", [(0, 3)], "", set(), topology=RAILS),
    *each("ndp roce", "nic", [(0, 3), (1, 3)], "h1 -> rail1.switch", {1}, topology=RAILS),
    *each("ndp roce", "incast", [(0, 3), (5, 3)], "rail1.switch -> h3", {1}, topology=RAILS),
    *each(
        "roce",
        *("slow_link", [(0, 3)], "rack0.up0 -> h1", set()),
        topology=RAILS,
        more=slow("rack0.up0 -> h1", "10Gbps"),
    ),
    *each(
        "ndp",
        "loss",
        [(0, 3, "40KB")],
        "rail1.switch -> h3",
        set(),
        topology=RAILS,
        more=lost("rail1.switch -> h3"),
    ),
    *each("dctcp", "", SHORT, "", set(), more=lost("leaf0 -> h0", "0us", "20us")),
]
"""Transport, main cause of flow 0's delay, flows (src, dst, size, start), the place of most of the
delay, the flows that caused it, and changes to the two-tier tree. The lost acknowledgment of the
last case delays no completion."""


@pytest.fixture
def run_experiment(netsim):
    """Write files, run e.toml and return the result."""

    def run_experiment(text, **files):
        for name, content in {"e.toml": text, **files}.items():
            Path(name.replace("_", ".")).write_text(content)
        outcome = netsim("run", "e.toml", "--out", "r", "--quiet", "--force")
        assert outcome.exit_code == 0, outcome.output
        return load_result("r")

    return run_experiment


def experiment(transport, topology=TWO, more="", params="", kind="flow_list", file="f.csv"):
    table = f'[traffic]\nkind = "{kind}"\nfile = "{file}"\n'
    return f'name = "e"\n[transport]\nkind = "{transport}"\n{params}\n{topology}{table}{more}'


def listed(flows):
    rows = [(*row, *("100KB", "0us")[len(row) - 2 :]) for row in flows]
    return "\n".join(["src,dst,size,start", *(",".join(map(str, row)) for row in rows)])


def names(case):
    return f"{case[1]}-{case[0]}"


@pytest.mark.parametrize("case", CASES, ids=names)
def test_why_finds_the_known_cause(run_experiment, case):
    transport, cause, flows, place, blockers, changes = case
    result = run_experiment(experiment(transport, **changes), f_csv=listed(flows))
    found = explain_flow(result, 0)
    assert found.main_cause == cause, found.text()
    assert found.budget["time_ps"].sum() == found.total_ps == result.flows["fct_ps"][0]
    assert (found.budget["time_ps"] > 0).all()
    rows = [row for row in found.budget.to_dicts() if row["cause"] == cause]
    assert (rows[0]["place"] if rows else "") == place
    assert {flow for row in rows for flow in row["flows"]} == blockers
    assert all(sum(row["flows_ps"]) <= row["time_ps"] for row in found.budget.to_dicts())
    assert "unexplained" not in found.by_cause()
    if cause == "pfc":
        assert {row["root"] for row in rows} == {"leaf0 -> h0"}
    text = found.text()
    assert text.startswith("Flow 0 (h")
    assert place in text
    assert ("Nothing held it up" in text) == (cause == "")


def test_packets_of_others_are_kept_only_while_the_flows_wait(run_experiment):
    result = run_experiment(experiment("ndp"), f_csv=listed([*INCAST, (9, 0, "100KB", "1ms")]))
    replay = Replay.of(result)
    port = int(replay.scenario.network.port_peer[0])
    end_ps = int(result.flows["fct_ps"][0])
    everything = replay.record([0, 4], {port: [(0, 10**10)]}).entries.entries
    some = replay.record([0], {port: [(0, end_ps)]}, until_ps=10**10).entries.entries
    assert set(everything[:, FLOW].tolist()) == set(range(5))
    assert set(some[:, FLOW].tolist()) == set(range(4))
    assert np.isin(some[:, TIME], everything[:, TIME]).all()


def test_a_timeout_without_a_lost_packet_is_not_called_a_loss():
    parts = [Part("loss", "timeout without a drop", "", 200), Part("data", "", "", 50)]
    text = Explanation("It", 250, None, parts, pl.DataFrame()).text()
    assert "200ps of it (80%) went to a timeout: no packet was lost" in text


def test_why_names_the_link_that_sent_a_packet_again(run_experiment, monkeypatch):
    monkeypatch.setattr("netsim.engine.engine.jit_enabled", lambda: False)
    more = "[fabric]\nllr = true\n" + lost(TO_SPINE, "0us", "2us")
    result = run_experiment(experiment("roce", NARROW, more), f_csv=listed([(0, 4, "4KB")]))
    found = explain_flow(result, 0)
    assert found.budget["time_ps"].sum() == found.total_ps == result.flows["fct_ps"][0]
    assert "unexplained" not in found.by_cause()
    (retry,) = (row for row in found.budget.to_dicts() if row["cause"] == "loss")
    loop_ps = 4064 * 80 + 2 * 10**6 + 8 * 80
    assert (retry["place"], retry["time_ps"]) == (TO_SPINE, loop_ps)
    assert retry["manner"] == "link-level retry"


def test_rails_without_the_flow_are_not_simulated(run_experiment, monkeypatch):
    monkeypatch.setattr("netsim.engine.engine.jit_enabled", lambda: False)
    rails = [(1, 3), (5, 3), (0, 2), (4, 2)]
    result = run_experiment(experiment("ndp", RAILS), f_csv=listed(rails))
    replay = Replay.of(result)
    assert np.flatnonzero(hosts_with(replay.scenario, [0])).tolist() == [1, 3, 5]
    recording = replay.record([0])
    assert recording.trace(0).fct_ps == result.flows["fct_ps"][0]
    assert 0 < recording.engine.counts.hops <= result.summary["packet_hops"] // 2
    joined = run_experiment(experiment("ndp", RAILS), f_csv=listed([*rails, (2, 3)]))
    assert hosts_with(Replay.of(joined).scenario, [0]) is None


TASKS = """kind,host,duration,to,size,of,after,label
compute,9,10us,,,,,forward
compute,10,10us,,,,,forward
compute,4,{slow},,,,,forward
send,9,,8,{size},,0,
send,10,,8,{size},,1,
send,4,,8,{size},,2,
receive,8,,,,3,,
receive,8,,,,4,,
receive,8,,,,5,,
compute,8,5us,,,,6 7 8,last
"""


@pytest.mark.parametrize(
    ("slow_us", "size", "cause", "place"),
    [("30us", "20KB", "straggler", "h4"), ("10us", "60KB", "incast", "leaf2 -> h8")],
)
def test_why_explains_the_last_task(netsim, run_experiment, slow_us, size, cause, place):
    """Either a host computes for longer than the others, or flows fan in."""
    text = experiment("roce", kind="task_graph", file="t.csv")
    result = run_experiment(text, t_csv=TASKS.format(slow=slow_us, size=size))
    outcome = netsim("why", "--quiet", "r", "--json")
    assert outcome.exit_code == 0, outcome.output
    found = json.loads(outcome.stdout)
    assert found["main_cause"] == cause
    assert next(row["place"] for row in found["budget"] if row["cause"] == cause) == place
    total_ps = sum(row["time_ps"] for row in found["budget"])
    assert total_ps == found["total_ps"] == result.tasks["end_ps"].max()
    assert {name for row in found["budget"] for name in row} == {*COLUMNS["budget"]}


REQUESTS = "arrived_at,num_prefill_tokens,num_decode_tokens\n" + "0.0,300,4\n" * 2


def test_why_explains_gaps_and_first_tokens(netsim, run_experiment):
    """Two requests are prefilled together, so their KV caches are sent at the same time."""
    result = run_experiment(SERVED, trace_csv=REQUESTS)
    gap = explain_request(result, 1, "tbt")
    assert gap.main_cause == "kv_behind"
    assert gap.total_ps == gap.budget["time_ps"].sum() == result.requests["tbt_max_ps"][1]
    behind = next(row for row in gap.budget.to_dicts() if row["cause"] == "kv_behind")
    kinds = {result.flows["flow_kind"][flow] for flow in behind["flows"][:1]}
    assert (behind["place"], kinds) == ("h1 -> leaf0", {"kv"})
    first = explain_request(result, 1, "ttft")
    assert first.main_cause == "network"
    assert first.total_ps == first.budget["time_ps"].sum() == result.requests["ttft_ps"][1]
    whole = explain_request(result, 1)
    ends = result.requests["end_ps"][1] - result.requests["arrival_ps"][1]
    assert whole.total_ps == whole.budget["time_ps"].sum() == ends
    with raises_input(key="--request"):
        explain_request(result, 2, "ttft")
    text = netsim("why", "--quiet", "r")
    assert text.stdout.startswith("Time to first token of request")


def test_why_explains_iterations_with_simulated_all_reduce(run_experiment):
    """Control messages, collectives and computation fill an iteration whose all-reduce loses
    packets."""
    packets = SERVED.replace('kind = "serving"', 'kind = "serving"\nall_reduces = "packets"')
    packets += lost("leaf0 -> h1", "13us", "16us")
    result = run_experiment(packets, trace_csv=REQUESTS.replace(",300,", ",30,"))
    gap = explain_request(result, 1, "tbt")
    assert gap.budget["time_ps"].sum() == gap.total_ps == result.requests["tbt_max_ps"][1]
    first = explain_request(result, 0, "ttft")
    assert first.budget["time_ps"].sum() == first.total_ps == result.requests["ttft_ps"][0]
    assert first.main_cause == "loss", first.text()
    rows = first.budget.to_dicts()
    loss = next(row for row in rows if row["cause"] == "loss")
    assert (loss["place"], loss["manner"]) == ("leaf0 -> h1", "all_reduce, lost")
    iteration = result.iterations.row(0, named=True)
    computing_ps = iteration["end_ps"] - iteration["start_ps"] - iteration["network_ps"]
    assert [row["time_ps"] for row in rows if row["cause"] == "prefill"] == [computing_ps]
    assert "unexplained" not in first.by_cause()


def test_why_follows_relayed_messages_of_tasks(netsim, run_experiment):
    """The last task waits for a message that another message delays at its relay."""
    tasks = """kind,host,duration,to,size,of,after
send,0,,3,100KB,,
send,1,,3,100KB,,
receive,3,,,,0,
compute,3,5us,,,,2
"""
    result = run_experiment(experiment("roce", RAILS, kind="task_graph", file="t.csv"), t_csv=tasks)
    found = json.loads(netsim("why", "r", "--json").stdout)
    assert found["main_cause"] == "nic"
    rows = [row for row in found["budget"] if row["cause"] == "nic"]
    assert (rows[0]["place"], rows[0]["flows"]) == ("h1 -> rail1.switch", [1])
    total_ps = sum(row["time_ps"] for row in found["budget"])
    assert total_ps == found["total_ps"] == result.tasks["end_ps"].max()


def test_why_follows_flows_over_circuits_made_for_the_traffic(run_experiment):
    """Several routing tables: one of each phase, or one of the predicted circuits and packets."""
    for keys in (
        'reconfigure = "per_phase"\nreconfiguration_delay = "25us"',
        "bidirectional = false",
    ):
        made = ROTOR.replace("= 3", "= 1") + f'schedule = "demand_aware"\n{keys}\n'
        made += 'circuit_switches = 2\npacket_uplink_rate = "50Gbps"\n'
        traffic = '[traffic]\nkind = "halving_doubling"\nsize = "40KB"\n'
        result = run_experiment(f'name = "e"\ntransport = "ndp"\n{made}{traffic}')
        found = explain_flow(result, len(result.flows) - 1)
        assert found.budget["time_ps"].sum() == found.total_ps > 0
        assert "unexplained" not in found.by_cause()


def test_why_prints_the_cause_and_rejects_invalid_input(netsim, run_experiment):
    run_experiment(experiment("roce"), f_csv=listed(INCAST))
    text = netsim("why", "--quiet", "r", "--flow", "0")
    assert text.exit_code == 0
    assert "incast: leaf0 -> h0" in " ".join(text.stdout.split())
    assert "100.0 %" in text.stdout
    for arguments, message in (
        (("--flow", "9"), "no flow 9"),
        (("--flow", "x"), "not a flow"),
        (("--flow", "1", "--step", "1"), "mutually exclusive"),
        (("--step", "1"), "steps"),
        (("--request", "ttft"), "requests"),
    ):
        outcome = netsim("why", "--quiet", "r", *arguments)
        assert (outcome.exit_code, message in outcome.stderr) == (2, True), outcome.stderr
    run_experiment(experiment("roce", more='[stop]\nmax_time = "5us"\n'), f_csv=listed(INCAST))
    outcome = netsim("why", "--quiet", "r", "--flow", "0")
    assert (outcome.exit_code, "did not finish" in outcome.stderr) == (2, True), outcome.output


def test_plugin_source_of_a_result_needs_trust(netsim, run_experiment, tmp_path):
    plugin = tmp_path / "mine.py"
    plugin.write_text(registry.find("transport", "ndp").path.read_text())
    run_experiment(experiment("./mine.py"), f_csv=listed(ONE))
    plugin.unlink()
    outcome = netsim("why", "--quiet", "r", "--flow", "0")
    assert (outcome.exit_code, "--trust" in outcome.stderr) == (2, True), outcome.output
    assert netsim("why", "--quiet", "r", "--flow", "0", "--trust").exit_code == 0
