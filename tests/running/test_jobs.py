"""Several jobs on one network (traffic `jobs`): placement, interference, tables and errors."""

import json
from pathlib import Path

import numpy as np
import pytest
from engine_runs import US, fat_tree
from experiment_text import load, messages, text
from raises_input import fails, mentions, raises_input
from small_networks import rail_racks

from netsim.experiment.scenario import prepare
from netsim.html_report import jobs as html_report
from netsim.html_report.report import Report
from netsim.model.relays import RelayRule
from netsim.model.traffic import PLACEMENTS, Arrival, place_jobs, queue_jobs
from netsim.results import load_result
from netsim.running.point import simulate
from netsim.workloads.operations.table import OperationTable
from netsim.workloads.plots.timeline import View, timeline_of

RING = 'kind = "collective"\nwhat = "all_reduce"\nalgorithm = "ring"\nsize = "64KB"\n'
PACKET_PS = 332_800  # 4160 bytes at 100 Gbps
N_PACKETS = 10


def rng(seed=1):
    return np.random.default_rng(seed)


def experiment(top='run = "all"', network="", **jobs: str) -> str:
    """Return an experiment with jobs; `top` are keys of [traffic], above `kind`."""
    tables = {f"traffic.jobs.{name}": body for name, body in jobs.items()}
    network = network or 'kind = "fat_tree"\nhosts_per_leaf = 4\nleaves = 2\nhost_rate = "100Gbps"'
    return text(topology=network, traffic=f'kind = "jobs"\n{top}', **tables)


@pytest.fixture
def ran(tmp_path, monkeypatch):
    """Run an experiment's points as plain Python; return their results by name."""
    monkeypatch.setattr("netsim.engine.engine.jit_enabled", lambda: False)
    return lambda content, *more: {
        point.name: simulate(point) for point in load(tmp_path, content, *more).points()
    }


def times(result) -> dict[str, int]:
    return {one["job"]: one["time_ps"] for one in result.summary["placement"]}


class TestPlacement:
    network = fat_tree(4, 4, "100Gbps")

    def test_packed_jobs_take_the_hosts_that_no_list_names(self):
        wanted = {"a": 3, "list": [9, "0..1"], "b": 2}
        found = place_jobs(wanted, "packed", self.network, rng())
        assert {name: hosts.tolist() for name, hosts in found.items()} == {
            "a": [2, 3, 4],
            "list": [9, 0, 1],
            "b": [5, 6],
        }

    def test_interleaved_jobs_are_spread_in_proportion(self):
        found = place_jobs({"a": 8, "b": 4}, "interleaved", self.network, rng())
        assert found["b"].tolist() == [1, 4, 7, 10]
        assert sorted([*found["a"], *found["b"]]) == list(range(12))

    def test_strided_jobs_go_from_rack_to_rack(self):
        found = place_jobs({"a": 6, "b": 4}, "strided", self.network, rng())
        assert found["a"].tolist() == [0, 4, 8, 12, 1, 5]
        assert found["b"].tolist() == [9, 13, 2, 6]

    @pytest.mark.parametrize("placement", PLACEMENTS)
    def test_numbers_share_no_host(self, placement):
        found = place_jobs({"a": 5, "b": 7, "c": [3]}, placement, self.network, rng())
        hosts = np.concatenate([*found.values()])
        assert [len(one) for one in found.values()] == [5, 7, 1]
        assert np.unique(hosts).size == 13

    def test_relayed_networks_place_whole_racks(self):
        network = rail_racks(4, 2)
        object.__setattr__(network, "relays", RelayRule(2))
        found = place_jobs({"a": 4, "b": 4}, "interleaved", network, rng())
        assert (found["a"].tolist(), found["b"].tolist()) == ([0, 1, 4, 5], [2, 3, 6, 7])
        assert network.of_hosts(found["b"]).relays == RelayRule(2, hosts=4)
        with raises_input("whole racks of 2", key="a.hosts"):
            place_jobs({"a": 3}, "packed", network, rng())
        with raises_input("whole racks of 2"):
            network.of_hosts(np.array([1, 2]))


