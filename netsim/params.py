"""How a plugin of any kind declares its parameters: `PARAMS = [Param(...), ...]`."""

from __future__ import annotations

from netsim.plugins.params import REQUIRED, Param

__all__ = ["REQUIRED", "Param"]
