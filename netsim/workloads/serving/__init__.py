"""A serving run: which requests come when, which instances serve them, and what became of each."""
