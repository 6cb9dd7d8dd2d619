"""The columns of what a serving run writes: requests, iterations, and figures in a sweep."""

from __future__ import annotations

from netsim.results.column import Column

REQUESTS = (
    Column("request", "index", "number of the request, in the order of their arrival"),
    Column("arrival_ps", "ps", "when it came"),
    Column("prompt_tokens", "tokens", "of its prompt"),
    Column("output_tokens", "tokens", "that it asked for"),
    Column("prefill_instance", "index", "machine that computes its prompt"),
    Column(
        "decode_instance",
        "index",
        "machine that decodes it; null if the first one does",
        null_below_zero=True,
    ),
    Column(
        "kv_first_flow",
        "index",
        "first of the flows that carry its KV cache; null where none is sent",
        null_below_zero=True,
    ),
    Column("kv_flows", "flows", "how many these are, with numbers one behind the other"),
    Column(
        "prefill_start_ps",
        "ps",
        "when its prompt began to be computed; null of what has not happened, here and below",
        null_below_zero=True,
    ),
    Column("first_token_ps", "ps", "when it was told its first token", null_below_zero=True),
    Column(
        "kv_transfer_start_ps",
        "ps",
        "when the first flow of its KV cache started; null where none is sent",
        null_below_zero=True,
    ),
    Column(
        "kv_transfer_end_ps",
        "ps",
        "when all of its KV cache was at its decode machine, and that knew",
        null_below_zero=True,
    ),
    Column(
        "decode_start_ps",
        "ps",
        "when the first iteration began in which it was decoded",
        null_below_zero=True,
    ),
    Column("done_ps", "ps", "when it was told its last token", null_below_zero=True),
    Column("queueing_ps", "ps", "from its arrival until prefill_start_ps", null_below_zero=True),
    Column("ttft_ps", "ps", "time to first token, from its arrival", null_below_zero=True),
    Column("tokens", "tokens", "that it was told"),
    Column(
        "second_token_ps",
        "ps",
        "from its first token to its second, in which its KV cache is sent; null below two tokens",
        null_below_zero=True,
    ),
    Column(
        "tbt_p50_ps",
        "ps",
        "time between tokens: the least that half of its gaps do not exceed, the first included",
        null_below_zero=True,
    ),
    Column(
        "tbt_p99_ps", "ps", "likewise of 99 % of them, by which goodput goes", null_below_zero=True
    ),
    Column("tbt_max_ps", "ps", "the longest of its gaps", null_below_zero=True),
    Column("tpot_ps", "ps", "the mean of its gaps: time per output token after the first"),
    Column("restarts", "restarts", "how often a machine failed while it held the request"),
)

ITERATIONS = (
    Column("machine", "index", "machine that computes"),
    Column("host", "host", "its leader, the first of its hosts"),
    Column("role", "", "mixed, prefill or decode: what the machine does"),
    Column("start_ps", "ps", "when the iteration began"),
    Column("end_ps", "ps", "when it was done, and its tokens were told"),
    Column("batch", "sequences", "that decode, each of which gets a token"),
    Column("prompt_tokens", "tokens", "of prompts that it computes"),
    Column("context_tokens", "tokens", "before the sequences that decode, all together"),
    Column("pairs", "pairs", "of a query and a key, of the prompts' tokens"),
    Column(
        "network_ps",
        "ps",
        "of its time what is none of computing: all-reduces, by formula or in packets, and reading "
        "from a pool, as far as they are not hidden behind it",
    ),
)

SERVING_SWEEP = (
    Column("offered_per_s", "1/s", "requests to a served model that came, per second"),
    Column("requests_per_s", "1/s", "those that were done, per second"),
    Column("tokens_per_s", "1/s", "tokens that were told, per second"),
    Column(
        "goodput_per_s", "1/s", "requests of those that came in a second that met the objective"
    ),
    Column("met", "1", "share of all requests that met the objective"),
    Column("stalled", "requests", "requests with a gap between tokens beyond the stall limit"),
    Column("queueing_p99_ps", "ps", "99th percentile of the time until prompts are computed"),
    Column("ttft_p50_ps", "ps", "median time to first token"),
    Column("ttft_p99_ps", "ps", "99th percentile of it"),
    Column("tbt_p50_ps", "ps", "median time between tokens, of all gaps of all requests"),
    Column("tbt_p99_ps", "ps", "99th percentile of it"),
    Column("tbt_max_ps", "ps", "the longest of these gaps"),
    Column("second_token_p99_ps", "ps", "99th percentile of the gap after the first token"),
    Column("network_share", "1", "share of the time of iterations that is none of computing"),
    Column("restarts", "restarts", "requests that a machine lost as it failed"),
    Column("capacity", "1", "mean share of the GPUs that failures left at work"),
)
