"""Experiments: a strict TOML file, its sweeps, and their points.

experiment = Experiment.load("experiments/start/p2p_512.toml", ["seed=2"])
for point in experiment.points(): ...
"""

from netsim.common.discovery import built_in
from netsim.experiment.load import Experiment, locate
from netsim.experiment.schema import Point

__all__ = ["Experiment", "Point", "built_in", "locate"]
