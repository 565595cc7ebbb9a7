"""The number of values in a JSON text, without decoding it."""

from assay.errors import InvalidRequest, Problem

STRUCTURE = b'[{",'  # each list, object, string and further value has at least one of these bytes


def elements(text: bytes) -> int:
    """The number of brackets, quotes and commas in a JSON text: an upper bound for its number of values."""
    return len(text) - len(text.translate(None, STRUCTURE))


def check_elements(text: bytes, limit: int, path: str = "", setting: str = "ASSAY_MAX_ELEMENTS") -> None:
    """Refuse a text with more than `limit` elements: decoding it would hold the GIL for too long."""
    if len(text) > limit and elements(text) > limit:
        where = f" ({setting})" if setting else ""
        message = f"more than {limit} brackets, quotes and commas, which is the limit{where}"
        raise InvalidRequest(Problem(path, message))
