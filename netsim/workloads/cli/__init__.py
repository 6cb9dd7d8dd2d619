"""Commands of AI workloads, and their additions to other commands."""

from pathlib import Path

COMMANDS = {
    "Workloads": {
        "workload": (
            "netsim.workloads.cli.workload",
            "Model training jobs and served models by formula.",
        ),
        "calibrate": (
            "netsim.workloads.cli.calibrate",
            "Make a machine from measured collectives.",
        ),
        "cost": ("netsim.workloads.cli.cost", "Compare GPUs by cost, power and failures."),
        "reproduce": ("netsim.workloads.cli.reproduce", "Reproduce a figure of the paper."),
    }
}
"""As in `netsim.cli.app`."""

WORKLOADS = Path(__file__).parents[1]
FILES = {
    "job": ("jobs", WORKLOADS / "job/presets/jobs"),
    "deployment": ("deployments", WORKLOADS / "inference/presets/deployments"),
    "cost": ("costs", WORKLOADS / "cost/presets"),
}
"""Files for `netsim list` and `netsim show`: kind -> (plural, folder of presets)."""

TRACES = ("netsim.workloads.cli.critical", "netsim.workloads.cli.request")
"""Other modes of `netsim trace`: modules with `OPTIONS` and `show`."""

SUBJECTS = TRACES[::-1]  # of `netsim why`: modules with `OPTION`, `applies` and `explain`
