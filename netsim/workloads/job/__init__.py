"""Analytic model of a training job: compute times, messages, memory, step time."""
