"""From a transport's file to machine code: read, joined, specialized, compiled, kept."""
