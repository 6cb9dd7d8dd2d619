"""Analytic model of prefill and decode: iteration times, and what fits in memory."""
