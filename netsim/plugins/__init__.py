"""Find plugins of every kind, load their files and read what they declare."""
