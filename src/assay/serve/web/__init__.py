"""The HTTP kernel: requests, responses, authentication, limits, OpenAPI and the server. It knows no kind of run."""
