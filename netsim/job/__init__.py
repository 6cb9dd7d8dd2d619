"""The job that trains a model, as data and formulas: how it is divided, computed and scheduled."""
