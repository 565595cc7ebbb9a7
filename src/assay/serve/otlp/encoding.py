"""The answers of OTLP/HTTP, in the encoding of the request: what was accepted, or the status of an error."""

import msgspec

PROTOBUF, JSON = b"application/x-protobuf", b"application/json"
INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED, EXHAUSTED, INTERNAL, UNAVAILABLE = 3, 5, 7, 8, 13, 14
CODES = {
    403: PERMISSION_DENIED,
    404: NOT_FOUND,
    413: EXHAUSTED,
    429: EXHAUSTED,
    500: INTERNAL,
    503: UNAVAILABLE,
}


def export_response(media: bytes, member: str, rejected: int, message: str) -> bytes:
    """An ExportTraceServiceResponse or ExportLogsServiceResponse. `member`: rejectedSpans or rejectedLogRecords."""
    if not rejected and not message:
        return b"" if media == PROTOBUF else b"{}"
    if media == PROTOBUF:
        return _field(1, _number(1, rejected) + _field(2, message.encode()))
    partial = {member: str(rejected), "errorMessage": message}
    return msgspec.json.encode({"partialSuccess": partial})


def status_message(media: bytes, http_status: int, message: str) -> bytes:
    """A google.rpc.Status."""
    code = CODES.get(http_status, INVALID_ARGUMENT)
    if media == PROTOBUF:
        return _number(1, code) + _field(2, message.encode())
    return msgspec.json.encode({"code": code, "message": message})


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value) if value else b""


def _field(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
