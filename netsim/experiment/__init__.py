"""Experiments: one strict TOML file, its sweeps, and the points that they make.

experiment = Experiment.load("experiments/start/p2p_512.toml", ["seed=2"])
for point in experiment.points(): ...
"""

from netsim.experiment.load import Experiment
from netsim.experiment.locate import built_in, locate
from netsim.experiment.model import Outputs, Point, StopCondition

__all__ = [
    "Experiment",
    "Outputs",
    "Point",
    "StopCondition",
    "built_in",
    "locate",
]
