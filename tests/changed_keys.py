"""Job and deployment files with random keys changed."""

from netsim.params import keys_of
from netsim.workloads.job.load import WITH_PRESETS

COUNTS = (0, 1, 2, 3, 4, 5, 7, 8, 16, 18, 32, 64, 100, 1000, 12345, 10**9, 10**13, -1)
WORDS = (
    *("full", "selective", "none", "interleaved", "gpipe", "zb_h1", "zb_h2", "1f1b", "latent"),
    *("multi_head", "paper", "hierarchical", "fp4", "fp8", "bf16", "fp16", "fp32", "adam", "sgd"),
    *("ring", "direct", "causal", "x", ""),
)
OTHERS = (
    *(True, False, 0.01, 0.5, 1.5, 1e-12, float("nan"), float("inf"), [], [1, 2, 3], {}, {"a": 1}),
    *([[0, 0.5]], [[0, 0.5], ["1MB", 0.9]], "10us", "1s", "1GB", "1TB", "100Gbps", "2048GB/s"),
    "1TFLOP/s",
)


def changed(rng, tree, parts, most):
    """Return a tree with up to `most` keys of its `parts` changed; presets become tables."""
    for part in WITH_PRESETS:
        if isinstance(tree.get(part), str):
            tree[part] = {"preset": tree[part]}
    for _ in range(rng.choice(most)):
        part = rng.choice(list(parts))
        known = keys_of(parts[part])
        key = rng.choice(list(known))
        kinds = (COUNTS, COUNTS, WORDS, OTHERS) if known[key].unit == "count" else (WORDS, OTHERS)
        tree.setdefault(part, {})[key] = rng.choice(rng.choice(kinds))
    return tree