@pytest.mark.parametrize("network", [fat_tree(4, 4, "100Gbps", planes=2), rail_racks(4, 3)])
def test_network_of_hosts_has_their_paths(network):
    hosts = rng().permutation(network.n_hosts)[:5]
    part = network.of_hosts(hosts)
    assert part.n_hosts == 5
    assert part.n_switches == network.n_switches

    def switches(of, src, dst):
        return [of.port_name(port).partition(":")[0] for port in of.path(src, dst)[1:]]

    first, of_part = network.node_first_port, part.node_first_port
    for a, b in [(0, 1), (1, 4), (3, 2)]:
        for k in range(int(first[hosts[a] + 1] - first[hosts[a]])):
            ports = int(first[hosts[a]]) + k, int(first[hosts[b]]) + k
            own = int(of_part[a]) + k, int(of_part[b]) + k
            assert part.port_rate_bps[own[0]] == network.port_rate_bps[ports[0]]
            if network.port_network[ports[0]] == network.port_network[ports[1]]:
                assert switches(part, *own) == switches(network, *ports)


class TestInterference:
    def test_jobs_under_leaves_of_their_own_take_the_same_time(self, ran):
        content = experiment(
            'run = ["all", "a", "b"]', a=f"{RING}hosts = 4", b=f"{RING}hosts = 4\nchunk = '8KB'"
        )
        found = ran(content)
        together = times(found["run=all"])
        assert together == {**times(found["run=a"]), **times(found["run=b"])}
        assert together["a"] != together["b"]
        both, alone = (found[f"run={name}"].summary for name in ("all", "b"))
        assert [job["name"] for job in both["jobs"]] == ["a", "b"]
        assert both["jobs"][1]["steps"] == alone["job"]["steps"]

    def test_rings_over_one_link_take_twice_as_long(self, ran):
        """Each of two steps sends 10 packets from left to right and from right to left. Over the
        link, which is as fast as a host, packets of both jobs alternate."""
        network = (
            'kind = "dumbbell"\nhosts = 2\nhost_rate = "100Gbps"\nbottleneck_rate = "100Gbps"\n'
            'host_delay = "1us"\nbottleneck_delay = "1us"'
        )
        ring = f"{RING}hosts".replace("64KB", f"{2 * N_PACKETS * 4096}B")
        content = experiment(
            'run = ["all", "a", "b"]', network, a=f"{ring} = [0, 2]", b=f"{ring} = [1, 3]"
        ).replace('"ndp"', '"datagram"')
        found = ran(content, 'fabric.queue_bytes="1MB"')
        together = times(found["run=all"])
        delay_ps = 2 * PACKET_PS + 3 * US  # store and forward at two switches
        assert times(found["run=a"])["a"] == 2 * (N_PACKETS * PACKET_PS + delay_ps)
        assert times(found["run=b"])["b"] == times(found["run=a"])["a"]
        # In both steps, the link is busy from the first packet of `a` to the last one of `b`. `a`
        # ends its first step a packet before `b`, so its first two packets precede all of `b`.
        assert together["b"] == 2 * (2 * N_PACKETS * PACKET_PS + delay_ps) - PACKET_PS
        assert together["a"] == together["b"] - 2 * PACKET_PS

    def test_job_that_starts_later_has_its_start_in_its_tables(self, ran):
        content = experiment(
            'run = ["all", "b"]',
            a=f'{RING}hosts = ["0..3"]',
            b=f'{RING}hosts = ["0..3"]\nstart = "1ms"',
        )
        found = ran(content)
        one, other = found["run=all"].summary["placement"]
        assert (one["start_ps"], other["start_ps"]) == (0, 1000 * US)
        assert (one["hosts"], other["hosts"]) == ("0..3", "0..3")
        assert one["end_ps"] < other["start_ps"]
        # They run one after the other on the same hosts.
        assert other["time_ps"] == one["time_ps"] == times(found["run=b"])["b"]
        operations, flows = found["run=all"].operations, found["run=all"].flows
        of_b = operations["job"] == "b"
        assert operations["start_ps"][of_b].min() == 1000 * US
        assert operations["end_ps"][of_b].max() == other["end_ps"]
        assert flows["start_ps"][flows["job"] == "b"].min() == 1000 * US
        steps = [job["steps"][0] for job in found["run=all"].summary["jobs"]]
        assert steps[0] == steps[1]
        assert steps[0]["time_ps"] == one["time_ps"]

    def test_flows_without_tasks_are_jobs_too(self, ran):
        content = experiment(
            a='kind = "permutation"\nhosts = [1, 3, 5]\nsize = "20KB"',
            b='kind = "incast"\nfan_in = 2\nsize = "20KB"\nhosts = 3\nstart = "5us"',
        )
        (result,) = ran(content).values()
        a, b = result.summary["placement"]
        flows = result.flows
        assert flows["job"].tolist() == ["a"] * 3 + ["b"] * 2
        assert set(flows["src"][:3]) == {1, 3, 5}
        assert set(flows["dst"][3:]) <= {0, 2, 4}
        assert (flows["start_ps"][3:] == 5 * US).all()
        assert b["fct_ps"]["max"] == flows["fct_ps"][3:].max() == b["time_ps"]
        assert a["flows"] + b["flows"] == result.summary["flows"]


