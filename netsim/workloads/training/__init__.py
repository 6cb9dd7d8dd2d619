"""A step of training as operations of ranks, and the simulated part of a job."""
