"""Names with which a plugin declares its parameters: `PARAMS = [Param(...), ...]`."""

from __future__ import annotations

from netsim.plugins.params import REQUIRED, Param

__all__ = ["REQUIRED", "Param"]