LIST = """job,work,arrival,estimate,hosts
# waits for two hosts of `one`
two, ring, 1us, 20us, 6
one, ring, 0us, 100us,
three, mesh, 2us, 20us, 5
"""
MESH = 'kind = "permutation"\nsize = "20KB"\nhosts = 2\nstart = "3us"'


class TestArrivals:
    network = fat_tree(4, 2, "100Gbps")

    def queue(self, placement="packed", **jobs):
        """Return the queue of jobs, each its arrival, number of hosts and estimate."""
        arrivals = {
            name: Arrival("", came, n, estimate, placement)
            for name, (came, n, estimate) in jobs.items()
        }
        queue = queue_jobs(arrivals, self.network, rng())
        return {name: (hosts.tolist(), queue.waits[name]) for name, hosts in queue.hosts.items()}

    def test_jobs_get_free_hosts_or_those_that_are_free_first(self):
        found = self.queue(a=(0, 3, 50), b=(0, 5, 20), c=(1, 4, 9), d=(60, 1, 9))
        assert found["c"] == ([3, 4, 5, 6], ["b"])  # at 20
        assert found["d"] == ([0], ["a"])

    def test_no_job_overtakes_another(self):
        """There is room for c from the beginning; it is placed at 50, like b."""
        found = self.queue(a=(0, 3, 50), b=(1, 6, 20), c=(2, 2, 20))
        assert (found["b"], found["c"]) == (([0, 1, 2, 3, 4, 5], ["a"]), ([6, 7], []))
        assert self.queue("strided", a=(0, 4, 1))["a"] == ([0, 4, 1, 5], [])

    def test_relayed_networks_queue_whole_racks(self):
        network = rail_racks(4, 2)
        object.__setattr__(network, "relays", RelayRule(2))
        arrivals = {name: Arrival("", 0, 4, 9, "packed") for name in "abc"}
        queue = queue_jobs(arrivals, network, rng())
        assert [hosts.tolist() for hosts in queue.hosts.values()] == [
            [0, 1, 2, 3],
            [4, 5, 6, 7],
            [0, 1, 2, 3],
        ]
        assert queue.waits == {"a": [], "b": [], "c": ["a"]}

    def test_jobs_start_when_the_jobs_before_have_ended_and_told(self, ran, tmp_path):
        (tmp_path / "list.csv").write_text(LIST)
        content = experiment(
            'arrivals = "list.csv"\nrun = ["all", "one", "two", "three"]',
            ring=f"{RING}hosts = 4",
            mesh=MESH,
        )
        found = ran(content)
        jobs = {one["job"]: one for one in found["run=all"].summary["placement"]}
        assert [one["hosts"] for one in jobs.values()] == ["0..3", "0..5", "0..4"]
        assert [one["arrival_ps"] for one in jobs.values()] == [0, 1 * US, 2 * US]
        one, two, three = jobs.values()
        assert (one["start_ps"], one["queued_ps"]) == (0, 0)
        message_ps = 2 * 1_064 * 80 + 2 * US  # two links of a leaf, each with a delay of 1 us
        for before, after in ((one, two), (two, three)):
            told_ps = after["start_ps"] - before["end_ps"]
            assert message_ps <= told_ps < 3 * message_ps
            assert after["queued_ps"] == after["start_ps"] - after["arrival_ps"]
        for name, job in jobs.items():
            alone = found[f"run={name}"].summary["placement"][0]
            assert (alone["queued_ps"], alone["start_ps"]) == (0, job["arrival_ps"])
            assert alone["time_ps"] == pytest.approx(job["time_ps"], rel=0.01)
        flows, tasks = found["run=all"].flows, found["run=all"].tasks
        its = flows["job"] == "three"
        assert its.sum() == 5
        assert (flows["start_ps"][its] >= three["start_ps"] + 3 * US).all()  # `start` of its table
        launches = flows["job"] == ""
        assert set(flows["flow_kind"][launches]) == {"launch"}
        assert launches.sum() == (3 + 5 + 4) + (3 + 5)  # to start; to end, before others
        assert (tasks["end_ps"] >= 0).all()
        steps = [job["steps"][0]["time_ps"] for job in found["run=all"].summary["jobs"]]
        assert steps == [one["time_ps"], two["time_ps"]]

    @pytest.mark.parametrize(
        ("row", "line", "values"),
        [
            ("a,ring,0us", 2, "4 columns"),
            ("a,rings,0us,1us", "list.csv:2", ("rings", "ring")),
            ("a,ring,0,1us", "list.csv:2", "arrival"),
            ("a,ring,0us,1us\na,ring,1us,1us", "list.csv:3", ("a", "already")),
        ],
    )
    def test_errors_name_the_line(self, tmp_path, row, line, values):
        (tmp_path / "list.csv").write_text(f"job,work,arrival,estimate\n{row}\n")
        content = experiment('arrivals = "list.csv"', ring=f"{RING}hosts = 4")
        (point,) = load(tmp_path, content).points()
        with raises_input(*([values] if isinstance(values, str) else values), str(line)):
            prepare(point)

    @pytest.mark.parametrize(
        ("cells", "values"),
        [("9,packed", ("hosts", "8")), ("4,dense", ("dense", "packed")), (",", ("hosts", "list"))],
    )
    def test_errors_of_hosts_and_placement(self, tmp_path, cells, values):
        (tmp_path / "list.csv").write_text(
            f"job,work,arrival,estimate,hosts,placement\na,ring,0us,1us,{cells}\n"
        )
        content = experiment('arrivals = "list.csv"', ring=f'{RING}hosts = ["0..3"]')
        (point,) = load(tmp_path, content).points()
        with raises_input(*values, "list.csv:2"):
            prepare(point)


