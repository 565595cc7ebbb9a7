"""secret_leak: the text has a credential, known by its format, by the name beside it, or by the sentence around it."""

from collections.abc import Iterator, Sequence
from typing import Any

from assay.checks.safety.detector import Detection, Detector, texts_in
from assay.checks.safety.secret_assignments import find_assignments, is_named_secret, is_password
from assay.checks.safety.secret_formats import entropy, find_formats, is_placeholder, is_random
from assay.ports import Services
from assay.protocol.secret_patterns import find_secrets

Span = tuple[int, int, str]


class SecretLeak(Detector):
    type = "secret_leak"
    waits = False
    kind = "secret-leak"
    severity = "critical"
    task_arguments = {"text": "$.output.value"}  # noqa: RUF012

    text: Any

    def detections(self, services: Services) -> Sequence[Detection]:
        detections: list[Detection] = []
        name = where_of_name = ""
        for where, text in texts_in("text", self.text):
            if where.endswith("~"):
                name, where_of_name = text, where[:-1]
            rule = is_named_secret(name, text) if where == where_of_name else None
            spans = [(0, len(text), rule)] if rule else secret_spans(text)
            detections += (Detection(where, start, end, rule) for start, end, rule in spans)
        return detections


def secret_spans(text: str) -> list[Span]:
    """Start, end and rule of every secret, from left to right, without overlaps: the first of two wins."""
    spans: list[Span] = []
    for span in sorted((*format_spans(text), *find_assignments(text))):
        if not spans or span[0] >= spans[-1][1]:
            spans.append(span)
    return spans


def format_spans(text: str) -> list[Span]:
    """Start, end and rule of every secret that has a format of its own, in any order."""
    spans = [
        (start, end, rule)
        for start, end, rule in find_formats(text)
        if not is_placeholder(text[start:end]) and entropy(text[start : min(end, start + 200)]) >= 2.5
    ]
    return [*_redacted(text), *spans]


def _redacted(text: str) -> Iterator[Span]:
    """
    The formats that redaction hides, without those that are not secret: public keys, placeholders, words with hyphens.
    """
    for found in find_secrets(text):
        value = text[found.first : min(found.last, found.first + 4000)]
        if _is_plausible(found.name, value):
            yield found.first, found.last, found.name


def _is_plausible(name: str, value: str) -> bool:
    if name == "private-key":
        body = value[value.find("KEY-----") + 8 :]
        return (
            len([one for one in body[:400] if one.isalnum() or one in "+/="]) >= 40 and "..." not in body[:80]
        )
    if name == "password":
        return is_password(value, quoted=True) and value.lower() not in _DEFAULTS
    if value.startswith("pk_"):  # Stripe's publishable keys belong into pages
        return False
    if name == "basic":
        return not is_placeholder(value) and (value.endswith("=") or is_random(value))
    return is_random(value, 10) if name != "aws-key" else not is_placeholder(value) and entropy(value) >= 2.5


_DEFAULTS = frozenset(("passwd", "postgres", "secret", "password", "guest", "example", "password123"))
