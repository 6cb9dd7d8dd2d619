"""Cost, power and availability of GPUs by die size, at equal silicon."""
