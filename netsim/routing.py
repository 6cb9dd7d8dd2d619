"""Names that a routing algorithm imports; see netsim/routing_algorithms/README.md. Times are in
picoseconds."""

from __future__ import annotations

from netsim.engine.kernels.layout import INF
from netsim.engine.kernels.packets import (
    ACK,
    CNP,
    DATA,
    ECN_CE,
    ECN_ECHO,
    FIRST_CONTROL,
    NACK,
    PULL,
    TRIMMED,
)
from netsim.engine.kernels.routing import (
    candidate,
    candidates,
    candidates_at,
    dimension_of,
    egress,
    far_group,
    far_group_at,
    flow_row,
    free_at,
    group_of,
    held,
    hops_to,
    is_up,
    level_of,
    n_groups,
    ps_per_byte_q20,
    publish,
    published,
    set_level,
    set_via,
    via_of,
    waiting,
)
from netsim.model.arithmetic import (
    PURPOSE_PERMUTATION,
    PURPOSE_SPRAY,
    below,
    mix,
    permuted,
    rand32,
    serialization_ps,
)

__all__ = [
    "ACK", "CNP", "DATA", "ECN_CE", "ECN_ECHO", "FIRST_CONTROL", "INF", "NACK", "PULL",
    "PURPOSE_PERMUTATION", "PURPOSE_SPRAY", "TRIMMED", "below", "candidate", "candidates",
    "candidates_at", "dimension_of", "egress", "far_group", "far_group_at", "flow_row", "free_at",
    "group_of", "held", "hops_to", "is_up", "level_of", "mix", "n_groups", "permuted",
    "ps_per_byte_q20", "publish", "published", "rand32", "serialization_ps", "set_level", "set_via",
    "via_of", "waiting",
]  # fmt: skip
