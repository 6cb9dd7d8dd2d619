"""Queue disciplines: one file for each, named in an experiment by `fabric.model`."""