def test_a_job_is_the_same_alone_and_beside_others(tmp_path):
    jobs = {name: f'kind = "permutation"\nhosts = {n}' for name, n in (("a", 4), ("b", 3))}
    content = experiment('placement = "random"\nrun = ["all", "b"]', **jobs)
    both, alone = (prepare(point).flows for point in load(tmp_path, content).points())
    assert np.array_equal(both.src[4:], alone.src)
    assert np.array_equal(both.dst[4:], alone.dst)


def test_parameters_of_jobs_may_be_swept(tmp_path):
    content = experiment(a='kind = "permutation"\nhosts = 4\nload = [0.5, 1.0]')
    points = load(tmp_path, content).points()
    assert list(points[0].axes) == ["traffic.jobs.a.load"]
    resolved = [point.resolved["traffic"]["jobs"]["a"] for point in points]
    assert [(one["load"], one["hosts"]) for one in resolved] == [(0.5, 4), (1.0, 4)]
    again = load(tmp_path, content, "traffic.jobs.a.hosts=[7, '1..2']", "traffic.jobs.a.load=1")
    assert again.points()[0].resolved["traffic"]["jobs"]["a"]["hosts"] == [7, "1..2"]


def test_operations_are_at_the_hosts_of_their_job(tmp_path):
    content = experiment(a=f"{RING}hosts = [6, 1, 4]")
    (point,) = load(tmp_path, content).points()
    load_ = prepare(point).load
    operations = load_.part(OperationTable)
    assert operations.host[np.argsort(operations.rank)].tolist() == [6, 1, 4]
    assert set(load_.tasks.host) == {6, 1, 4}


GOOD = f"{RING}hosts = 4"


