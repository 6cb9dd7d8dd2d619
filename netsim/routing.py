"""Names that a routing algorithm imports; see netsim/routing_algorithms/README.md. Times are in
picoseconds."""

from __future__ import annotations

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
from netsim.engine.kernels.routing_services import candidate, held
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
    "ACK", "CNP", "DATA", "ECN_CE", "ECN_ECHO", "FIRST_CONTROL", "NACK", "PULL",
    "PURPOSE_PERMUTATION", "PURPOSE_SPRAY", "TRIMMED", "below", "candidate", "held", "mix",
    "permuted", "rand32", "serialization_ps",
]  # fmt: skip
