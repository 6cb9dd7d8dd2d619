"""Traffic patterns: one file each, with PARAMS and flows(...) -> FlowTable."""
