"""Random routing algorithms that have parameters."""

from __future__ import annotations

import random
from typing import Any

from .random_graphs import NS, US

VIA = ("valiant", "ugal_l", "ugal_g", "par")
"""Those that need a single routing table, and packets that circuits do not send elsewhere."""

WITH_PARAMETERS = ("wcmp", "letflow", "conga", "drill", "adaptive", *VIA)


def parameters(rng: random.Random) -> dict[str, Any]:
    """Return the parameters of all algorithms."""
    return {
        "flowlet_gap_ps": rng.choice((0, 100 * NS, US, 5 * US, 30 * US)),
        "feedback_age_ps": rng.choice((US, 20 * US, 500 * US)),
        "dre_period_ps": rng.choice((50 * NS, 333 * NS + 1, US, 20 * US)),
        "dre_alpha": rng.choice((0.01, 0.2, 0.33, 0.5, 1.0)),
        "samples": rng.choice((1, 2, 2, 3, 8)),
        "remember": rng.random() < 0.6,
        "queue_level": rng.choice((1, 1, 2, 4)),
        "valiant_unit": rng.choice(("packet", "flow")),
        "intermediate": rng.choice(("any", "other")),
        "ugal_weight": rng.choice((0, 1, 2)),
        "publish_delay_ps": rng.choice((5 * US, 7 * US + 1, 20 * US)),
        "ugal_threshold": rng.choice((0, 0, 1, 3)),
    }
