"""A serving run: which requests come when, which machines serve them, and what became of each."""
