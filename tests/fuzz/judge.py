"""Run `netsim` within limits, and find errors in what it says and writes."""

import contextlib
import io
import re
import resource
import signal
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import polars as pl

SECONDS = 20.0  # limit on the processor time of a command; all cases are small

MAX_MEMORY_BYTES = 1_200_000_000
ADDRESS_BYTES = 4 * 2**30
MAX_LINE, MAX_TEXT = 2_000, 30_000

PYTHONIC = re.compile(
    r"Traceback|object at 0x|NoneType|<class |<function|np\.(int|float|uint|bool|str)|\bdtype|"
    r"list index|dict key|unsupported operand|not supported between|Input should be|"
    r"invalid literal|"
    r"has no attribute|positional argument|object is not|must be str|argument must be|"
    r"int too large|too large to convert|codec can't|surrogates not allowed|array\(|ndarray|"
    r"KeyError|ValueError|TypeError|Exception|\[Errno"
)
"""Words of Python's own messages, which do not help a user."""

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class OverTimeError(BaseException):
    """A case has used up its time. Not an Exception, since the code under test could catch it."""


@dataclass(frozen=True)
class Outcome:
    """The end of a command: its exit status and what it printed."""

    status: int
    out: str
    err: str


@contextlib.contextmanager
def limits(seconds: float) -> Iterator[None]:
    """Raise OverTimeError after these seconds of processor time, and limit new memory."""

    def over(_signum: int, _frame: FrameType | None) -> None:
        raise OverTimeError

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGPROF, over)
    resource.setrlimit(resource.RLIMIT_AS, (_memory("VmSize") + ADDRESS_BYTES, hard))
    signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)  # repeated in case it is swallowed
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _memory(name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) * 1024


def run(
    arguments: Sequence[str], statuses: Sequence[int] = (0, 2), seconds: float = SECONDS
) -> Outcome:
    """Run `netsim ARGUMENTS`; check its end, its memory and its messages."""
    from netsim.cli import main

    out, err, status = io.StringIO(), io.StringIO(), 0
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak
    held = _memory("VmRSS")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), limits(seconds):
        try:
            main(list(arguments))
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        except Exception:
            err.write(traceback.format_exc())
    text = err.getvalue()
    assert "Traceback (most recent" not in text + out.getvalue(), text[-3000:]
    assert status in statuses, text
    assert _memory("VmHWM") - held < MAX_MEMORY_BYTES
    assert not ("Warning: " in text and ".py:" in text), text
    if status in (1, 2):
        assert "error: " in text.lower(), text
        assert not PYTHONIC.search(text), text
        assert not CONTROL.search(text), repr(text)
        assert len(text) <= MAX_TEXT
        assert all(len(line) <= MAX_LINE for line in text.splitlines())
    return Outcome(status, out.getvalue(), text)


def assert_names(err: str, key: str) -> None:
    """Check that every error begins with a path or an option, and that one names the key."""
    lines = [line for line in err.splitlines() if line.startswith("error: ")]
    assert all(re.match("error: (/|--)", line) for line in lines), err
    if "invalid TOML" in err or "nested too deeply" in err:
        return  # the file as a whole
    words = [
        CONTROL.sub(lambda it: f"\\x{ord(it[0]):02x}", word) for word in key.split(".") if word
    ]
    assert not words or any(word in err for word in words), f"{key} is not named: {err}"


def assert_sound(result: Any) -> None:
    """Check the invariants of a result's tables."""
    summary, flows = result.summary, result.flows
    reliable = _is_reliable(result.experiment["resolved"])
    assert summary["simulated_ps"] >= 0
    assert summary["hash"] == result.experiment["hash"]
    unstarted = summary.get("flows_unstarted", 0)  # flows that a program never started
    if summary["complete"]:
        assert summary["stop_reason"] == "finished" or not reliable
        assert not reliable or summary["flows_finished"] + unstarted == summary["flows"]
    wrong = {
        "an FCT below the ideal": pl.col("fct_ps") < pl.col("ideal_ps"),
        "a start in the past": pl.col("start_ps") < 0,
        "done after the end": pl.col("start_ps") + pl.col("fct_ps") > summary["simulated_ps"],
        "done, but not all was sent": pl.col("fct_ps").is_not_null()
        & (pl.col("packets_sent") < pl.col("packets")),
        "more retransmissions than packets": pl.col("retransmits") > pl.col("packets_sent"),
        "negative counts": (pl.col("packets_sent") < 0) | (pl.col("retransmits") < 0),
        "no size": (pl.col("size_bytes") < 1) | (pl.col("packets") < 1),
    }
    if reliable:  # other senders finish once everything is sent
        wrong["acknowledged before it is done"] = pl.col("acked_ps") < pl.col("fct_ps")
    for name, rule in wrong.items():
        assert flows.filter(rule).is_empty(), f"{name}: {flows.filter(rule).row(0, named=True)}"
    assert flows["fct_ps"].drop_nulls().len() == summary["flows_finished"]
    if (result.path / "links.parquet").is_file() and "rate_bps" in result.links.columns:
        counts = result.links.select(pl.selectors.integer()).min().row(0)
        assert min(count for count in counts if count is not None) >= 0
        bytes_, rate = pl.col("bytes").sum(), pl.col("rate_bps").first().cast(pl.Float64)
        # A packet counts from its first bit, so one may still be in transmission at the end.
        room = rate / 8e12 * summary["simulated_ps"] + 2**17
        links = result.links.group_by("link").agg(over=bytes_ > room * 1.000001)
        assert not links["over"].any()


def _is_reliable(resolved: dict[str, Any]) -> bool:
    """Return whether all transports of a result deliver every flow."""
    from netsim.plugins import registry

    uses = [resolved, *resolved.get("flow_classes", {}).values()]
    names = [registry.split_preset(use["transport"]["kind"])[0] for use in uses]
    modules = [registry.find("transport", name).module for name in names]
    return all(getattr(module, "RELIABLE", True) for module in modules)
