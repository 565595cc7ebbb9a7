"""The one place that replaces what differs from run to run: ids, times, durations, versions, ports, folders."""

import re

from assay import __version__

TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d| UTC)?"
FIELD = r'(?:"(?:[^"]|"")*"|[^",\n]*),'  # of a .csv
NOT_ENDED = r'"status": "(?:pending|running)"(,\s*)'  # of an operation: it may have begun when it is answered
NUMBERED = r"\b(eval_|run-|ev-|inv-|int-)[0-9a-f]{24,28}\b"
MARKS = [
    (NUMBERED, r"\1<N>"),  # the same id has the same number wherever it stands in a file
    (r"\b(eval_|run-)[0-9a-f]{10,}\b", r"\1<id>"),
    (r"\b(req_|key_)[0-9A-Za-z_-]{6,}", r"\1<id>"),
    (r"\bassay_[0-9A-Za-z_-]{16,}", "<api key>"),
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<uuid>"),
    (TIME, "<time>"),
    (NOT_ENDED + r'("created_at": "<time>",)(?:\s*"started_at": "<time>",)?', r'"status": "<not ended>"\1\2'),
    (
        NOT_ENDED + r'"completed_test_cases": \d+',
        r'"status": "<not ended>"\1"completed_test_cases": <number>',
    ),
    (r'(etag: (?:W/)?)"[0-9a-f]+"', r'\1"<etag>"'),
    (r"( revision \d+\s+sha256:)[0-9a-f]+", r"\1<digest>"),  # of a record with times
    (r'("(?:principal|decidedBy)": ?)"[a-z0-9]{8}"', r'\1"<key>"'),
    (r"127\.0\.0\.1:\d+", "127.0.0.1:<port>"),
    (r'("[\w.]*(?:_ms|Ms|seconds)": ?)[\d.e-]+', r"\1<ms>"),
    (r'("step_ms": ?)\[[\d, ]+\]', r"\1<ms>"),
    (rf"(?m)^((?:{FIELD}){{15}})\d[\d.e-]*,", r"\1<ms>,"),  # latency_ms
    (rf"(?m)^((?:{FIELD}){{17}})\d[\d.e-]*,", r"\1<ms>,"),  # check_ms
    (r'(<c r="[PR]\d+"[^>]*><v>)[\d.e-]+', r"\1<ms>"),  # both in an .xlsx
    (r'([ "]) *\d[\d,.]* m?s\b', r"\1<duration>"),
    (r" +p95\b", " p95"),  # the heading over durations
    (r"\brun +score\b", "run score"),  # the heading over ids: they are as long as they must be to differ
    (r"assay\.cli\.main", "assay"),  # as a forked command calls itself
    (re.escape(__version__), "<version>"),
]


class Normaliser:
    """Of one file: it numbers the ids in the order in which they come."""

    def __init__(self, folder):
        self._folder, self._numbers, self._originals = str(folder), {}, {}

    def __call__(self, text):
        text = text.replace(self._folder, "<folder>")
        for pattern, mark in MARKS:
            text = re.sub(pattern, lambda found, mark=mark: self._mark(found, mark), text)
        return text

    def original(self, text):
        """The text with the ids for their marks."""
        return re.sub(r"(?:eval_|run-)<\d+>", lambda found: self._originals[found[0]], text)

    def _mark(self, found, mark):
        if "N>" in mark:
            numbers = self._numbers.setdefault(found[1], {})
            number = numbers.setdefault(found[0], len(numbers) + 1)
            mark = mark.replace("N>", f"{number}>")
        text = found.expand(mark)
        self._originals[text] = found[0]
        return text
