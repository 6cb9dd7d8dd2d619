"""Queue disciplines, one file each; an experiment selects one by `fabric.queue_discipline`."""
