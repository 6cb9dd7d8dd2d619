"""Commands about AI workloads, and what they add to those of the simulator."""

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
"""Files that `netsim list` and `netsim show` know: kind -> (plural, module with `presets()`)."""

TRACES = ("netsim.workloads.cli.critical", "netsim.workloads.cli.request")
"""Options of `netsim trace` beside --flow: modules with `OPTIONS` and `show`."""
