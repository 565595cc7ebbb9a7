"""A process from its settings: the parts, the host, servers, a worker."""
