"""What runs of AI workloads report beside flows, tasks and links."""
