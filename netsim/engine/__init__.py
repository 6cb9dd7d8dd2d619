"""The packet engine: README.md in this folder has its method, MODEL.md what is simulated."""
