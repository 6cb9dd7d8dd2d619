"""`netsim why --request`: explain the latency of a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from netsim.results import Result
    from netsim.tracing.why import Explanation

TTFT, TBT = "ttft", "tbt"

OPTION = (
    "request",
    click.option(
        "--request",
        metavar="N",
        help=f'Explain this request; "{TTFT}": the worst time to first token, "{TBT}": the longest '
        "gap between tokens.",
    ),
)


def applies(result: Result) -> bool:
    """Return whether a result has requests."""
    return result.requests is not None


def explain(result: Result, text: str | None, where: Mapping[str, Any]) -> Explanation:
    """Explain a request, by default the worst time to first token."""
    from netsim.workloads.cli.request import request_number
    from netsim.workloads.tracing.why_request import explain_request

    text = text or TTFT
    number = request_number(result, f"worst-{text}" if text in (TTFT, TBT) else text)
    return explain_request(result, number, text if text in (TTFT, TBT) else "", **where)
