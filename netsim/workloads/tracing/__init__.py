"""Critical paths of jobs, and latency breakdowns of requests."""
