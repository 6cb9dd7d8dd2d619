"""Queue disciplines: one file for each, named in an experiment by `fabric.queue_discipline`."""
