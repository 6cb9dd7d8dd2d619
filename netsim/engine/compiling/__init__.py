"""From a transport's file to machine code: read, joined, specialised, compiled, kept."""
