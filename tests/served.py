"""Small serving runs, compiled only if `options` say so, and their logs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine_runs import DROP_TAIL, build
from traffic_cases import made, star

from netsim.engine.engine import Engine
from netsim.running.drive import FINISHED, drive
from netsim.workloads.inference.deployment import (
    IterationCost,
    iteration_cost,
    iteration_ps,
    load_deployment,
)
from netsim.workloads.inference.deployment import prompt_pairs as pairs_of
from netsim.workloads.serving.plan import EVENTS, LOG, ServingPlan

US, MS = 10**6, 10**9

Request = tuple[float, int, int]  # arrival in us, prompt tokens, output tokens


def deployment(tp: int = 2, **more: Any) -> dict[str, Any]:
    """Return two layers of 64 x 64; 256 bytes of KV cache per token; an iteration takes 100 us."""
    return {
        "model": {
            "layers": 2,
            "hidden": 64,
            "heads": 24,
            "head_size": 8,
            "kv_heads": 8,
            "feed_forward": 128,
            "sequence": 64,
            "vocabulary": 1024,
            **more.pop("model", {}),
        },
        "machine": {
            "memory": "1GB",
            "memory_rate": "1TB/s",
            "domain_gpus": 8,
            "matrix": {"peak": {"fp8": "1TFLOP/s"}},
            "scale_up": {"rate": "800Gbps"},
            "scale_out": {"rate": "100Gbps"},
            **more.pop("machine", {}),
        },
        "options": {"tp": tp, **more.pop("options", {})},
        "overheads": {"iteration_overhead": "100us", **more},
    }


def cost(tp: int = 2, **more: Any) -> IterationCost:
    """Return the cost of an iteration of such an instance."""
    return iteration_cost(load_deployment(deployment(tp, **more)))


def prefill_ps(of: IterationCost, tokens: int, before: int = 0, batch: int = 0, context: int = 0):
    """Return the time of an iteration with one chunk of a prompt."""
    pairs = pairs_of(True, before, tokens)
    return iteration_ps(of, tokens + batch, pairs, batch, context)


def decode_ps(of: IterationCost, *contexts: int) -> int:
    """Return the time of an iteration of decoding sequences."""
    return iteration_ps(of, len(contexts), 0, len(contexts), sum(contexts))


class Served:
    """A finished run: plan, engine and log."""

    def __init__(self, tmp_path: Path, requests: Sequence[Request], **given: Any) -> None:
        rows = "\n".join(f"{at},{prompt},{output}" for at, prompt, output in requests)
        (tmp_path / "trace.csv").write_text(f"arrival_us,prompt_tokens,output_tokens\n{rows}\n")
        n_hosts = given.pop("n_hosts", 8)
        options = {"jit": False, **given.pop("options", {})}
        given.setdefault("deployment", deployment())
        load = made(
            "serving",
            n_hosts,
            directory=tmp_path,
            arrival_process="trace",
            length_distribution="trace",
            trace="trace.csv",
            **given,
        )
        plan = load.part(ServingPlan)
        assert plan is not None
        self.load, self.plan, self.params = load, plan, given
        simulated = {"tasks": load.tasks, "program": load.program, **options}
        engine = build(star(n_hosts), load.flows, "datagram", DROP_TAIL, **simulated)
        self.engine: Engine = engine
        assert drive(engine) == FINISHED
        log = engine.program_log()
        assert log is not None
        names = ("host", "time_ps", *LOG)
        self.rows: list[dict[str, int]] = [
            dict(zip(names, row, strict=True))
            for row in zip(*(log[name].tolist() for name in names), strict=True)
        ]

    def told(self, what: str, host: int | None = None) -> list[dict[str, int]]:
        """Return the log rows of an event, of one host or of all."""
        kind = EVENTS.index(what)
        return [r for r in self.rows if r["event"] == kind and host in (None, r["host"])]

    def times(self, what: str) -> dict[int, int]:
        """Return each request's last time of an event."""
        return {row["request"]: row["time_ps"] for row in self.told(what)}

    def iterations(self, host: int = 0) -> list[tuple[int, int, int, int]]:
        """Return (start, end, prompt tokens, decoding sequences) of the instance led by a host."""
        rows = self.told("iteration", host)
        return [(r["start_ps"], r["time_ps"], r["count"], r["decode_batch"]) for r in rows]


def all_served_once(plan: ServingPlan, served: Served) -> None:
    """Check that every request finishes once with all its tokens, and that no others exist."""
    done = served.told("done")
    assert sorted(row["request"] for row in done) == list(range(len(plan.requests)))
    assert [row["count"] for row in done] == [
        plan.requests.output_tokens[row["request"]] for row in done
    ]
    decoded = sum(row["decode_batch"] for row in served.told("iteration"))
    first = len(served.told("first token"))
    assert decoded + first == plan.requests.output_tokens.sum()
