"""From a point of an experiment to its result: prediction, the loop around the engine, sweeps."""
