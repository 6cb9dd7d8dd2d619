"""Results: writing and loading a result directory."""
