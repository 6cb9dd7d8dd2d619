"""Used in every folder: reading and writing files, memory, the terminal, finding modules."""
