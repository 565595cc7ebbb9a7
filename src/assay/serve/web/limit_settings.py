"""Limits of a server (FEP-40): a request beyond them gets 413 or 429, and never hangs."""

from msgspec import Struct

MB = 1024 * 1024


class ServerLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Each is a setting, `[serving]` in assay.toml and flat in the environment. Bytes are counted decompressed."""

    max_body_bytes: int = 64 * MB  # of a JSON body, which is held in memory
    max_document_bytes: int = 4 * MB  # of a JSON body that is stored whole, such as the inputs of a run
    max_upload_bytes: int = 4096 * MB  # of an NDJSON body, which is spooled to disk
    max_held_bytes: int = 512 * MB  # of all JSON bodies in memory at the same time, with their decoded form
    max_tenant_held_bytes: int = 256 * MB  # the same, of one tenant
    max_trace_bytes: int = (
        256 * MB
    )  # of the spans of a tenant and a project that wait to be scored, as stored
    max_elements: int = 1_000_000  # brackets, quotes and commas of a text decoded in one call
    max_message_bytes: int = 4 * MB  # of a gRPC response; clients refuse more by default
    max_streams: int = 128  # concurrent calls on one gRPC connection
    max_requests: int = 512  # in flight at the same time, event streams not counted
    max_tenant_requests: int = 256
    max_runs: int = 64  # in flight at the same time
    max_tenant_runs: int = 16
    max_followers: int = 1_000
    max_tenant_followers: int = 500
    max_batch: int = 100  # evaluations in one batch
    max_page: int = 1_000
    max_connections: int = 2_000  # at the same time
    max_head_bytes: int = 64 * 1024  # of the request line and the headers
    max_headers: int = 128  # of one request
    head_seconds: float = 10.0  # for the head of a request, and for a TLS handshake
    idle_seconds: float = 30.0  # between two requests on a connection
    body_seconds: float = 30.0  # without a byte of the body, or with less than 1 kB/s
    max_body_seconds: float = 300.0  # for a whole JSON body
    max_upload_seconds: float = 3_600.0  # for a whole NDJSON body
    send_seconds: float = 60.0  # without the client reading a byte of the response
    ping_seconds: float = 15.0  # between two keep-alives on an event stream
    replay_hours: float = 48.0  # that an Idempotency-Key is kept, at least
