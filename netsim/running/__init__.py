"""Run experiments: predictions, the loop around the engine, sweeps and checkpoints."""
