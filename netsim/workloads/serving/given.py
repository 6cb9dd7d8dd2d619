"""Parameters that are missing, or given without effect."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from netsim.errors import InputError


def check_used(
    params: Mapping[str, Any],
    uses: Mapping[str, tuple[bool, str]],
    optional: Collection[str] = (),
) -> None:
    """Raise InputError if a parameter has no effect, or is used and missing unless `optional`.

    `uses` says of each parameter whether it is used, and when it would be.
    """
    for name, (used, when) in uses.items():
        if params[name] is not None and not used:
            hint = f"it is for {when}"
            raise InputError("has no effect", key=f"traffic.{name}", hint=hint, code="no_effect")
        if params[name] is None and used and name not in optional:
            hint = f"required by {when}"
            raise InputError("missing", key=f"traffic.{name}", hint=hint, code="missing")
