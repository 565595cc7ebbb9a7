"""
The HTTP kernel: requests, responses, authentication, admission, idempotency, OpenAPI and the server. It knows no kind
of run.
"""