@pytest.mark.parametrize(
    ("top", "body", "key", "values"),
    [
        ("", f"{RING}", "traffic.jobs.a.hosts", "missing"),
        ("", f"{RING}hosts = 0", "traffic.jobs.a.hosts", "at least 1"),
        ("", 'kind = "rings"\nhosts = 4', "traffic.jobs.a", "rings"),
        ("", f"{GOOD}\nsizes = 3", "traffic.jobs.a.sizes", "size"),
        ("", f'{RING}hosts = "0-3"', "traffic.jobs.a.hosts", ("0-3", "5..9")),
        ("", f"{RING}hosts = 9", "traffic.jobs.a.hosts", ("9 hosts", "8 free")),
        ("", f'{RING}hosts = ["6..8"]', "traffic.jobs.a.hosts", ("6..8", "0 to 7")),
        ("", f'{RING}hosts = ["2..4", 3]', "traffic.jobs.a.hosts", ("duplicate", 3)),
        ("", f"{GOOD}\ngroup_size = 3", "traffic.jobs.a.group_size", "divisor of 4"),
        ("", f'{GOOD}\nstart_jitter = "1us"', "traffic.jobs.a.start_jitter", "remove"),
        ('run = "b"', GOOD, "traffic.run", ("b", "all")),
        ('placement = "dense"', GOOD, "traffic.placement", ("dense", "packed")),
    ],
)
def test_errors_name_the_key_of_the_job(tmp_path, top, body, key, values):
    content = experiment(top or 'run = "all"', a=body)
    with raises_input(values, file="e.toml", key=key):
        for point in load(tmp_path, content).points():
            prepare(point)


def test_jobs_must_be_tables(tmp_path):
    content = experiment('jobs = "a"')
    assert any("traffic.jobs.NAME" in line for line in messages(tmp_path, content))


def test_a_program_runs_at_the_hosts_of_its_job(ran):
    """Ring and server are on separate leaves. Host 6 is the server."""
    program = 'kind = "batch_server"\nrequests = 20\nhosts = [6, 4, 5, 7]'
    found = ran(experiment('run = ["all", "b"]', a=f'{RING}hosts = ["0..3"]', b=program))
    both, alone = found["run=all"].flows, found["run=b"].flows
    its = both["job"] == "b"
    for name in ("src", "dst", "start_ps", "fct_ps"):
        assert (both[name][its] == alone[name]).all()
    assert set(alone["dst"][:20]) == {6}
    assert set(alone["src"][:20]) == {4, 5, 7}
    assert (alone["fct_ps"] > 0).all()


def test_programs_do_not_wait_for_hosts(tmp_path):
    (tmp_path / "list.csv").write_text("job,work,arrival,estimate\na,server,1us,1us\n")
    program = 'kind = "batch_server"\nhosts = 4'
    (point,) = load(tmp_path, experiment('arrivals = "list.csv"', server=program)).points()
    with raises_input("program", "arrivals", key="traffic.jobs.server.kind"):
        prepare(point)


def test_commands_tell_jobs_apart(netsim, tmp_path):
    jobs = {name: f'{RING}hosts = 3\nstart = "{start}us"' for name, start in (("a", 0), ("b", 4))}
    content = experiment('placement = "interleaved"\nrun = ["all", "a", "b"]', **jobs)
    (tmp_path / "two.toml").write_text(f'name = "two"\n{content}')
    ran = netsim("run", "two.toml")
    assert ran.exit_code == 0, ran.output
    together = {one["job"]: one for one in load_result("results/two/run=all").summary["placement"]}
    mentions(ran.output, "slowdown", "0, 2, 4", "1, 3, 5")
    told = netsim("why", "results/two/run=all", "--step", "b:0", "--json")
    found = json.loads(told.stdout)
    mentions(found["subject"], "step 0 of b")
    assert found["total_ps"] == together["b"]["time_ps"]
    # The whole run ends with b, whose start comes first on its path.
    whole = netsim("trace", "results/two/run=all", "--critical-path", "--json")
    first = json.loads(whole.stdout)["segments"][0]
    assert (first["segment_type"], first["end_ps"]) == ("start", 4 * US)
    fails(netsim("why", "results/two/run=all", "--step", "c:0"), 2, "c", "a, b")
    fails(netsim("why", "results/two/run=all", "--step", "b:1"), 2, "0 to 0")
    fails(netsim("why", "results/two/run=all", "--step", "b"), 2, "b:0")
    drawn = netsim("plot", "results/two", "--x", "run", "--y", "b.time")
    assert drawn.exit_code == 0, drawn.output
    timeline = timeline_of([load_result("results/two/run=all")], View())
    names = timeline.rows["rank_name"].unique(maintain_order=True).to_list()
    assert names[:3] == ["a, h0", "b, rank 0 (h1)", "a, rank 1 (h2)"]
    (section,) = html_report.comparison(Report([Path("results/two")]))
    assert [row[1] for row in section.parts[0]["rows"]] == ["a", "b"]
