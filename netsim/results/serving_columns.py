"""Columns of a serving run: requests, iterations, and its metrics in a sweep."""

from __future__ import annotations

from netsim.results.column import Column

REQUESTS = (
    Column("request", "index", "request, in order of arrival"),
    Column("arrival_ps", "ps", "arrival"),
    Column("prompt_tokens", "tokens", "tokens of the prompt"),
    Column("output_tokens", "tokens", "tokens to generate"),
    Column("prefill_instance", "index", "instance that computes the prompt"),
    Column(
        "decode_instance",
        "index",
        "instance that decodes; null if it is prefill_instance",
        null_below_zero=True,
    ),
    Column(
        "kv_first_flow",
        "index",
        "first flow of the KV-cache transfer; null without one",
        null_below_zero=True,
    ),
    Column("kv_flows", "flows", "flows of the KV-cache transfer, numbered consecutively"),
    Column(
        "prefill_start_ps",
        "ps",
        "start of the prefill; null if it did not start, as for the times below",
        null_below_zero=True,
    ),
    Column("first_token_ps", "ps", "when the first token was generated", null_below_zero=True),
    Column(
        "kv_transfer_start_ps",
        "ps",
        "start of the first flow of the KV cache; null without a transfer",
        null_below_zero=True,
    ),
    Column(
        "kv_transfer_end_ps",
        "ps",
        "when the decode instance had the whole KV cache and was notified",
        null_below_zero=True,
    ),
    Column(
        "decode_start_ps",
        "ps",
        "start of the first iteration that decoded the request",
        null_below_zero=True,
    ),
    Column("end_ps", "ps", "when the last token was generated", null_below_zero=True),
    Column("queueing_ps", "ps", "from arrival to prefill_start_ps", null_below_zero=True),
    Column("ttft_ps", "ps", "time to first token, from arrival", null_below_zero=True),
    Column("generated_tokens", "tokens", "tokens generated"),
    Column(
        "second_token_ps",
        "ps",
        "from the first token to the second, with the KV-cache transfer; null below two tokens",
        null_below_zero=True,
    ),
    Column(
        "tbt_p50_ps",
        "ps",
        "median time between tokens, including the first gap",
        null_below_zero=True,
    ),
    Column(
        "tbt_p99_ps",
        "ps",
        "99th percentile of the time between tokens; the SLO is about this one",
        null_below_zero=True,
    ),
    Column("tbt_max_ps", "ps", "longest time between tokens", null_below_zero=True),
    Column("tpot_ps", "ps", "mean time between tokens: time per output token after the first"),
    Column("restarts", "restarts", "instance failures while the request was in progress"),
)

ITERATIONS = (
    Column("instance", "index", "instance that computes"),
    Column("host", "host", "its leader, the first of its hosts"),
    Column("role", "", "role of the instance: mixed, prefill or decode"),
    Column("start_ps", "ps", "start of the iteration"),
    Column("end_ps", "ps", "end of the iteration, when its tokens are generated"),
    Column("decode_batch", "sequences", "sequences that decode; each gets a token"),
    Column("prompt_tokens", "tokens", "prompt tokens computed"),
    Column("context_tokens", "tokens", "tokens before the decoding sequences, summed"),
    Column("attention_pairs", "pairs", "pairs of a query and a key, for the prompt tokens"),
    Column(
        "network_ps",
        "ps",
        "communication not overlapped with compute: all-reduces, by formula or in packets, and "
        "reads from a memory pool",
    ),
)

SERVING_SWEEP = (
    Column("offered_per_s", "1/s", "requests that arrived, per second"),
    Column("requests_per_s", "1/s", "requests completed, per second"),
    Column("tokens_per_s", "1/s", "tokens generated, per second"),
    Column("goodput_per_s", "1/s", "requests that met the SLO, per second of arrivals"),
    Column("slo_attainment", "1", "share of all requests that met the SLO"),
    Column("stalled", "requests", "requests with a time between tokens above the stall limit"),
    Column("queueing_p99_ps", "ps", "99th percentile of the time from arrival to prefill"),
    Column("ttft_p50_ps", "ps", "median time to first token"),
    Column("ttft_p99_ps", "ps", "99th percentile of the time to first token"),
    Column("tbt_p50_ps", "ps", "median time between tokens, over all requests"),
    Column("tbt_p99_ps", "ps", "99th percentile of the time between tokens"),
    Column("tbt_max_ps", "ps", "longest time between tokens"),
    Column("second_token_p99_ps", "ps", "99th percentile of the time from first to second token"),
    Column("network_share", "1", "share of iteration time that is not compute"),
    Column("restarts", "restarts", "requests lost to failures of instances, and restarted"),
    Column("available_gpu_share", "1", "mean share of the GPUs that failures left available"),
)
