"""Commands of AI workloads, and their additions to other commands."""

COMMANDS = {
    "Workloads": {
        "workload": (
            "netsim.workloads.cli.workload",
            "Model training jobs and served models by formula.",
        ),
        "cost": ("netsim.workloads.cli.cost", "Compare GPUs by cost, power and failures."),
        "reproduce": ("netsim.workloads.cli.reproduce", "Reproduce a figure of the paper."),
    }
}
"""As in `netsim.cli.app`."""

FILES = {
    "job": ("jobs", "netsim.workloads.job.load"),
    "deployment": ("deployments", "netsim.workloads.inference.load"),
    "cost": ("costs", "netsim.workloads.cost.load"),
}
"""Files for `netsim list` and `netsim show`: kind -> (plural, module with `presets()`)."""

TRACES = ("netsim.workloads.cli.critical", "netsim.workloads.cli.request")
"""Other modes of `netsim trace`: modules with `OPTIONS` and `show`."""
