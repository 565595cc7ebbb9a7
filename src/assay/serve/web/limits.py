"""How much a server takes on at once (decision 40): beyond it, 413 or 429, never a hang."""

from msgspec import Struct

MB = 1024 * 1024


class ServerLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Each is a setting, under `[serving]` in assay.toml and flat in the environment. Bytes count unpacked."""

    max_body_bytes: int = 64 * MB  # a JSON body, which is held in memory
    max_upload_bytes: int = 4096 * MB  # a body of lines, which is put on disk
    max_held_bytes: int = (
        512 * MB
    )  # all the JSON bodies held at the same time, with what they become when decoded
    max_tenant_held_bytes: int = 256 * MB  # those of one tenant
    max_elements: int = 1_000_000  # brackets, quotes and commas of what is decoded in one go
    max_message_bytes: int = 4 * MB  # an answer over gRPC; more is what no client takes unless it is told to
    max_streams: int = 128  # calls at the same time on one connection of gRPC
    max_requests: int = 512  # being answered at the same time, followers aside
    max_tenant_requests: int = 256
    max_runs: int = 64  # under way at the same time
    max_tenant_runs: int = 16
    max_followers: int = 1_000
    max_tenant_followers: int = 500
    max_batch: int = 100  # evaluations in one batch
    max_page: int = 1_000
    max_connections: int = 2_000  # at the same time
    max_head_bytes: int = 64 * 1024  # the line and the headers of a request
    max_headers: int = 128  # of a request
    head_seconds: float = 10.0  # for the head of a request, and for a handshake
    idle_seconds: float = 30.0  # between two requests on a connection
    body_seconds: float = 30.0  # without a byte of its body, or with less than 1 kB a second
    max_body_seconds: float = 300.0  # for all of a body that is held in memory
    max_upload_seconds: float = 3_600.0  # for all of a body of lines
    send_seconds: float = 60.0  # without a byte of an answer taken
    ping_seconds: float = 15.0  # between two signs of life to a follower
    replay_hours: float = 48.0  # that an Idempotency-Key is remembered, at least
