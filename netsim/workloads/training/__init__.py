"""A step of training as operations of ranks, and which part of a job is simulated."""
