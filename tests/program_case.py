"""Small programs: six tasks on two hosts, with handlers that a test writes."""

from pathlib import Path
from typing import Any

from engine_runs import DROP_TAIL, build

from netsim.engine.engine import Engine
from netsim.engine.kernels.layout import INF, RUNNING
from netsim.flows import COMPUTE, JOIN, RECEIVE, SEND, FlowTable, TaskTable, Workload
from netsim.model.network import Network
from netsim.plugins import registry
from netsim.plugins.registry import PluginSpec

HEAD = """
from netsim.program import *

PARAMS = []
TIMERS = 2
HOST_STATE = ("seen",)
LOG = ("event", "which")


def flows(params, network, rng, context):
    raise NotImplementedError
"""

# On host 0: a join, two compute tasks, a send; on host 1 the receive task and a compute task.
KINDS = [JOIN, COMPUTE, COMPUTE, SEND, RECEIVE, COMPUTE]
HOSTS = [0, 0, 0, 0, 1, 1]


def load_of(
    folder: Path, text: str, deferred: list[int], *, size: int = 4096, **more: Any
) -> Workload:
    """Return a workload of tasks, some deferred, with a program whose handlers are ``text``."""
    (folder / "mine.py").write_text(HEAD + text, "utf-8")
    plugin = registry.find("traffic", "mine.py", relative_to=folder)
    is_deferred = [k in deferred for k in range(len(KINDS))]
    durations = [0, 1000, 2000, 0, 0, 500]
    flow = [-1, -1, -1, 0, 0, -1]
    tasks = TaskTable(KINDS, HOSTS, durations, flow=flow, deferred=is_deferred)
    load = Workload(FlowTable([0], [1], size), tasks, **more)
    load = load.with_program(PluginSpec(plugin, {}), 2)
    load.validate(2)
    return load


def engine(network: Network, load: Workload, **options: Any) -> Engine:
    given = {"jit": False, "tasks": load.tasks, "program": load.program, **options}
    return build(network, load.flows, "datagram", DROP_TAIL, **given)


def body(handler: str, *lines: str) -> str:
    """Return a handler with these lines that acts on host 0 only."""
    arguments = {"on_begin": "", "on_task": ", task", "on_timer": ", k"}[handler]
    text = "".join(f"        {line}\n" for line in lines)
    return f"\n\ndef {handler}(env, now{arguments}):\n    if env.host.host == 0:\n{text}"


def done(one: Engine) -> int:
    """Run to completion, as `netsim run` does; return the status."""
    while (status := one.advance(100, INF, stop_when_done=True)) == RUNNING:
        pass
    return status
